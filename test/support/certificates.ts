// Certificates of clients and of certificate authorities, made by openssl in a folder of a test.

import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { JWK } from 'jose'

export interface Made {
  /** Paths. */
  cert: string
  key: string
  pem: string
  certificate: X509Certificate
}

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']

interface Wishes {
  subject?: string
  extensions?: string[]
  issuer?: Made
  days?: number
}

/** Makes a certificate. Without `issuer` it is self-signed. */
export function makeCertificate(folder: string, name: string, wishes: Wishes = {}): Made {
  const { subject = `/CN=${name}`, extensions = [], issuer, days = 2 } = wishes
  const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)]
  const config = join(folder, `${name}.cnf`)
  const lines = ['[req]', 'distinguished_name=dn', '[dn]', '[x]', ...extensions]
  writeFileSync(config, lines.join('\n'))
  const by = issuer ? ['-CA', issuer.cert, '-CAkey', issuer.key] : []
  const wanted = ['-subj', subject, '-config', config, '-extensions', 'x', '-days', String(days)]
  const files = ['-keyout', key, '-out', cert]
  execFileSync('openssl', ['req', '-x509', ...KEY, ...wanted, ...by, ...files], { stdio: 'pipe' })
  const pem = readFileSync(cert, 'utf8')
  return { cert, key, pem, certificate: new X509Certificate(pem) }
}

/** The certificate as a key of a client's `jwks`. */
export function jwkOf({ certificate }: Made): JWK {
  const x5c = [certificate.raw.toString('base64')]
  return { ...(certificate.publicKey.export({ format: 'jwk' }) as JWK), x5c, kid: 'certificate' }
}

/** Makes a self-signed certificate for localhost with these dates, which `openssl req` cannot set. */
export function makeDatedCertificate(folder: string, name: string, from: Date, to: Date) {
  const cert = join(folder, `${name}.pem`)
  const key = join(folder, `${name}.key`)
  const request = join(folder, `${name}.csr`)
  const config = join(folder, `${name}.cnf`)
  const index = join(folder, `${name}.index`)
  const dateOf = (date: Date) => `${date.toISOString().replace(/\D/g, '').slice(0, 14)}Z`
  const lines = [
    '[ca]',
    'default_ca = own',
    '[own]',
    `database = ${index}`,
    `new_certs_dir = ${folder}`,
    'default_md = sha256',
    'policy = any',
    'rand_serial = yes',
    'x509_extensions = x',
    '[any]',
    'commonName = supplied',
    '[x]',
    'subjectAltName = DNS:localhost',
    '[req]',
    'distinguished_name = dn',
    '[dn]',
  ]
  writeFileSync(config, lines.join('\n'))
  writeFileSync(index, '')
  const asked = ['-subj', '/CN=localhost', '-config', config, '-keyout', key, '-out', request]
  execFileSync('openssl', ['req', '-new', ...KEY, ...asked], { stdio: 'pipe' })
  const dates = ['-startdate', dateOf(from), '-enddate', dateOf(to)]
  const files = ['-keyfile', key, '-in', request, '-out', cert]
  const signing = ['ca', '-batch', '-selfsign', '-notext', '-config', config, ...dates, ...files]
  execFileSync('openssl', signing, { stdio: 'pipe' })
  return { cert, key }
}
