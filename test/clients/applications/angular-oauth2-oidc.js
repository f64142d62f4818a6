import '@angular/compiler'
import { provideHttpClient } from '@angular/common/http'
import { createApplication } from '@angular/platform-browser'
import { OAuthService, provideOAuthClient } from 'angular-oauth2-oidc'

const { injector } = await createApplication({
  providers: [provideHttpClient(), provideOAuthClient()],
})
const oauth = injector.get(OAuthService)
oauth.configure({
  issuer: 'http://localhost:3000',
  clientId: 'spa',
  redirectUri: 'http://localhost:4000/',
  postLogoutRedirectUri: 'http://localhost:4000/',
  responseType: 'code',
  scope: 'openid profile email offline_access',
})
await oauth.loadDiscoveryDocumentAndTryLogin()

document.querySelector('output').textContent = oauth.getIdentityClaims()?.name ?? 'Signed out'
document.querySelector('#sign-in').onclick = () => oauth.initCodeFlow()
document.querySelector('#renew').onclick = () => oauth.refreshToken()
document.querySelector('#sign-out').onclick = () => oauth.logOut()
