"""Registries to test with: SQLite always, PostgreSQL when its server is installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy.orm import Session

from raw_exec.contracts.errors import RegistryError
from raw_exec.contracts.model import Principal, Role
from raw_exec.contracts.service import (
    add_user,
    add_workspace,
    authenticate,
    create_key,
    create_tool,
    publish_tool_version,
    set_member,
)
from raw_exec.contracts.store import Store, open_store

T = TypeVar("T")


class Clock:
    """Time that moves only when it is told to, so that order never depends on luck."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'registry.db'}"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def any_store(url: str, clock: Clock) -> Iterator[Store]:
    """Return an empty registry, of each kind in turn."""
    with open_store(url, now=clock) as store:
        yield store


@pytest.fixture(scope="session")
def _empty_registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Migrate once and copy the file: every test would spend most of its time on that."""
    path = tmp_path_factory.mktemp("registry") / "empty.db"
    open_store(path).close()
    return path


@pytest.fixture
def store(tmp_path: Path, clock: Clock, _empty_registry: Path) -> Iterator[Store]:
    """Return an empty registry in a file."""
    path = tmp_path / "registry.db"
    shutil.copy(_empty_registry, path)
    with open_store(path, now=clock) as store:
        yield store


class People:
    """Two workspaces, and somebody of every kind.

    ``@acme`` is owned by ``owner``; ``member`` and ``admin`` belong to it. ``@vendor`` is owned
    by ``vendor``. ``both`` is a member of the two, ``stranger`` of none.
    """

    def __init__(self, store: Store) -> None:
        self.operator = Principal.operator()
        self.anonymous = Principal.anonymous()
        self._store = store
        store.write(self._create)
        emails = ("owner@acme.test", "admin@acme.test", "member@acme.test")
        self.owner, self.admin, self.member = map(self.log_in, emails)
        emails = ("owner@vendor.test", "both@else.test", "stranger@else.test")
        self.vendor, self.both, self.stranger = map(self.log_in, emails)

    def _create(self, session: Session) -> None:
        operator = self.operator
        for email in (
            "owner@acme.test",
            "admin@acme.test",
            "member@acme.test",
            "owner@vendor.test",
            "both@else.test",
            "stranger@else.test",
        ):
            add_user(session, operator, email)
        add_workspace(session, operator, "acme", owner="owner@acme.test", display_name="Acme Inc")
        add_workspace(session, operator, "vendor", owner="owner@vendor.test")
        set_member(session, operator, "acme", "admin@acme.test", Role.ADMIN)
        set_member(session, operator, "acme", "member@acme.test", Role.MEMBER)
        set_member(session, operator, "acme", "both@else.test", Role.MEMBER)
        set_member(session, operator, "vendor", "both@else.test", Role.MEMBER)

    def ask(self, who: Principal, operation: Callable[..., T], *args: Any, **named: Any) -> T:
        """Do one operation in a transaction of its own."""
        return self._store.write(lambda session: operation(session, who, *args, **named))

    def refused(
        self, who: Principal, operation: Callable[..., Any], *args: Any, **named: Any
    ) -> RegistryError:
        """Do one operation that has to be refused, and return the error."""
        with pytest.raises(RegistryError) as caught:
            self.ask(who, operation, *args, **named)
        return caught.value

    def publish(self, who: Principal, workspace: str, tool: str, number: str) -> None:
        """Create and publish a tool without content."""
        self.ask(who, create_tool, workspace, tool)
        self.ask(who, publish_tool_version, workspace, tool, number)

    def log_in(self, email: str, client: str = "web") -> Principal:
        """Return a user's principal, as a request with a new key of theirs would have it."""
        made = self._store.write(lambda s: create_key(s, self.operator, email=email))
        return self._store.read(lambda s: authenticate(s, made.token, client=client))  # type: ignore[arg-type]


@pytest.fixture
def people(store: Store) -> People:
    return People(store)


@pytest.fixture
def any_people(any_store: Store) -> People:
    return People(any_store)
