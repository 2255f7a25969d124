"""Who may call: tokens, and the ways to get one."""

import json
import secrets
from collections.abc import Mapping
from pathlib import Path

import jwt
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

EMAIL = "gateway@project.iam.gserviceaccount.com"
_GOOGLE_TOKEN_URI = "https://oauth2.googleapis.com/token"
_JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_EXCHANGE_GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
_SCOPES = {
    f"https://www.googleapis.com/auth/{name}"
    for name in ("devstorage.read_write", "devstorage.full_control", "cloud-platform", "iam")
}


class Accounts:
    """One service account with a key, one user who logged in with gcloud, one identity of a foreign issuer."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.refresh_token = secrets.token_urlsafe(16)
        self.client_secret = secrets.token_urlsafe(16)
        self.foreign_token = secrets.token_urlsafe(16)
        self.tokens: set[str] = set()
        self.lifetime = 3599
        self.issued = 0

    def service_account(self, token_uri: str) -> dict[str, str]:
        pem = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return {
            "type": "service_account",
            "project_id": "project",
            "private_key_id": "key-1",
            "private_key": pem.decode(),
            "client_email": EMAIL,
            "client_id": "1",
            "token_uri": token_uri,
        }

    def authorized_user(self, token_uri: str) -> dict[str, str]:
        return {
            "type": "authorized_user",
            "client_id": "gcloud",
            "client_secret": self.client_secret,
            "refresh_token": self.refresh_token,
            "token_uri": token_uri,
        }

    def external_account(self, token_url: str, token_file: Path) -> dict[str, object]:
        token_file.write_text(self.foreign_token)
        return {
            "type": "external_account",
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": token_url,
            "credential_source": {"file": str(token_file)},
        }

    def revoke_all(self) -> None:
        self.tokens.clear()

    async def grant(self, request: web.Request) -> web.Response:
        """The token endpoint."""
        form = {name: str(value) for name, value in (await request.post()).items()}
        flaw = self._flaw(form, str(request.url.with_query(None)))
        if flaw is not None:
            body = {"error": flaw[0], "error_description": flaw[1]}
            return web.Response(status=400, body=json.dumps(body).encode(), content_type="application/json")
        return self._new_token()

    async def metadata(self, request: web.Request) -> web.Response:
        """The metadata server of a virtual machine."""
        if request.headers.get("Metadata-Flavor") != "Google":
            return web.Response(status=403, text="Missing Metadata-Flavor:Google header.")
        return self._new_token()

    async def impersonate(self, request: web.Request) -> web.Response:
        if not self.knows(request.headers.get("Authorization", "")):
            return web.Response(status=401, text="{}", content_type="application/json")
        wanted = json.loads(await request.read())
        if not _SCOPES & set(wanted["scope"]):
            return web.Response(status=400, text="{}", content_type="application/json")
        token = json.loads(self._new_token().body)["access_token"]  # type: ignore[arg-type]
        body = {"accessToken": token, "expireTime": "2100-01-01T00:00:00Z"}
        return web.Response(body=json.dumps(body).encode(), content_type="application/json")

    def knows(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and token in self.tokens

    def _new_token(self) -> web.Response:
        token = f"ya29.{secrets.token_urlsafe(32)}"
        self.tokens.add(token)
        self.issued += 1
        body = {"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"}
        return web.Response(body=json.dumps(body).encode(), content_type="application/json")

    def _flaw(self, form: Mapping[str, str], address: str) -> tuple[str, str] | None:
        match form.get("grant_type"):
            case "refresh_token":
                given = (form.get("refresh_token"), form.get("client_secret"))
                good = given == (self.refresh_token, self.client_secret)
                return None if good else ("invalid_grant", "Token has been expired or revoked.")
            case grant if grant == _EXCHANGE_GRANT:
                good = form.get("subject_token") == self.foreign_token and "scope" in form
                return None if good else ("invalid_grant", "The subject token is not valid.")
            case grant if grant == _JWT_GRANT:
                return self._flaw_of_assertion(form.get("assertion", ""), address)
        return "unsupported_grant_type", "Invalid grant_type."

    def _flaw_of_assertion(self, assertion: str, address: str) -> tuple[str, str] | None:
        try:
            claims = jwt.decode(
                assertion,
                self._key.public_key(),
                algorithms=["RS256"],
                audience=[address, _GOOGLE_TOKEN_URI],  # Google's own library always writes the latter
                issuer=EMAIL,
                options={"require": ["exp", "iat", "aud", "iss"]},
            )
        except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError):
            return "invalid_grant", (
                "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
                "Check your iat and exp values in the JWT claim."
            )
        except jwt.InvalidTokenError:
            return "invalid_grant", "Invalid JWT Signature."
        if claims["exp"] - claims["iat"] > 3600:
            return "invalid_grant", "Invalid JWT: Token must be a short-lived token (60 minutes)."
        if not _SCOPES & set(claims.get("scope", "").split()):
            return "invalid_scope", "Invalid OAuth scope or ID token audience provided."
        return None
