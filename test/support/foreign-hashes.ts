// Hashes of other systems, with the most expensive parameters that are accepted.

const SALT = 'c29tZXNhbHQ'
const HASH = 'A'.repeat(43)

export const DEAREST = [
  `$argon2id$v=19$m=131072,t=4,p=1$${SALT}$${HASH}`,
  `$2b$13$${'a'.repeat(21)}u${'a'.repeat(31)}`,
  `$pbkdf2-sha256$2000000$${SALT}$${HASH}`,
  `$pbkdf2-sha512$600000$${SALT}$${'A'.repeat(86)}`,
  `$pbkdf2$1500000$${SALT}$${'A'.repeat(27)}`,
]
