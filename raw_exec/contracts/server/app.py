"""The server's routes: what is checked before a request reaches a thread.

Order, cheapest first: method and media type, rate, size of the body, JSON, then (in a
thread) the key and the query.

Security: only bearer tokens authenticate, so a browser that is led here brings no rights of
its user; ``application/json`` is insisted on, which a foreign page can not send unasked.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Final, TypeVar

import trio
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ...jsontext import JsonTextError, parse
from ...serving import RateLimiter
from ..errors import Invalid, RegistryError, StoreError
from ..model import Client
from ..service import DeviceLogin, DevicePoll, poll_device, start_device_login
from ..store import Store
from .executing import Answer, Caller, error_body, execute, load_schema
from .limits import ServerLimits

__all__ = ["make_app"]

T = TypeVar("T")

_MAX_DEPTH: Final = 80
"""Of a body: the deepest schema that is accepted, inside ``variables``."""

_MAX_LOGIN_BYTES: Final = 16 * 1024
_DRAINED: Final = 4
"""A body this many times too big is still read to its end, so that the answer is seen."""

_DEVICE_PAGE: Final = """\
A program wants to log in to this registry. If it was not you who started it, do nothing.

Otherwise give the code that the program shows to whoever runs the registry. They approve it with

    raw registry device approve --db DATABASE --user YOUR-EMAIL CODE
"""


class _Refused(Exception):
    """A request ends here, with this answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def _json(status: int, body: object, headers: dict[str, str] | None = None) -> Response:
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(
        text.encode("utf-8", "replace"),
        status,
        {"Cache-Control": "no-store", **(headers or {})},
        "application/json",
    )


def make_app(
    store: Store,
    *,
    public_url: str,
    limits: ServerLimits | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Starlette:
    """Return the registry as an ASGI application for trio.

    Args:
        store: The open database; it has to outlive the application.
        public_url: Where people reach the server, without a slash at the end.
        now: A monotonic clock, in seconds.
    """
    server = _Server(store, public_url, limits or ServerLimits(), now)
    return Starlette(
        routes=[
            Route("/graphql", server.graphql, methods=["POST"]),
            Route("/oauth/device/code", server.start_login, methods=["POST"]),
            Route("/oauth/device/token", server.poll_login, methods=["POST"]),
            Route("/device", server.device_page, methods=["GET"]),
        ]
    )


class _Server:
    def __init__(
        self, store: Store, public_url: str, limits: ServerLimits, now: Callable[[], float]
    ) -> None:
        self._store = store
        self._public_url = public_url
        self._limits = limits
        self._now = now
        self._schema = load_schema()
        self._threads = trio.CapacityLimiter(limits.threads)
        self._keys = RateLimiter(limits.burst, limits.per_second, limits.buckets, now)
        self._addresses = RateLimiter(limits.burst, limits.per_second, limits.buckets, now)

    # -- GraphQL

    async def graphql(self, request: Request) -> Response:
        try:
            return await self._graphql(request)
        except _Refused as refused:
            return refused.response
        except RegistryError as exc:
            return _json(200, error_body(exc))

    async def _graphql(self, request: Request) -> Response:
        caller = _caller(request)
        # Security: kept apart by a digest, so that no token lies around in memory for long.
        name = None if caller.token is None else hashlib.sha256(caller.token.encode()).hexdigest()
        self._check_rate(request, name)
        raw = await self._read_body(request, self._limits.body_bytes)

        def work() -> Answer:
            body = _decode(raw)
            return execute(self._schema, self._store, caller, body, self._limits, self._now)

        answer = await self._run(work)
        if answer.status == 401:
            if name is not None:
                self._keys.forget(name)
            return _json(401, answer.body, {"WWW-Authenticate": "Bearer"})
        if name is not None and name not in self._keys:
            self._keys.take(name)
        return _json(answer.status, answer.body)

    def _check_rate(self, request: Request, key: str | None) -> None:
        """Count the request for its key, or for its address until the key has proved good."""
        if key is not None and key in self._keys:
            wait = self._keys.take(key)
        else:
            wait = self._addresses.take(_address(request))
        if wait:
            seconds = max(1, math.ceil(wait))
            message = f"too many requests; wait {seconds} s and try again"
            raise _Refused(
                _json(429, _transport_error("rate_limited", message), {"Retry-After": str(seconds)})
            )

    async def _run(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread, when not too many wait for one already."""
        if self._threads.statistics().tasks_waiting >= self._limits.waiting:
            message = "the registry is overloaded; try again in a moment"
            raise _Refused(
                _json(503, _transport_error("overloaded", message), {"Retry-After": "1"})
            )
        return await trio.to_thread.run_sync(work, limiter=self._threads)

    async def _read_body(self, request: Request, max_bytes: int) -> bytes:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            message = "a request's body is JSON; send it as application/json"
            raise _Refused(_json(415, _transport_error("bad_media_type", message)))
        read = bytearray()
        size = 0
        try:
            with trio.fail_after(self._limits.body_seconds):
                async with aclosing(request.stream()) as chunks:
                    async for chunk in chunks:
                        size += len(chunk)
                        if size <= max_bytes:
                            read += chunk
                        elif size > _DRAINED * max_bytes:
                            break
        except trio.TooSlowError:
            message = "the request's body did not arrive in time"
            raise _Refused(_json(408, _transport_error("body_too_slow", message))) from None
        except ClientDisconnect:
            raise _Refused(Response(status_code=400)) from None
        if size > max_bytes:
            raise Invalid(
                "body_too_large",
                f"the request has more than {max_bytes} bytes",
                hint="send smaller schemas, texts or queries",
            )
        return bytes(read)

    # -- device logins

    async def start_login(self, request: Request) -> Response:
        try:
            self._check_rate(request, None)
            body = _decode(await self._read_body(request, _MAX_LOGIN_BYTES))
            label = _text_of(body, "deviceLabel", default="")
            login: DeviceLogin = await self._run(
                lambda: self._store.write(lambda s: start_device_login(s, label))
            )
        except _Refused as refused:
            return refused.response
        except RegistryError as exc:
            return _login_error(exc)
        return _json(
            200,
            {
                "deviceCode": login.device_code,
                "userCode": login.user_code,
                "verificationUri": f"{self._public_url}/device",
                "interval": login.interval,
                "expiresIn": login.expires_in,
            },
        )

    async def poll_login(self, request: Request) -> Response:
        if self._addresses.take(_address(request)):
            return _json(400, {"error": "slow_down", "error_description": "too many requests"})
        try:
            body = _decode(await self._read_body(request, _MAX_LOGIN_BYTES))
            code = _text_of(body, "deviceCode")
            # The answer is committed, even when it is a refusal: codes are used once.
            poll: DevicePoll = await self._run(
                lambda: self._store.write(lambda s: poll_device(s, code))
            )
        except _Refused as refused:
            return refused.response
        except RegistryError as exc:
            return _login_error(exc)
        if poll.status != "granted":
            return _json(400, {"error": poll.status, "error_description": _EXPLAINED[poll.status]})
        return _json(200, {"apiKey": poll.token, "userId": poll.user_id, "keyId": poll.key_id})

    async def device_page(self, _request: Request) -> Response:
        # Nothing of the request is shown, so the page can not be made to say anything else.
        return PlainTextResponse(_DEVICE_PAGE, headers={"Cache-Control": "no-store"})


_EXPLAINED: Final = {
    "authorization_pending": "nobody has approved this login yet",
    "slow_down": "ask less often",
    "access_denied": "this login was denied",
    "expired_token": "this login was not approved in time; start it again",
    "invalid_grant": "there is no such login, or its key was collected already; start it again",
}


def _login_error(exc: RegistryError) -> Response:
    is_ours = isinstance(exc, StoreError)
    word = "temporarily_unavailable" if is_ours else "invalid_request"
    return _json(503 if is_ours else 400, {"error": word, "error_description": exc.message})


def _decode(raw: bytes) -> Any:
    try:
        return parse(raw, max_bytes=len(raw), max_depth=_MAX_DEPTH)
    except JsonTextError as exc:
        raise Invalid(
            "bad_body",
            f"the request's body can not be used: {exc.message}",
            hint="send one JSON object",
            problems=exc.problems,
        ) from exc


def _text_of(body: Any, key: str, *, default: str | None = None) -> str:
    value = body.get(key, default) if isinstance(body, dict) else None
    if not isinstance(value, str):
        raise Invalid("bad_login", f"{key} is not a text", hint=f'send {{"{key}": "…"}}')
    return value


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _caller(request: Request) -> Caller:
    client: Client = "cli" if request.headers.get("x-client", "").strip() == "cli" else "web"
    header = request.headers.get("authorization")
    token = None
    if header is not None:
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            message = "the header Authorization is not of the form: Bearer KEY"
            body = _transport_error("bad_authorization", message, code="UNAUTHENTICATED")
            raise _Refused(_json(401, body, {"WWW-Authenticate": "Bearer"}))
    return Caller(token, client, request.headers.get("x-workspace"))


def _transport_error(rule: str, message: str, *, code: str = "BAD_USER_INPUT") -> dict[str, Any]:
    return {
        "data": None,
        "errors": [{"message": message, "extensions": {"code": code, "rule": rule}}],
    }
