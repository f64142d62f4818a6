// Copies a text of the page, and prints the page. Without scripts, the buttons stay hidden: the text can be selected.
for (const button of document.querySelectorAll('[data-copy]')) {
  const place = document.getElementById(button.dataset.copy)
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(textOf(place))
    button.textContent = button.dataset.copied
  })
  button.hidden = !navigator.clipboard
}
for (const button of document.querySelectorAll('[data-print]')) {
  button.addEventListener('click', () => print())
  button.hidden = false
}

/** Returns the items of a list, each on a line of its own, or the text of any other element. */
function textOf(place) {
  const items = [...place.querySelectorAll('li')].map(item =>
    item.textContent.trim(),
  )
  return items.length ? items.join('\n') : place.textContent.replaceAll(' ', '')
}
