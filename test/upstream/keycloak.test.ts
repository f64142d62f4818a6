import { startKeycloak } from '../support/keycloak.ts'
import { upstreamSuite } from '../support/upstream-suite.ts'

upstreamSuite(startKeycloak, 600_000)
