"""HTTP to a registry: one bounded request, one bounded answer.

Security: redirects are not followed, so a key goes nowhere but to the address it was given
for. An answer is data of a stranger: its size, time and JSON are bounded.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ...jsontext import JsonTextError, parse
from ..errors import Invalid, StoreError

__all__ = ["Transport", "check_url"]

_MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_MAX_NODES: Final = 2_000_000
_MAX_DEPTH: Final = 128
_ATTEMPTS: Final = 4
_MAX_WAIT_SECONDS: Final = 10.0
_CHUNK_BYTES: Final = 256 * 1024
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def check_url(url: str) -> str:
    """Return the base URL of a registry without a slash, or ``/graphql``, at its end.

    Raises:
        Invalid: ``registry_url``.
    """
    hint = "write for example https://registry.example.com"
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as exc:
        raise Invalid("registry_url", f"registry {url[:200]!a} is not a URL", hint=hint) from exc
    if parts.username is not None or parts.password is not None:
        # Security: the text has a password in it, so it is not shown.
        raise Invalid("registry_url", "the registry's URL has a password", hint="log in instead")
    is_odd = parts.query or parts.fragment or not url.isascii() or not url.isprintable()
    if parts.scheme not in ("http", "https") or not host or is_odd or " " in url:
        raise Invalid("registry_url", f"registry {url[:200]!a} is not an http(s) URL", hint=hint)
    return url.rstrip("/").removesuffix("/graphql").rstrip("/")


def is_private(url: str) -> bool:
    """Return whether nobody on the way can read what is sent to a URL."""
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in _LOOPBACK


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        return None


class Transport:
    """Posts JSON to one registry.

    Args:
        url: Its base URL.
        token: The key to send, or ``None`` for nobody in particular.
        timeout: Seconds for one answer.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = check_url(url)
        if token is not None and not (token.isascii() and token.isprintable() and token.strip()):
            raise Invalid("bad_key", "the API key is not a printable text", hint="log in again")
        self._token = token
        self._timeout = timeout
        self._sleep = sleep
        # S310: the URL was checked to be http or https.
        self._opener = urllib.request.build_opener(_NoRedirects)

    def __repr__(self) -> str:
        return f"Transport({self.url!r})"

    def post(
        self, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a request and return status and decoded body.

        One that is refused for now (429, 503) is sent again after the time it says.

        Raises:
            StoreError: ``registry_unreachable`` or ``bad_answer``.
        """
        data = json.dumps(body, ensure_ascii=True, allow_nan=False).encode()
        for attempt in range(1, _ATTEMPTS + 1):
            status, answer, wait = self._send(path, data, headers or {})
            if wait is None or attempt == _ATTEMPTS or wait > _MAX_WAIT_SECONDS:
                break
            self._sleep(wait)
        return status, answer

    def _send(
        self, path: str, data: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any, float | None]:
        request = urllib.request.Request(self.url + path, data=data, method="POST")  # noqa: S310
        for name, value in {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "raw",
            **headers,
        }.items():
            request.add_header(name, value)
        if self._token is not None:
            # Security: "unredirected", so that no handler can carry it elsewhere.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            try:
                answer = self._opener.open(request, timeout=self._timeout)
            except urllib.error.HTTPError as exc:
                answer = exc
            with answer:
                raw = self._read(answer)
                return answer.status, self._decode(raw, answer.status), _wait_of(answer)
        except (OSError, http.client.HTTPException) as exc:
            reason = getattr(exc, "reason", exc)
            raise StoreError(
                "registry_unreachable",
                f"registry {self.url} can not be reached: {reason}",
                hint="check its address and that it runs; look whether a change was made before "
                "you repeat it",
            ) from exc

    def _read(self, answer: Any) -> bytes:
        deadline = time.monotonic() + self._timeout
        read = bytearray()
        while chunk := answer.read(_CHUNK_BYTES):
            read += chunk
            if len(read) > _MAX_ANSWER_BYTES:
                raise self._bad(f"is longer than {_MAX_ANSWER_BYTES} bytes")
            if time.monotonic() > deadline:
                raise TimeoutError("the answer takes too long")
        return bytes(read)

    def _decode(self, raw: bytes, status: int) -> Any:
        try:
            return parse(
                raw, max_bytes=_MAX_ANSWER_BYTES, max_depth=_MAX_DEPTH, max_nodes=_MAX_NODES
            )
        except JsonTextError as exc:
            raise self._bad(f"with status {status} is not JSON") from exc

    def _bad(self, problem: str) -> StoreError:
        return StoreError(
            "bad_answer",
            f"the answer of registry {self.url} {problem}",
            hint="check that a registry runs at this address",
        )


def _wait_of(answer: Any) -> float | None:
    if answer.status not in (429, 503):
        return None
    try:
        return max(0.0, float(answer.headers.get("Retry-After", "1")))
    except ValueError:
        return 1.0
