// For the one page whose form goes on by itself; without scripts it has a button.
document.forms[0]?.submit()
