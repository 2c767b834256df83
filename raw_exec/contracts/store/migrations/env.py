"""Alembic runs this file; the connection and its transaction are the caller's."""

from __future__ import annotations

from alembic import context

from raw_exec.contracts.store.rows import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,
)
context.run_migrations()
