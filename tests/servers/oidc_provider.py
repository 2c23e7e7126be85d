"""An OpenID Connect provider on 127.0.0.1 that tests can have lie."""

from __future__ import annotations

import contextlib
import functools
import json
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from tests.needs import free_port
from tests.servers.ticks import running

from plansmith_server.team.oidc import challenge

CLIENT = "plansmith"
SECRET = "a secret: with/odd+signs"


def new_key() -> rsa.RSAPrivateKey:
    """A key to sign with."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@functools.cache
def first_key() -> rsa.RSAPrivateKey:
    """The key that every provider begins with: to make one takes longer than a log-in."""
    return new_key()


@dataclass
class Provider:
    """Logs everybody in as the person of `claims`; `lie` changes what it signs."""

    issuer: str = ""
    claims: dict[str, Any] = field(default_factory=lambda: {"sub": "ann", "roles": ["staff"]})
    lie: dict[str, Any] = field(default_factory=dict)
    algorithm: str = "RS256"
    key: rsa.RSAPrivateKey = field(default_factory=first_key)
    kid: str = "first"
    listed: dict[str, rsa.RSAPrivateKey] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    key_reads: int = 0

    def rotate(self) -> None:
        """Signs with a new key from now on; the old one is not listed any more."""
        self.key, self.kid = new_key(), secrets.token_hex(4)
        self.listed = {self.kid: self.key}

    def id_token(self, nonce: str) -> str:
        """An id token of the present person, as true as the test wants."""
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce}
        claims |= self.claims | self.lie
        claims = {name: value for name, value in claims.items() if value is not None}
        head = {"kid": self.kid}
        if self.algorithm == "none":
            return jwt.encode(claims, "", algorithm="none", headers=head)
        if self.algorithm == "HS256":  # signed with what everybody may know
            pem = self.key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            key = pem.hex()
            return jwt.encode(claims, key, algorithm="HS256", headers=head)
        return jwt.encode(claims, self.key, algorithm=self.algorithm, headers=head)

    async def discovery(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
        )

    async def keys(self, _: Request) -> Response:
        self.key_reads += 1
        found = []
        for kid, key in self.listed.items():
            fields = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
            found.append(fields | {"kid": kid, "use": "sig", "alg": "RS256"})
        return JSONResponse({"keys": found})

    async def authorize(self, request: Request) -> Response:
        given = dict(request.query_params)
        if given.get("code_challenge_method") != "S256" or given.get("client_id") != CLIENT:
            return JSONResponse({"error": "invalid_request"}, 400)
        code = secrets.token_urlsafe(16)
        self.codes[code] = given
        back = urlencode({"code": code, "state": given["state"], "iss": self.issuer})
        return RedirectResponse(f"{given['redirect_uri']}?{back}", 303)

    async def token(self, request: Request) -> Response:
        body = (await request.body()).decode()
        given = dict(parse_qsl(body))
        request_of_code = self.codes.pop(given.get("code", ""), None)
        if request_of_code is None or request_of_code["redirect_uri"] != given.get("redirect_uri"):
            return JSONResponse({"error": "invalid_grant"}, 400)
        if challenge(given.get("code_verifier", "")) != request_of_code["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if not request.headers.get("authorization", "").startswith("Basic "):
            return JSONResponse({"error": "invalid_client"}, 401)
        token = self.id_token(request_of_code["nonce"])
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": token})


@contextlib.asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    """A provider that listens on a free port of this machine."""
    made = Provider()
    made.listed = {made.kid: made.key}
    routes = [
        Route("/.well-known/openid-configuration", made.discovery),
        Route("/keys", made.keys),
        Route("/authorize", made.authorize),
        Route("/token", made.token, methods=["POST"]),
    ]
    port = free_port()
    made.issuer = f"http://127.0.0.1:{port}"
    async with running(Starlette(routes=routes), port):
        yield made
