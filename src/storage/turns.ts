// What is asked in one turn of the event loop, and while an answer is on its way, is asked together: to ask
// takes its time, for however much.

/**
 * `ask` answers up to `most` questions, in their order, and is asked again when it has. When it throws,
 * neither these have an answer nor those that wait for it: nobody waits in vain twice.
 */
export function inTurns<Question, Answer>(
  ask: (questions: Question[]) => Promise<Answer[]>,
  most: number,
): (question: Question) => Promise<Answer> {
  interface Waiting {
    question: Question
    resolve: (answer: Answer) => void
    reject: (reason: unknown) => void
  }
  const waiting: Waiting[] = []
  let isAsking = false

  async function askAll() {
    while (waiting.length) await answer(waiting.splice(0, most))
    isAsking = false
  }

  async function answer(some: Waiting[]) {
    try {
      const answers = await ask(some.map(({ question }) => question))
      for (const [i, { resolve }] of some.entries()) resolve(answers[i] as Answer)
    } catch (reason) {
      for (const { reject } of [...some, ...waiting.splice(0)]) reject(reason)
    }
  }

  return question =>
    new Promise((resolve, reject) => {
      waiting.push({ question, resolve, reject })
      if (!isAsking) setImmediate(askAll)
      isAsking = true
    })
}
