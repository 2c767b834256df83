"""Which hosts, origins and bearers a server answers."""

from __future__ import annotations

from typing import Any

import pytest

from raw_exec.serving import (
    BearerOnly,
    LocalOnly,
    allowed_hosts,
    bearer_token,
    identify,
    is_loopback,
    token_digest,
)


def _scope(*headers: tuple[str, str], kind: str = "http", path: str = "/x") -> dict[str, Any]:
    return {
        "type": kind,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }


async def _ask(app: Any, scope: dict[str, Any]) -> tuple[Any, list[Any]]:
    sent: list[Any] = []
    reached: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    app._app = _Inner(reached)
    await app(scope, receive, send)
    return (sent[0].get("status", sent[0].get("code")) if sent else None), reached


class _Inner:
    def __init__(self, reached: list[Any]) -> None:
        self._reached = reached

    async def __call__(self, scope: Any, _receive: Any, _send: Any) -> None:
        self._reached.append(scope)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("LOCALHOST", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.0.2.1", False),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("", False),
    ],
)
def test_what_is_loopback(host, loopback) -> None:
    """Security: anything that is not surely loopback counts as reached from elsewhere."""
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("listening", "host", "accepted"),
    [
        ("127.0.0.1", "127.0.0.1:80", True),
        ("127.0.0.1", "localhost:81", False),
        ("127.0.0.1", "LocalHost:80", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "[::1]:80", True),
        ("127.0.0.1", "192.0.2.1:80", False),
        ("127.0.0.1", "evil.example:80", False),
        ("127.0.0.1", "localhost.evil.example:80", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "proxy.example", True),
        ("127.0.0.1", "proxy.example:80", True),
        ("127.0.0.1", "proxy.example:81", False),
        ("0.0.0.0", "192.0.2.1:80", True),
        ("0.0.0.0", "192.0.2.1", True),
        ("0.0.0.0", "192.0.2.1:81", False),
        ("0.0.0.0", "[2001:db8::1]:80", True),
        ("0.0.0.0", "evil.example:80", False),
        ("0.0.0.0", "user@192.0.2.1:80", False),
        ("0.0.0.0", "192.0.2.1:80/x", False),
        ("0.0.0.0", "192.0.2.1:x", False),
        ("192.0.2.1", "192.0.2.1:80", True),
    ],
)
def test_which_hosts_are_answered(listening, host, accepted) -> None:
    """Security: DNS rebinding needs a name of the attacker's, so numbers are safe."""
    assert allowed_hosts(listening, 80, ["Proxy.example"]).accepts(host) is accepted


@pytest.mark.parametrize(
    ("origin", "accepted"),
    [
        ("http://127.0.0.1:9000", True),
        ("http://localhost:9000", True),
        ("http://[::1]:9000", True),
        ("http://localhost", False),
        ("http://localhost:9001", False),
        ("http://localhost:9000/x", False),
        ("http://localhost:9000.evil.example", False),
        ("http://user@localhost:9000", False),
        ("null", False),
        ("", False),
        ("file://", False),
        ("https://evil.example", False),
        ("https://proxy.example", True),
    ],
)
def test_which_origins_are_the_servers_own(origin, accepted) -> None:
    """Security: a page of another port is another site."""
    assert allowed_hosts("127.0.0.1", 9000, ["proxy.example"]).accepts_origin(origin) is accepted


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ((("host", "localhost:9000"),), None),
        ((("host", "evil.example"),), 421),
        ((), 421),
        ((("host", "localhost:9000"), ("host", "localhost:9000")), 421),
        ((("host", "localhost:9000"), ("origin", "http://localhost:9000")), None),
        ((("host", "localhost:9000"), ("origin", "https://app.example")), None),
        ((("host", "localhost:9000"), ("origin", "https://evil.example")), 403),
        (
            (
                ("host", "localhost:9000"),
                ("origin", "http://localhost:9000"),
                ("origin", "https://evil.example"),
            ),
            403,
        ),
    ],
)
async def test_foreign_requests_do_not_reach_the_application(headers, status) -> None:
    """Security: refused before anything else sees them."""
    app = LocalOnly(None, allowed_hosts("127.0.0.1", 9000), ["https://app.example/"])
    answered, reached = await _ask(app, _scope(*headers))
    assert (answered, len(reached)) == (status, 1 if status is None else 0)


async def test_a_foreign_websocket_is_closed() -> None:
    """A browser sends no preflight for these."""
    app = LocalOnly(None, allowed_hosts("127.0.0.1", 9000))
    scope = _scope(("host", "evil.example"), kind="websocket")
    assert await _ask(app, scope) == (1008, [])


@pytest.mark.parametrize(
    ("header", "principal"),
    [
        ("Bearer right", "anna"),
        ("bearer   right", "anna"),
        ("Bearer right2", "ben"),
        ("Bearer wrong", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic right", None),
        ("right", None),
    ],
)
async def test_a_bearer_is_who_its_token_says(header, principal) -> None:
    """Security: only digests are known, and the application learns the principal from here."""
    digests = {"anna": token_digest("right"), "ben": token_digest("right2")}
    app = BearerOnly(None, lambda token: identify(token, digests), ("/healthz",))
    answered, reached = await _ask(app, _scope(("authorization", header)))
    if principal is None:
        assert (answered, reached) == (401, [])
    else:
        assert reached[0]["state"]["principal"] == principal
    public = _scope(("authorization", header), path="/healthz")
    answered, reached = await _ask(app, public)
    assert (answered, "state" in reached[0]) == (None, False)


def test_two_authorizations_are_none() -> None:
    """A proxy and we could disagree on which one counts."""
    scope = _scope(("authorization", "Bearer a"), ("authorization", "Bearer b"))
    assert bearer_token(scope) is None
