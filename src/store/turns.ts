// What is asked in one turn of the event loop is asked together: to ask takes its time, for however much.

/** `ask` answers up to `most` questions, in their order; when it throws, none of these has an answer. */
export function inTurns<Question, Answer>(
  ask: (questions: Question[]) => Promise<Answer[]>,
  most: number,
): (question: Question) => Promise<Answer> {
  interface Waiting {
    question: Question
    resolve: (answer: Answer) => void
    reject: (reason: unknown) => void
  }
  let waiting: Waiting[] = []

  async function answer(some: Waiting[]) {
    try {
      const answers = await ask(some.map(({ question }) => question))
      for (const [i, { resolve }] of some.entries()) resolve(answers[i] as Answer)
    } catch (reason) {
      for (const { reject } of some) reject(reason)
    }
  }

  function endTurn() {
    const all = waiting
    waiting = []
    for (let i = 0; i < all.length; i += most) void answer(all.slice(i, i + most))
  }

  return question =>
    new Promise((resolve, reject) => {
      if (!waiting.length) setImmediate(endTurn)
      waiting.push({ question, resolve, reject })
    })
}
