// Clients that say who they are by a certificate, and tokens bound to it (mTLS,
// RFC 8705).

import type { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import type { Settings } from '../config/load.ts'
import { certificatesIn } from '../config/rules/certificates.ts'
import type { Feature } from '../oidc/feature.ts'

/** id-kp-clientAuth (RFC 5280 §4.2.1.12). */
const CLIENT_AUTHENTICATION = '1.3.6.1.5.5.7.3.2'

/**
 * Whether a certificate has the value of a key of the client's metadata (RFC
 * 8705 §2.1.2).
 */
const MATCHES: Record<
  string,
  (certificate: X509Certificate, expected: string) => boolean
> = {
  tls_client_auth_subject_dn: (certificate, dn) =>
    subjectOf(certificate) === dn,
  tls_client_auth_san_dns: (certificate, name) =>
    certificate.checkHost(name, { subject: 'never', wildcards: false }) !==
    undefined,
  tls_client_auth_san_email: (certificate, address) =>
    certificate.checkEmail(address, { subject: 'never' }) !== undefined,
  tls_client_auth_san_ip: (certificate, ip) =>
    isIP(ip) > 0 && certificate.checkIP(ip) !== undefined,
  tls_client_auth_san_uri: hasUri,
}

/**
 * `byCertificate`: paths of the endpoints that accept certificates, by the
 * library's names.
 */
export function mutualTls(
  { features, clientAuthorities, client_certificates: { origin } }: Settings,
  byCertificate: Record<string, string>,
): Feature {
  const authorities = certificatesIn(clientAuthorities)
  const aliasOf = ([name, path]: string[]) => [
    `${name}_endpoint`,
    `${origin}${path}`,
  ]
  const aliases = Object.entries(byCertificate).map(aliasOf)
  return {
    settings: {
      mTLS: {
        enabled: features.mtls,
        certificateBoundAccessTokens: true,
        selfSignedTlsClientAuth: true,
        tlsClientAuth: authorities.length > 0,
        getCertificate: ({ state }) => state.clientCertificate,
        certificateAuthorized: ({ state: { clientCertificate: sent } }) =>
          sent !== undefined && isIssued(sent, authorities),
        certificateSubjectMatches: (
          { state: { clientCertificate: sent } },
          property,
          expected,
        ) =>
          sent !== undefined && (MATCHES[property]?.(sent, expected) ?? false),
      },
    },
    // RFC 8705 §5: clients with certificates have an address of their own.
    discovery: () =>
      origin && aliases.length
        ? { mtls_endpoint_aliases: Object.fromEntries(aliases) }
        : {},
  }
}

/**
 * Whether it is current, and issued for clients by an authority. TLS accepts
 * any certificate.
 */
function isIssued(
  certificate: X509Certificate,
  authorities: X509Certificate[],
): boolean {
  const { keyUsage = [CLIENT_AUTHENTICATION] } = certificate
  const isBy = (authority: X509Certificate) =>
    isCurrent(authority) &&
    certificate.checkIssued(authority) &&
    certificate.verify(authority.publicKey)
  return (
    keyUsage.includes(CLIENT_AUTHENTICATION) &&
    isCurrent(certificate) &&
    authorities.some(isBy)
  )
}

function isCurrent({ validFromDate, validToDate }: X509Certificate): boolean {
  const now = new Date()
  return validFromDate <= now && now <= validToDate
}

/** As RFC 4514 writes it, the last part first: `CN=service,O=Example,C=GB`. */
const subjectOf = ({ subject }: X509Certificate) =>
  subject.split('\n').reverse().join(',')

/**
 * Node quotes a name that contains a separator. A list with quotes is not
 * split: nothing matches.
 */
function hasUri(
  { subjectAltName = '' }: X509Certificate,
  uri: string,
): boolean {
  return (
    !subjectAltName.includes('"') &&
    subjectAltName.split(', ').includes(`URI:${uri}`)
  )
}
