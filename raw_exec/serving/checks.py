"""Who may talk to a server: which names it answers to, which pages, which bearers of a token.

Security: a page on another site can make a browser send requests to this machine, and by
giving its own name a local address (DNS rebinding) it could read the answers too. Such a
request names the page's host in ``Host``, or its site in ``Origin``; both are refused. What
is not covered: a program on this machine, which can send any header it likes; only a token
keeps that out.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from .listener import is_loopback

__all__ = [
    "AllowedHosts",
    "BearerOnly",
    "LocalOnly",
    "allowed_hosts",
    "bearer_token",
    "identify",
    "token_digest",
]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_CLOSED_BY_POLICY: Final = 1008


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Values of ``Host`` that a server answers to.

    Args:
        names: ``host:port`` or ``host``, in lower case.
        any_address: Whether every numeric address of ``port`` is accepted too: what rebinds is
            a name.
        port: The one that is listened on.
    """

    names: frozenset[str]
    any_address: bool
    port: int

    def accepts(self, host: str) -> bool:
        """Return whether a request may name this ``Host``."""
        host = host.strip().lower()
        if host in self.names:
            return True
        if not self.any_address or "@" in host:
            return False
        try:
            parts = urlsplit(f"//{host}")
            ip_address(parts.hostname or "")
            return parts.netloc == host and (parts.port or 80) == self.port
        except ValueError:
            return False

    def accepts_origin(self, origin: str) -> bool:
        """Return whether a page of this ``Origin`` is one of the server itself."""
        try:
            parts = urlsplit(origin.strip().lower())
            port = parts.port or _DEFAULT_PORTS[parts.scheme]
        except (ValueError, KeyError):
            return False
        bare = parts.hostname or ""
        name = f"[{bare}]" if ":" in bare else bare
        if parts.path or parts.query or parts.fragment or parts.username is not None:
            return False
        is_default = port == _DEFAULT_PORTS[parts.scheme]
        return self.accepts(f"{name}:{port}") or (is_default and self.accepts(name))


def allowed_hosts(host: str, port: int, extra: Iterable[str] = ()) -> AllowedHosts:
    """Return the values of ``Host`` that fit an address that is listened on.

    Args:
        host: A loopback address is reached under all names of loopback; a wildcard address
            under every numeric one.
        port: The real one, not 0.
        extra: Further names, with a port or without, such as a proxy's.
    """
    bare = host.lower()
    spelled = f"[{bare}]" if ":" in bare else bare
    hosts = [*_LOOPBACK, spelled]
    names = {f"{name}:{port}" for name in hosts}
    if port == _DEFAULT_PORTS["http"]:
        names.update(hosts)
    for name in extra:
        lowered = name.strip().lower()
        names |= {lowered, f"{lowered}:{port}"}
    return AllowedHosts(frozenset(names), not is_loopback(host), port)


def _ignore(_code: str) -> None:
    """Nobody counts."""


class LocalOnly:
    """Refuse requests that another site made a browser send: 421 for ``Host``, 403 for ``Origin``.

    Args:
        app: Gets the requests that pass.
        hosts: From ``allowed_hosts``.
        origins: Further origins whose pages may ask, such as ``https://app.example``.
        on_refusal: Told the code of each refusal.
    """

    def __init__(
        self,
        app: App,
        hosts: AllowedHosts,
        origins: Iterable[str] = (),
        *,
        on_refusal: Callable[[str], object] = _ignore,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._on_refusal = on_refusal
        self._origins = frozenset(origin.strip().lower().rstrip("/") for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        hosts = _header(scope, b"host")
        if len(hosts) != 1 or not self._hosts.accepts(hosts[0]):
            shown = hosts[0] if hosts else ""
            message = f"this server does not answer to the host {shown!r}"
            self._on_refusal("foreign_host")
            await _refuse(scope, receive, send, 421, "foreign_host", message)
            return
        for origin in _header(scope, b"origin"):
            known = origin.strip().lower() in self._origins
            if not known and not self._hosts.accepts_origin(origin):
                message = f"pages of {origin!r} may not use this server"
                self._on_refusal("foreign_origin")
                await _refuse(scope, receive, send, 403, "foreign_origin", message)
                return
        await self._app(scope, receive, send)


def token_digest(token: str) -> str:
    """Return the SHA-256 of a token, in hexadecimal: what is kept instead of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def identify(token: str, digests: Mapping[str, str]) -> str | None:
    """Return whose token this is, or ``None``.

    Security: every digest is compared, in constant time, so that neither how much of a token
    is right nor whose it is shows in how long this takes.

    Args:
        digests: Principal to ``token_digest``.
    """
    own = token_digest(token)
    found = None
    for principal, digest in digests.items():
        if hmac.compare_digest(own.encode(), digest.encode()):
            found = principal
    return found


def bearer_token(scope: Scope) -> str | None:
    """Return the token of ``Authorization: Bearer TOKEN``; ``None`` without exactly one."""
    values = _header(scope, b"authorization")
    if len(values) != 1:
        return None
    scheme, _, token = values[0].partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


class BearerOnly:
    """Refuse requests without a known bearer token: 401.

    The token's principal is in ``scope["state"]["principal"]`` for the application.

    Args:
        app: Gets the requests that pass.
        whose: Return the principal of a token, or ``None``; see ``identify``.
        public: Paths that need no token; there ``principal`` is absent.
        on_refusal: Told the code of each refusal.
    """

    def __init__(
        self,
        app: App,
        whose: Callable[[str], str | None],
        public: Iterable[str] = (),
        *,
        on_refusal: Callable[[str], object] = _ignore,
    ) -> None:
        self._app = app
        self._on_refusal = on_refusal
        self._whose = whose
        self._public = frozenset(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope["path"] in self._public:
            await self._app(scope, receive, send)
            return
        token = bearer_token(scope)
        principal = None if token is None else self._whose(token)
        if principal is None:
            message = (
                "this server needs a key: send it as Authorization: Bearer KEY"
                if token is None
                else "this key is not known here"
            )
            self._on_refusal("unauthenticated")
            await _refuse(scope, receive, send, 401, "unauthenticated", message)
            return
        scope.setdefault("state", {})["principal"] = principal
        await self._app(scope, receive, send)


def _header(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


async def _refuse(
    scope: Scope, receive: Receive, send: Send, status: int, code: str, message: str
) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": _CLOSED_BY_POLICY})
        return
    body = json.dumps({"error": {"code": code, "message": message, "pointer": ""}}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
