// Adds a button to each password field that shows what was typed. Without scripts there is none.
for (const secret of document.querySelectorAll('.secret')) {
  const input = secret.querySelector('input')
  const button = document.createElement('button')
  const label = () => {
    const isHidden = input.type === 'password'
    button.textContent = isHidden ? secret.dataset.show : secret.dataset.hide
  }
  button.type = 'button'
  button.className = 'show'
  button.setAttribute('aria-controls', input.id)
  button.addEventListener('click', () => {
    input.type = input.type === 'password' ? 'text' : 'password'
    label()
  })
  input.form.addEventListener('submit', () => {
    input.type = 'password'
  })
  label()
  secret.append(button)
}
