"""What the registry hands out: frozen values, safe to keep after a transaction.

Enumeration values are the words of the wire. Workspaces, tools and prompts carry bare
names (``acme``, ``fetch-page``); ``ref`` spells the whole reference. Times are aware UTC.

Contract source: seed 3, "What a contract holds", "Pinning a tool to a prompt version".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

__all__ = [
    "UNSET",
    "ApiKey",
    "Client",
    "FileFormat",
    "Member",
    "Membership",
    "ModelConfig",
    "NewApiKey",
    "Page",
    "Pin",
    "Principal",
    "Prompt",
    "PromptFile",
    "PromptKind",
    "PromptVersion",
    "Provider",
    "Role",
    "Status",
    "Tool",
    "ToolVersion",
    "Unset",
    "User",
    "Visibility",
    "Workspace",
]

T = TypeVar("T")
Json: TypeAlias = dict[str, Any]
Client = Literal["cli", "web", "local"]


class Unset(Enum):
    """Tells "leave it as it is" from ``None``, which clears."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


class Role(Enum):
    """What a member may do. Everybody reads and authors; the others also administer."""

    OWNER = "OWNER"
    ADMIN = "ADMIN"
    MEMBER = "MEMBER"


class Visibility(Enum):
    """Who may read the published versions of a tool or prompt."""

    PRIVATE = "PRIVATE"
    PUBLIC = "PUBLIC"


class Status(Enum):
    """Drafts change; publications do not."""

    DRAFT = "DRAFT"
    PUBLISHED = "PUBLISHED"


class PromptKind(Enum):
    """Which kind of model a prompt is for; fixed when it is created."""

    LLM = "LLM"
    SYSTEM_ONE = "SYSTEM_ONE"


class FileFormat(Enum):
    """What a prompt's file is, once its template is rendered."""

    TEXT = "TEXT"
    YAML = "YAML"


class Provider(Enum):
    """Who runs the model of a model config."""

    ANTHROPIC = "ANTHROPIC"
    OPENAI = "OPENAI"
    GOOGLE = "GOOGLE"
    MISTRAL = "MISTRAL"
    DEEPSEEK = "DEEPSEEK"
    XAI = "XAI"
    GROQ = "GROQ"
    TOGETHER = "TOGETHER"
    TYPESAFE = "TYPESAFE"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks. Only ``authenticate()`` makes one out of a key.

    Args:
        client: What it asks with; ``"cli"`` is held to the publishing gate.
        user_id: The user, for a user's key.
        workspace_id: The workspace, for a workspace's key.
        key_id: The key; it is looked up again in every transaction.
        is_operator: Whoever can open the database may do everything.
    """

    client: Client
    user_id: str | None = None
    workspace_id: str | None = None
    key_id: str | None = None
    is_operator: bool = False

    @classmethod
    def operator(cls) -> Principal:
        """Return the person who holds the database itself."""
        return cls("local", is_operator=True)

    @classmethod
    def anonymous(cls, client: Client = "web") -> Principal:
        """Return somebody without a key, who sees what is public."""
        return cls(client)


@dataclass(frozen=True, slots=True)
class User:
    """A person."""

    id: str
    email: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Workspace:
    """An owner of tools and prompts."""

    id: str
    name: str
    display_name: str | None
    description: str | None
    cli_publishing: bool
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Membership:
    """A workspace, seen by one of its members."""

    role: Role
    workspace: Workspace


@dataclass(frozen=True, slots=True)
class Member:
    """A member, seen by the workspace."""

    user: User
    role: Role


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, without its secret. It belongs to a user or to a workspace."""

    id: str
    label: str
    user_id: str | None
    workspace: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """A key with its secret, which the registry does not keep."""

    key: ApiKey
    token: str

    def __repr__(self) -> str:
        return f"NewApiKey(key={self.key!r}, token='…')"


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool in the catalogue. Nothing here reaches a model but the name."""

    id: str
    workspace: str
    name: str
    description: str | None
    visibility: Visibility
    tags: tuple[str, ...]
    created_at: datetime
    updated_at: datetime

    @property
    def ref(self) -> str:
        return f"@{self.workspace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ToolVersion:
    """Everything that steers the model, frozen when it is published.

    Args:
        version: ``x.y.z``, or the label of a draft.
        model_description: What the model reads; ``""`` until it is written.
        revision: Counts the changes of a draft; pass it back to change only what you saw.
    """

    id: str
    tool: Tool
    version: str
    status: Status
    model_description: str
    input_schema: Json
    output_schema: Json | None
    metadata: Json
    readme: str
    revision: int
    created_at: datetime
    updated_at: datetime
    published_at: datetime | None

    @property
    def ref(self) -> str:
        return f"{self.tool.ref}@{self.version}"


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in the catalogue."""

    id: str
    workspace: str
    name: str
    description: str | None
    visibility: Visibility
    kind: PromptKind
    created_at: datetime
    updated_at: datetime

    @property
    def ref(self) -> str:
        return f"@{self.workspace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A template of a prompt version, and what it wants filled in.

    Args:
        input_schema: JSON Schema of the template's variables; ``None`` without any.
        schema_warnings: ``{"path": …, "message": …}`` for what could not be inferred.
    """

    name: str
    content: str
    is_entrypoint: bool
    format: FileFormat
    input_schema: Json | None
    option_input_schema: Json | None
    schema_warnings: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Which model a prompt version was written for."""

    provider: Provider
    model: str
    parameters: Json | None


@dataclass(frozen=True, slots=True)
class Pin:
    """One concrete tool version under the name that the model emits."""

    alias: str
    tool_version: ToolVersion


@dataclass(frozen=True, slots=True)
class PromptVersion:
    """A prompt's content, frozen with its pins when it is published.

    Args:
        files: In the order of creation.
        pins: In the order of pinning, without those that the reader may not read.
        hidden_pins: How many those are; only a draft can have some.
        revision: Counts the changes of a draft.
    """

    id: str
    prompt: Prompt
    version: str
    status: Status
    metadata: Json
    output_schema: Json | None
    decision_spec: Json | None
    model_config: ModelConfig | None
    readme: str
    files: tuple[PromptFile, ...]
    pins: tuple[Pin, ...]
    hidden_pins: int
    revision: int
    created_at: datetime
    updated_at: datetime
    published_at: datetime | None

    @property
    def ref(self) -> str:
        return f"{self.prompt.ref}@{self.version}"


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list, and how long the whole list is."""

    data: tuple[T, ...]
    total: int
