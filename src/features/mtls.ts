// Clients that say who they are by a certificate, and tokens bound to it (mTLS, RFC 8705).

import type { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import type { ClientAuthMethod } from 'oidc-provider'
import type { Settings } from '../config/load.ts'
import { certificatesIn } from '../config/rules/provider.ts'
import type { Feature, LibraryFeatures } from '../provider/feature.ts'

/** id-kp-clientAuth (RFC 5280 §4.2.1.12). */
const CLIENT_AUTHENTICATION = '1.3.6.1.5.5.7.3.2'

/** `byCertificate`: paths of the endpoints that accept certificates, by the library's names. */
export function mutualTls(settings: Settings, byCertificate: Record<string, string>): Feature {
  return {
    settings: { mTLS: libraryFeature(settings) },
    clientAuthMethods: certificateMethods(settings),
    discovery: () => endpointAliases(settings, byCertificate),
  }
}

function libraryFeature({ features, clientAuthorities }: Settings): LibraryFeatures['mTLS'] {
  const authorities = certificatesIn(clientAuthorities)
  const subjects: Record<string, (certificate: X509Certificate, expected: string) => boolean> = {
    tls_client_auth_subject_dn: (certificate, dn) => nameOf(certificate) === dn,
    tls_client_auth_san_dns: (certificate, name) =>
      certificate.checkHost(name, { subject: 'never', wildcards: false }) !== undefined,
    tls_client_auth_san_email: (certificate, address) =>
      certificate.checkEmail(address, { subject: 'never' }) !== undefined,
    tls_client_auth_san_ip: (certificate, ip) =>
      isIP(ip) > 0 && certificate.checkIP(ip) !== undefined,
    tls_client_auth_san_uri: hasUri,
  }
  return {
    enabled: features.mtls,
    certificateBoundAccessTokens: true,
    selfSignedTlsClientAuth: true,
    tlsClientAuth: authorities.length > 0,
    getCertificate: ({ state }) => state.clientCertificate,
    certificateAuthorized: ({ state }) =>
      state.clientCertificate !== undefined && isIssued(state.clientCertificate, authorities),
    certificateSubjectMatches: ({ state }, property, expected) =>
      state.clientCertificate !== undefined &&
      (subjects[property]?.(state.clientCertificate, expected) ?? false),
  }
}

/** The ways of RFC 8705 §2 that are there. */
function certificateMethods({ features, clientAuthorities }: Settings): ClientAuthMethod[] {
  if (!features.mtls) return []
  return ['self_signed_tls_client_auth', ...(clientAuthorities ? ['tls_client_auth' as const] : [])]
}

/** For discovery (RFC 8705 §5), where clients with certificates have an address of their own. */
function endpointAliases(
  { client_certificates: { origin } }: Settings,
  byCertificate: Record<string, string>,
): { mtls_endpoint_aliases?: Record<string, string> } {
  const aliases = Object.entries(byCertificate).map(([name, path]) => [
    `${name}_endpoint`,
    `${origin}${path}`,
  ])
  return origin && aliases.length ? { mtls_endpoint_aliases: Object.fromEntries(aliases) } : {}
}

/** For clients, by one of these, and now: TLS takes any certificate whose key its client has. */
function isIssued(certificate: X509Certificate, authorities: X509Certificate[]): boolean {
  const { keyUsage } = certificate
  if (keyUsage && !keyUsage.includes(CLIENT_AUTHENTICATION)) return false
  return (
    isCurrent(certificate) &&
    authorities.some(
      authority =>
        isCurrent(authority) &&
        certificate.checkIssued(authority) &&
        certificate.verify(authority.publicKey),
    )
  )
}

function isCurrent({ validFromDate, validToDate }: X509Certificate): boolean {
  const now = new Date()
  return validFromDate <= now && now <= validToDate
}

/** As RFC 4514 writes it, the last part first: `CN=service,O=Example,C=GB`. */
const nameOf = ({ subject }: X509Certificate) => subject.split('\n').reverse().join(',')

/** Node puts what could be taken for a separator in quotes: with any there, nothing is taken apart. */
function hasUri({ subjectAltName = '' }: X509Certificate, uri: string): boolean {
  return !subjectAltName.includes('"') && subjectAltName.split(', ').includes(`URI:${uri}`)
}
