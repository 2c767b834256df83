"""The schema's version: create, check, migrate.

A database is ours when it has Alembic's table with a revision that we know. An empty one is
created; an older one is migrated, when that is allowed; anything else is refused before a
single row is read. Alembic itself is imported only when there is something to migrate.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from ..errors import StoreError
from .rows import SCHEMA_VERSION, Base

__all__ = ["MIGRATIONS", "ensure_schema", "is_current"]

MIGRATIONS: Final = Path(__file__).parent / "migrations"
_TABLE: Final = "alembic_version"
_LOCK_KEY: Final = 0x7261775F65786563
"""For PostgreSQL's advisory lock: two servers that start at once migrate one by one."""


# Race: Alembic keeps the migration that is under way in a module.
_ALEMBIC: Final = threading.Lock()


def is_current(connection: Connection) -> bool:
    """Return whether the database has exactly this version's schema."""
    if not inspect(connection).has_table(_TABLE):
        return False
    return _read_revision(connection) == SCHEMA_VERSION


def ensure_schema(connection: Connection, shown_url: str, *, migrate: bool) -> None:
    """Bring the database to this version's schema, inside the caller's transaction.

    Raises:
        StoreError: ``database_foreign``, ``database_newer`` or ``database_outdated``.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
    found = _revision(connection, shown_url)
    if found == SCHEMA_VERSION:
        return
    if found is not None and found not in _known():
        raise StoreError(
            "database_newer",
            f"registry database {shown_url} has the schema {found!r}, which is not known here",
            hint="use the newer version of raw_exec that wrote it",
        )
    if found is not None and not migrate:
        raise StoreError(
            "database_outdated",
            f"registry database {shown_url} has the schema {found!r} "
            f"where this version wants {SCHEMA_VERSION!r}",
            hint="open it once with migration allowed, after taking a copy",
        )
    _upgrade(connection)


def _revision(connection: Connection, shown_url: str) -> str | None:
    tables = set(inspect(connection).get_table_names())
    if _TABLE in tables:
        return _read_revision(connection)
    if tables & set(Base.metadata.tables):
        raise StoreError(
            "database_foreign",
            f"database {shown_url} has tables of another program",
            hint="name a new file or database for the registry",
        )
    return None


def _read_revision(connection: Connection) -> str | None:
    rows = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    return str(rows[0]) if rows else None


def _known() -> set[str]:
    return {path.stem.partition("_")[0] for path in (MIGRATIONS / "versions").glob("v*.py")}


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, "head")
