"""Tables of the registry.

Rules that need only one table are constraints here as well, so that no way into the
database can break them: one draft per entity, unique names, versions, wire names and pins.
Rules across tables are decided in a transaction by ``service``.

JSON columns hold what callers sent; nothing may depend on the order of their keys.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeDecorator

__all__ = [
    "SCHEMA_VERSION",
    "ApiKeyRow",
    "Base",
    "DeviceRow",
    "MembershipRow",
    "PinRow",
    "PromptFileRow",
    "PromptRow",
    "PromptVersionRow",
    "ToolRow",
    "ToolVersionRow",
    "UserRow",
    "WorkspaceRow",
]

SCHEMA_VERSION: Final = "v0001"
"""The newest migration; a test compares it, and these tables, with the migrations."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Instant(TypeDecorator[datetime]):
    """An aware UTC datetime as microseconds since 1970: alike and ordered in any database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else (value - _EPOCH) // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        return None if value is None else _EPOCH + value * _MICROSECOND


class Base(DeclarativeBase):
    """What every table has in common: names of constraints that migrations can find."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's own declaration form
        str: String(512),
        datetime: Instant(),
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
    }


_DRAFT_ONLY: Final = text("status = 'DRAFT'")


class UserRow(Base):
    __tablename__ = "users"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    email: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime]


class WorkspaceRow(Base):
    __tablename__ = "workspaces"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    display_name: Mapped[str | None]
    description: Mapped[str | None] = mapped_column(Text)
    cli_publishing: Mapped[bool]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class MembershipRow(Base):
    __tablename__ = "memberships"

    workspace_id: Mapped[str] = mapped_column(ForeignKey("workspaces.id"), primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey("users.id"), primary_key=True, index=True)
    role: Mapped[str]
    created_at: Mapped[datetime]

    workspace: Mapped[WorkspaceRow] = relationship(lazy="raise")
    user: Mapped[UserRow] = relationship(lazy="raise")


class ApiKeyRow(Base):
    """A key by the hash of its token, which is random enough that a plain hash will do."""

    __tablename__ = "api_keys"
    __table_args__ = (
        CheckConstraint("(user_id IS NULL) <> (workspace_id IS NULL)", name="one_holder"),
    )

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_sha256: Mapped[str] = mapped_column(String(64), unique=True)
    label: Mapped[str]
    user_id: Mapped[str | None] = mapped_column(ForeignKey("users.id"), index=True)
    workspace_id: Mapped[str | None] = mapped_column(ForeignKey("workspaces.id"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]

    workspace: Mapped[WorkspaceRow | None] = relationship(lazy="raise")


class DeviceRow(Base):
    """A login by device code that was started and not yet collected."""

    __tablename__ = "device_logins"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    device_sha256: Mapped[str] = mapped_column(String(64), unique=True)
    user_code: Mapped[str] = mapped_column(String(16), unique=True)
    label: Mapped[str]
    state: Mapped[str] = mapped_column(String(16))
    interval_seconds: Mapped[int]
    user_id: Mapped[str | None] = mapped_column(ForeignKey("users.id"))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
    polled_at: Mapped[datetime | None]


class _Entity:
    """Columns of tools and prompts alike."""

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    workspace_id: Mapped[str] = mapped_column(ForeignKey("workspaces.id"))
    name: Mapped[str]
    description: Mapped[str | None] = mapped_column(Text)
    visibility: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class _Versioned:
    """Columns of tool versions and prompt versions alike.

    The three numbers order versions; those of a draft come from its label.
    """

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    version: Mapped[str] = mapped_column(String(64))
    major: Mapped[int]
    minor: Mapped[int]
    patch: Mapped[int]
    status: Mapped[str] = mapped_column(String(16))
    readme: Mapped[str] = mapped_column(Text)
    output_schema: Mapped[dict[str, Any] | None]
    revision: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    published_at: Mapped[datetime | None]


class ToolRow(_Entity, Base):
    __tablename__ = "tools"
    __table_args__ = (
        UniqueConstraint("workspace_id", "name"),
        Index(None, "workspace_id", "created_at", "id"),
    )

    tags: Mapped[list[Any]]

    workspace: Mapped[WorkspaceRow] = relationship(lazy="joined", innerjoin=True)


class ToolVersionRow(_Versioned, Base):
    __tablename__ = "tool_versions"
    __table_args__ = (
        UniqueConstraint("tool_id", "version"),
        Index(
            "uq_tool_versions_one_draft",
            "tool_id",
            unique=True,
            sqlite_where=_DRAFT_ONLY,
            postgresql_where=_DRAFT_ONLY,
        ),
    )

    tool_id: Mapped[str] = mapped_column(ForeignKey("tools.id"))
    model_description: Mapped[str] = mapped_column(Text)
    input_schema: Mapped[dict[str, Any]]
    # "metadata" is taken on a declarative class.
    metadata_: Mapped[dict[str, Any]] = mapped_column("metadata")

    tool: Mapped[ToolRow] = relationship(lazy="joined", innerjoin=True)


class PromptRow(_Entity, Base):
    __tablename__ = "prompts"
    __table_args__ = (
        UniqueConstraint("workspace_id", "name"),
        UniqueConstraint("workspace_id", "identity"),
        Index(None, "workspace_id", "created_at", "id"),
    )

    identity: Mapped[str]
    kind: Mapped[str] = mapped_column(String(16))

    workspace: Mapped[WorkspaceRow] = relationship(lazy="joined", innerjoin=True)


class PromptVersionRow(_Versioned, Base):
    __tablename__ = "prompt_versions"
    __table_args__ = (
        UniqueConstraint("prompt_id", "version"),
        Index(
            "uq_prompt_versions_one_draft",
            "prompt_id",
            unique=True,
            sqlite_where=_DRAFT_ONLY,
            postgresql_where=_DRAFT_ONLY,
        ),
    )

    prompt_id: Mapped[str] = mapped_column(ForeignKey("prompts.id"))
    metadata_: Mapped[dict[str, Any]] = mapped_column("metadata")
    decision_spec: Mapped[dict[str, Any] | None]
    model_config_: Mapped[dict[str, Any] | None] = mapped_column("model_config")

    prompt: Mapped[PromptRow] = relationship(lazy="joined", innerjoin=True)
    files: Mapped[list[PromptFileRow]] = relationship(
        lazy="raise",
        order_by="PromptFileRow.position",
        cascade="all, delete-orphan",
        back_populates="prompt_version",
    )
    pins: Mapped[list[PinRow]] = relationship(
        lazy="raise",
        order_by="PinRow.position",
        cascade="all, delete-orphan",
        back_populates="prompt_version",
    )


class PromptFileRow(Base):
    __tablename__ = "prompt_files"
    __table_args__ = (UniqueConstraint("prompt_version_id", "name"),)

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    prompt_version_id: Mapped[str] = mapped_column(ForeignKey("prompt_versions.id"))
    position: Mapped[int] = mapped_column(Integer)
    name: Mapped[str]
    content: Mapped[str] = mapped_column(Text)
    is_entrypoint: Mapped[bool]
    format: Mapped[str] = mapped_column(String(16))
    input_schema: Mapped[dict[str, Any] | None]
    option_input_schema: Mapped[dict[str, Any] | None]
    schema_warnings: Mapped[list[Any]]

    prompt_version: Mapped[PromptVersionRow] = relationship(lazy="raise", back_populates="files")


class PinRow(Base):
    """A pin names a version; the tool stands beside it so that it can be unique."""

    __tablename__ = "pins"
    __table_args__ = (
        UniqueConstraint("prompt_version_id", "tool_id"),
        UniqueConstraint("prompt_version_id", "alias"),
    )

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    prompt_version_id: Mapped[str] = mapped_column(ForeignKey("prompt_versions.id"))
    tool_id: Mapped[str] = mapped_column(ForeignKey("tools.id"), index=True)
    tool_version_id: Mapped[str] = mapped_column(ForeignKey("tool_versions.id"), index=True)
    alias: Mapped[str] = mapped_column(String(64))
    position: Mapped[int] = mapped_column(Integer)

    prompt_version: Mapped[PromptVersionRow] = relationship(lazy="raise", back_populates="pins")
    tool_version: Mapped[ToolVersionRow] = relationship(lazy="raise")
