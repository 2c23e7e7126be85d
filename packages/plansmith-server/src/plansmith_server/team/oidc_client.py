"""Speaks to an OpenID Connect provider: discovery, keys, code for token, and every check of it."""

from __future__ import annotations

import hmac
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

import httpx
import jwt

from plansmith.errors import Misconfigured, PlansmithError, Refused
from plansmith.plan.sentence import Sentence
from plansmith_server.team.oidc_settings import OidcSettings, is_secure

# Only signatures with a public key: with `none` or a shared secret, anybody could sign.
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
_NEEDED: Final = ("exp", "iat", "iss", "aud", "sub")
_LEEWAY_S: Final = 30
_KEPT_S: Final = 3600.0
_KEYS_AGAIN_S: Final = 5.0
_LARGEST: Final = 1_000_000
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class OidcClient:
    """Makes addresses to log in at a provider, and turns the code that comes back into claims."""

    def __init__(
        self, settings: OidcSettings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self._now = monotonic
        self._about: dict[str, str] = {}
        self._about_at = 0.0
        self._keys: dict[str, Any] = {}
        self._keys_at = float("-inf")

    async def address(self, *, state: str, nonce: str, verifier: str, redirect: str) -> str:
        given = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(self.settings.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge(verifier),
            "code_challenge_method": "S256",
        }
        where = (await self._discovered())["authorization_endpoint"]
        return f"{where}{'&' if '?' in where else '?'}{urlencode(given)}"

    async def claims(
        self, code: str, *, nonce: str, verifier: str, redirect: str
    ) -> Mapping[str, Any]:
        """Exchanges a code for an id token; returns its claims if everything about it is right."""
        given = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": verifier,
            "client_id": self.settings.client_id,
        }
        where = (await self._discovered())["token_endpoint"]
        answer = await _fetch("POST", where, data=given, auth=self._secret())
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise Refused(Sentence("the provider gave no id token"))
        found = await self._verified(token)
        if not hmac.compare_digest(str(found.get("nonce", "")).encode(), nonce.encode()):
            raise Refused(Sentence("the id token is for another log-in: its nonce is wrong"))
        return found

    async def _verified(self, token: str) -> Mapping[str, Any]:
        """Returns the claims of an id token of this provider, for this client, signed and fresh."""
        try:
            head = jwt.get_unverified_header(token)
            algorithm = head.get("alg")
            if algorithm not in _ALGORITHMS:
                why = Sentence("the id token is signed by '{name}'", name=str(algorithm)[:20])
                raise Refused(why)
            found: dict[str, Any] = jwt.decode(
                token,
                await self._key(str(head.get("kid", ""))),
                algorithms=[algorithm],
                audience=self.settings.client_id,
                issuer=self.settings.issuer,
                leeway=_LEEWAY_S,
                options={"require": [*_NEEDED]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise Refused(Sentence("the id token is not valid: {error}", error=error)) from None
        named: Any = found["aud"]
        many = not isinstance(named, str) and len(named) > 1
        if (many or "azp" in found) and found.get("azp") != self.settings.client_id:
            raise Refused(Sentence("the id token was made for another client"))
        return found

    async def _key(self, name: str) -> Any:
        """Returns a key of the provider; reads its keys again if it has new ones."""
        # Not for each unknown name: a forged token must not make us ask again and again.
        if name not in self._keys and self._now() - self._keys_at >= _KEYS_AGAIN_S:
            self._keys_at = self._now()
            listed = await _fetch("GET", (await self._discovered())["jwks_uri"])
            self._keys = _signing_keys(listed)
        if name not in self._keys:
            why = Sentence("the id token is signed with a key that the provider does not list")
            raise Refused(why)
        return self._keys[name]

    async def _discovered(self) -> dict[str, str]:
        """Returns the addresses of the provider, read again after an hour."""
        if not self._about or self._now() - self._about_at > _KEPT_S:
            issuer = self.settings.issuer
            found = await _fetch("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != issuer:
                other = str(found.get("issuer"))[:200]
                hint = Sentence("set oidc.issuer to '{issuer}', if you trust it", issuer=other)
                why = Sentence("{issuer} says that it is another issuer", issuer=issuer)
                raise Misconfigured(why, hint=hint)
            about = {name: str(found.get(name, "")) for name in _ENDPOINTS}
            wrong = [name for name, where in about.items() if not is_secure(where)]
            if wrong:
                why = Sentence("{issuer} has no usable {name}", issuer=issuer, name=wrong[0])
                raise Misconfigured(why, hint=Sentence("the provider must offer it at https://"))
            self._about, self._about_at = about, self._now()
        return self._about

    def _secret(self) -> tuple[str, str] | None:
        """Returns the name and the secret of this client; None if it has no secret."""
        variable = self.settings.client_secret_env
        if not variable:
            return None
        if not os.environ.get(variable):
            why = Sentence("{variable} is not set", variable=variable)
            raise Misconfigured(why, hint=Sentence("it holds the client's secret"))
        return quote(self.settings.client_id, safe=""), quote(os.environ[variable], safe="")


def challenge(verifier: str) -> str:
    """Returns what is sent first, of which only we know the origin (PKCE, S256)."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _signing_keys(listed: Mapping[str, Any]) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for found in cast("list[object]", listed.get("keys", [])):
        each = cast("dict[str, Any]", found if isinstance(found, dict) else {})
        if each.get("use", "sig") != "sig":
            continue
        try:
            keys[str(each.get("kid", ""))] = jwt.PyJWK(each)
        except jwt.PyJWTError:
            continue  # of a kind that we do not know
    return {name: key for name, key in keys.items() if key.key_type in ("RSA", "EC", "OKP")}


async def _fetch(method: str, url: str, **given: Any) -> dict[str, Any]:
    """Reads a JSON object of the provider."""
    try:
        async with httpx.AsyncClient(timeout=10, follow_redirects=False) as web:
            answer = await web.request(method, url, **given)
        if not answer.is_success or len(answer.content) > _LARGEST:
            raise ProviderAway(f"the provider answered with {answer.status_code}")
        found: object = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise ProviderAway(f"the provider cannot be reached: {error!r}") from None
    if not isinstance(found, dict):
        raise ProviderAway("the provider answered with something else than an object")
    return cast("dict[str, Any]", found)


class ProviderAway(PlansmithError):
    """The provider does not answer as it should."""
