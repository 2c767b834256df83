"""The two kinds of registry: a file, and a server's application asked without a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio
from contracts.conftest import People

from raw_exec.contracts.client import RemoteRegistry, Transport
from raw_exec.contracts.client.embedded import EmbeddedRegistry
from raw_exec.contracts.model import Principal
from raw_exec.contracts.server import make_app
from raw_exec.contracts.service import create_key, set_workspace
from raw_exec.contracts.store import Store, open_store


class AppTransport(Transport):
    """Hands requests to an ASGI application instead of the network."""

    def __init__(self, app: Any, token: str | None) -> None:
        super().__init__("http://registry.test", token)
        self._app = app

    def _send(
        self, path: str, data: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Any, float | None]:
        sent: list[Any] = []
        given = {"Content-Type": "application/json", **headers}
        if self._token is not None:
            given["Authorization"] = f"Bearer {self._token}"
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(k.lower().encode(), v.encode()) for k, v in given.items()],
            "client": ("192.0.2.1", 5),
            "server": ("test", 80),
        }
        messages = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> Any:
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        async def run() -> None:
            with trio.fail_after(30):
                await self._app(scope, receive, send)

        trio.run(run)
        start, *rest = sent
        body = b"".join(message.get("body", b"") for message in rest)
        return start["status"], self._decode(body, start["status"]), None


@pytest.fixture
def remote_of() -> Callable[[Store, str | None], RemoteRegistry]:
    """Return a function that makes a client of a store's server: ``remote_of(store, token)``."""

    def remote_of(store: Store, token: str | None) -> RemoteRegistry:
        app = make_app(store, public_url="http://registry.test")
        return RemoteRegistry(AppTransport(app, token))

    return remote_of


@pytest.fixture
def remote(store, people, remote_of) -> RemoteRegistry:
    """A member of ``@acme``, over a server whose workspaces let command lines publish."""
    return remote_of(store, _let_command_lines_publish(store))


@dataclass
class Pair:
    """The same people in two databases of one kind: one is asked as a server, one as itself."""

    served: RemoteRegistry
    local: EmbeddedRegistry


@pytest.fixture(params=["sqlite", "postgres"])
def pair(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    clock: Any,
    remote_of: Callable[[Store, str | None], RemoteRegistry],
) -> Iterator[Pair]:
    """Return both kinds of registry, on each kind of database in turn."""
    if request.param == "postgres":
        new: Callable[[], str] = request.getfixturevalue("new_postgres_url")
        urls = [new(), new()]
    else:
        urls = [str(tmp_path / "served.db"), str(tmp_path / "local.db")]
    with open_store(urls[0], now=clock) as served, open_store(urls[1], now=clock) as local:
        assert served.dialect == {"postgres": "postgresql"}.get(request.param, "sqlite")
        for store in (served, local):
            People(store)
        token = _let_command_lines_publish(served)
        yield Pair(remote_of(served, token), EmbeddedRegistry(local, "local"))


def _let_command_lines_publish(store: Store) -> str:
    """Open the publishing gates, and return the key of a member of both workspaces."""
    operator = Principal.operator()
    for workspace in ("acme", "vendor"):
        store.write(lambda s, w=workspace: set_workspace(s, operator, w, cli_publishing=True))
    return store.write(lambda s: create_key(s, operator, email="both@else.test")).token


@pytest.fixture
def embedded(store, people) -> EmbeddedRegistry:
    """Whoever holds the database, with the same people in it."""
    return EmbeddedRegistry(store, "registry.db")
