// Passkeys: asks the browser for one, or to add one, and sends its answer with the form of the page. Without scripts,
// or without passkeys in the browser, the buttons stay hidden.
const { PublicKeyCredential } = window

const bytesOf = text =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), char =>
    char.charCodeAt(0),
  )
const textOf = bytes =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '')

/** For browsers without parseRequestOptionsFromJSON and parseCreationOptionsFromJSON. */
function parse(options) {
  const withBytes = credential => ({
    ...credential,
    id: bytesOf(credential.id),
  })
  const { user, allowCredentials, excludeCredentials } = options
  return {
    ...options,
    challenge: bytesOf(options.challenge),
    ...(user && { user: { ...user, id: bytesOf(user.id) } }),
    ...(allowCredentials && {
      allowCredentials: allowCredentials.map(withBytes),
    }),
    ...(excludeCredentials && {
      excludeCredentials: excludeCredentials.map(withBytes),
    }),
  }
}

/** For browsers without PublicKeyCredential.toJSON. */
function write({ id, type, response, authenticatorAttachment }) {
  const {
    clientDataJSON,
    attestationObject,
    authenticatorData,
    signature,
    userHandle,
  } = response
  const parts = {
    clientDataJSON,
    attestationObject,
    authenticatorData,
    signature,
    userHandle,
  }
  const given = Object.entries(parts).filter(([, part]) => part)
  const fields = Object.fromEntries(
    given.map(([name, part]) => [name, textOf(part)]),
  )
  const transports = response.getTransports?.()
  const clientExtensionResults = {}
  const answer = { ...fields, ...(transports && { transports }) }
  return {
    id,
    rawId: id,
    type,
    authenticatorAttachment,
    clientExtensionResults,
    response: answer,
  }
}

/** The request that waits for autofill. The button ends it, because a browser answers one at a time. */
let waiting = new AbortController()

/** Returns the credential, as JSON. */
async function ask({ create, get }, mediation) {
  waiting.abort()
  waiting = new AbortController()
  const options = JSON.parse(create ?? get)
  const native = create
    ? 'parseCreationOptionsFromJSON'
    : 'parseRequestOptionsFromJSON'
  const publicKey = PublicKeyCredential[native]?.(options) ?? parse(options)
  const request = {
    publicKey,
    signal: waiting.signal,
    ...(mediation && { mediation }),
  }
  const credential =
    await navigator.credentials[create ? 'create' : 'get'](request)
  // Some password managers have a toJSON that fails.
  try {
    return JSON.stringify(credential.toJSON())
  } catch {
    return JSON.stringify(write(credential))
  }
}

function send(form, answer) {
  form.elements.passkey.value = answer
  // Not requestSubmit: the fields of the password may be empty.
  form.submit()
}

/** Prepares a button, its form, and the sentence that is shown when the browser gave no passkey. */
function prepare(place) {
  const button = place.querySelector('button')
  const failed = place.querySelector('[data-failed]')
  const form = button.form
  button.addEventListener('click', async () => {
    button.disabled = true
    failed.hidden = true
    try {
      send(form, await ask(place.dataset))
    } catch (error) {
      // InvalidStateError: the device has a passkey of this account.
      failed.textContent =
        failed.dataset[error.name === 'InvalidStateError' ? 'known' : 'failed']
      failed.hidden = false
      button.disabled = false
      button.focus()
      // The button has ended the request that waits for autofill.
      if ('autofill' in place.dataset) void offer(form, place.dataset)
    }
  })
  place.hidden = false
  for (const without of document.querySelectorAll('[data-without-passkeys]'))
    without.hidden = true
  if ('focus' in place.dataset) button.focus()
  if ('autofill' in place.dataset) void offer(form, place.dataset)
}

/** Offers passkeys where the browser fills in the username. */
async function offer(form, options) {
  if (!(await PublicKeyCredential.isConditionalMediationAvailable?.())) return
  try {
    send(form, await ask(options, 'conditional'))
  } catch {
    // The user chose none, or the button.
  }
}

/** Tells the browser which passkeys are valid, so that it no longer offers the others. */
function signal({ unknown, accepted }) {
  const told = unknown
    ? PublicKeyCredential.signalUnknownCredential?.(JSON.parse(unknown))
    : PublicKeyCredential.signalAllAcceptedCredentials?.(JSON.parse(accepted))
  told?.catch(() => {})
}

if (PublicKeyCredential) {
  for (const place of document.querySelectorAll('[data-get], [data-create]'))
    prepare(place)
  for (const place of document.querySelectorAll(
    '[data-unknown], [data-accepted]',
  ))
    signal(place.dataset)
}
