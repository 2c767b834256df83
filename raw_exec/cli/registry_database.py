"""The database of ``raw registry``: which one, opened for one command."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..errors import ConfigError
from .failures import extra_missing

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from ..contracts.store import Store

__all__ = [
    "ask_database",
    "database_option",
    "default_database",
    "open_database",
    "plain",
    "read_database",
    "registry_extra_missing",
    "shown_database",
]

T = TypeVar("T")
_F = TypeVar("_F", bound=Callable[..., Any])


def default_database() -> str:
    """Return the database that is used when none is named."""
    named = os.environ.get("RAW_REGISTRY_DB")
    if named:
        return named
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return str(Path(data) / "raw" / "registry.db")


def database_option(function: _F) -> _F:
    """Add ``--db`` to a command."""
    return click.option(
        "--db",
        metavar="URL",
        help="A file, sqlite:///path or postgresql://user:password@host/name. "
        "Default: $RAW_REGISTRY_DB, else $XDG_DATA_HOME/raw/registry.db.",
    )(function)


def open_database(db: str | None) -> Store:
    """Open the registry's database, creating or migrating it.

    Raises:
        ConfigError: ``extra_missing``, when the packages that it needs are not installed.
        StoreError: When it can not be used.
    """
    try:
        from ..contracts.store import open_store

        return open_store(db if db is not None else default_database())
    except ModuleNotFoundError as exc:
        raise registry_extra_missing(exc) from exc


def registry_extra_missing(exc: ModuleNotFoundError) -> ConfigError:
    """Return what to say when a package of the extra is not installed."""
    extra = "postgres" if exc.name == "psycopg" else "contracts"
    return extra_missing(exc, "the registry", extra)


def ask_database(db: str | None, work: Callable[[Session], T]) -> T:
    """Run ``work(session)`` in one writing transaction, and close the database again."""
    with open_database(db) as store:
        return store.write(work)


def read_database(db: str | None, work: Callable[[Session], T]) -> T:
    """Run ``work(session)`` in one reading transaction, and close the database again."""
    with open_database(db) as store:
        return store.read(work)


def shown_database(db: str | None) -> str:
    """Return the database's address for a message, without its password."""
    address = db if db is not None else default_database()
    if "://" not in address:
        return address
    from sqlalchemy.engine import make_url

    return make_url(address).render_as_string(hide_password=True)


def plain(value: Any) -> Any:
    """Return a view of the registry as JSON data."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    slots = getattr(value, "__dataclass_fields__", None)
    if slots is not None:
        return {name: plain(getattr(value, name)) for name in slots}
    return value
