// Closes the account menu with Escape, or a click beside it. Without scripts, its button closes it. On a phone, the
// entry of this page is moved into the row of the navigation that is in view.
const menu = document.querySelector('details.menu')

document.addEventListener('keydown', ({ key }) => {
  if (key !== 'Escape' || !menu.open) return
  menu.open = false
  menu.querySelector('summary').focus()
})
document.addEventListener('click', ({ target }) => {
  if (!menu.contains(target)) menu.open = false
})

const current = document.querySelector('nav [aria-current]')
const row = current?.closest('ul')
if (row) row.scrollLeft = current.offsetLeft - row.offsetLeft
