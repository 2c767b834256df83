"""The server's application, asked in process: no socket, and a clock that tests move."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from raw_exec.contracts.server import ServerLimits, make_app
from raw_exec.contracts.service import create_key

ADDRESS = "192.0.2.1"


@dataclass
class Response:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        """The data of an answer without errors."""
        assert self.status == 200, self.body
        assert "errors" not in self.json, self.body
        return self.json["data"]

    @property
    def error(self) -> dict[str, Any]:
        """The only error of an answer."""
        (error,) = self.json["errors"]
        assert isinstance(error["message"], str)
        assert isinstance(error["extensions"]["code"], str)
        return error

    @property
    def rule(self) -> tuple[int, str, str]:
        """Status, code and rule of the only error."""
        extensions = self.error["extensions"]
        return self.status, extensions["code"], extensions["rule"]


@dataclass
class MonotonicClock:
    """Seconds that pass only when a test lets them."""

    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Asker:
    """Sends requests to an application."""

    app: Any
    headers: dict[str, str] = field(default_factory=dict)
    address: str = ADDRESS

    def of(self, **headers: str | None) -> Asker:
        """Return one that sends other headers: ``token``, ``workspace``, ``client``."""
        names = {"workspace": "X-Workspace", "client": "X-Client"}
        changed = dict(self.headers)
        for key, value in headers.items():
            name = names.get(key, "Authorization")
            changed.pop(name, None)
            if value is not None:
                changed[name] = f"Bearer {value}" if key == "token" else value
        return Asker(self.app, changed, self.address)

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] = b"",
        headers: dict[str, str] | None = None,
    ) -> Response:
        """Send one request, its body in one piece or several."""
        pieces = [body] if isinstance(body, bytes) else list(body)
        messages = [
            {"type": "http.request", "body": piece, "more_body": i + 1 < len(pieces)}
            for i, piece in enumerate(pieces)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        all_headers = {"Content-Type": "application/json", **self.headers, **(headers or {})}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [
                (name.lower().encode(), value.encode("latin-1"))
                for name, value in all_headers.items()
            ],
            "client": (self.address, 5),
            "server": ("test", 80),
        }
        run: Callable[..., Awaitable[None]] = self.app
        await run(scope, receive, send)
        start, *rest = sent
        return Response(
            start["status"],
            {name.decode(): value.decode() for name, value in start["headers"]},
            b"".join(message.get("body", b"") for message in rest),
        )

    async def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> Response:
        """Send JSON."""
        return await self.send("POST", path, json.dumps(body).encode(), headers)

    async def ask(self, query: str, /, **variables: Any) -> Response:
        """Send a GraphQL request; ``variables`` is left out when there are none."""
        body = {"query": query, **({"variables": variables} if variables else {})}
        return await self.post("/graphql", body)


@pytest.fixture
def ticks() -> MonotonicClock:
    return MonotonicClock()


@pytest.fixture
def serve(ticks: MonotonicClock) -> Callable[..., Asker]:
    """Return a function that makes an application of a store, with any limits."""

    def serve(store: Any, **limits: Any) -> Asker:
        app = make_app(
            store, public_url="http://registry.test", limits=ServerLimits(**limits), now=ticks
        )
        return Asker(app)

    return serve


@pytest.fixture
def key_of(store, people) -> Callable[..., str]:
    """Return a function that makes a token: ``key_of("member@acme.test")``."""

    def key_of(email: str | None = None, **named: Any) -> str:
        made = store.write(lambda s: create_key(s, people.operator, email=email, **named))
        return str(made.token)

    return key_of


@pytest.fixture
def member(store, people, serve, key_of) -> Asker:
    """Return a member of ``@acme`` who asks about ``@acme``."""
    return serve(store).of(token=key_of("member@acme.test"), workspace="acme")


@pytest.fixture
def anonymous(store, people, serve) -> Asker:
    return serve(store).of(workspace="acme")
