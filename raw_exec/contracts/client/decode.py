"""Answers of a server to the values that the service returns.

Security: the server may be anybody's. Every field is checked for its type; what its texts
say is looked at by whoever makes file names or programs of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

from ...errors import Problem
from ..errors import (
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    PublishingDisabled,
    RegistryError,
    StoreError,
    Unauthenticated,
)
from ..model import (
    FileFormat,
    ModelConfig,
    Page,
    Pin,
    Prompt,
    PromptFile,
    PromptKind,
    PromptVersion,
    Provider,
    Status,
    Tool,
    ToolVersion,
    Visibility,
)

__all__ = [
    "PROMPT",
    "PROMPT_FILE",
    "PROMPT_VERSION",
    "TOOL",
    "TOOL_VERSION",
    "decoding",
    "error_of",
    "field",
    "read_file",
    "read_page",
    "read_prompt",
    "read_prompt_version",
    "read_tool",
    "read_tool_version",
]

T = TypeVar("T")
E = TypeVar("E", bound=Enum)

TOOL = "id name workspace { name } description visibility tags createdAt updatedAt"
TOOL_VERSION = (
    "id version status modelDescription inputSchema outputSchema metadata readme revision "
    f"createdAt updatedAt publishedAt tool {{ {TOOL} }}"
)
PROMPT = "id name workspace { name } description visibility kind createdAt updatedAt"
PROMPT_FILE = "name content isEntrypoint format inputSchema optionInputSchema schemaWarnings"
PROMPT_VERSION = (
    "id version status metadata outputSchema decisionSpec "
    f"modelConfig {{ provider model parameters }} readme files {{ {PROMPT_FILE} }} "
    f"tools {{ alias toolVersion {{ {TOOL_VERSION} }} }} hiddenTools revision "
    "createdAt updatedAt publishedAt"
)


def decoding(read: Callable[[Any], T], value: Any) -> T:
    """Return ``read(value)``; an answer of the wrong shape becomes a ``StoreError``."""
    try:
        return read(value)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise StoreError(
            "bad_answer",
            "the registry's answer is not what was asked for",
            hint="check that the registry is this program's, or as new",
        ) from exc


def field(value: Any, name: str, kind: type[T]) -> T:
    """Return a member of an object that has to be of one type."""
    found = value[name]
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise TypeError(name)
    return found


def _maybe(value: Any, name: str, kind: type[T]) -> T | None:
    return None if value[name] is None else field(value, name, kind)


def _time(value: Any, name: str) -> datetime:
    read = datetime.fromisoformat(field(value, name, str))
    if read.tzinfo is None:
        raise ValueError(name)
    return read


def _maybe_time(value: Any, name: str) -> datetime | None:
    return None if value[name] is None else _time(value, name)


def _word(value: Any, name: str, kind: type[E]) -> E:
    return kind(field(value, name, str))


def _texts(value: Any, name: str) -> tuple[str, ...]:
    found = field(value, name, list)
    if not all(isinstance(one, str) for one in found):
        raise TypeError(name)
    return tuple(found)


def _workspace(value: Any) -> str:
    return field(field(value, "workspace", dict), "name", str)


def read_tool(value: Any) -> Tool:
    """Return a tool from what ``TOOL`` selects."""
    return Tool(
        id=field(value, "id", str),
        workspace=_workspace(value),
        name=field(value, "name", str),
        description=_maybe(value, "description", str),
        visibility=_word(value, "visibility", Visibility),
        tags=_texts(value, "tags"),
        created_at=_time(value, "createdAt"),
        updated_at=_time(value, "updatedAt"),
    )


def read_tool_version(value: Any) -> ToolVersion:
    """Return a tool version from what ``TOOL_VERSION`` selects."""
    return ToolVersion(
        id=field(value, "id", str),
        tool=read_tool(value["tool"]),
        version=field(value, "version", str),
        status=_word(value, "status", Status),
        model_description=_maybe(value, "modelDescription", str) or "",
        input_schema=field(value, "inputSchema", dict),
        output_schema=_maybe(value, "outputSchema", dict),
        metadata=_maybe(value, "metadata", dict) or {},
        readme=_maybe(value, "readme", str) or "",
        revision=field(value, "revision", int),
        created_at=_time(value, "createdAt"),
        updated_at=_time(value, "updatedAt"),
        published_at=_maybe_time(value, "publishedAt"),
    )


def read_prompt(value: Any) -> Prompt:
    """Return a prompt from what ``PROMPT`` selects."""
    return Prompt(
        id=field(value, "id", str),
        workspace=_workspace(value),
        name=field(value, "name", str),
        description=_maybe(value, "description", str),
        visibility=_word(value, "visibility", Visibility),
        kind=_word(value, "kind", PromptKind),
        created_at=_time(value, "createdAt"),
        updated_at=_time(value, "updatedAt"),
    )


def read_file(value: Any) -> PromptFile:
    """Return a prompt's file from what ``PROMPT_FILE`` selects."""
    warnings = _maybe(value, "schemaWarnings", list) or []
    return PromptFile(
        name=field(value, "name", str),
        content=field(value, "content", str),
        is_entrypoint=field(value, "isEntrypoint", bool),
        format=_word(value, "format", FileFormat),
        input_schema=_maybe(value, "inputSchema", dict),
        option_input_schema=_maybe(value, "optionInputSchema", dict),
        schema_warnings=tuple(
            {key: field(one, key, str) for key in ("path", "message")} for one in warnings
        ),
    )


def _model_config(value: Any) -> ModelConfig | None:
    if value is None:
        return None
    return ModelConfig(
        provider=_word(value, "provider", Provider),
        model=field(value, "model", str),
        parameters=_maybe(value, "parameters", dict),
    )


def read_prompt_version(value: Any, prompt: Prompt) -> PromptVersion:
    """Return a version of ``prompt`` from what ``PROMPT_VERSION`` selects."""
    return PromptVersion(
        id=field(value, "id", str),
        prompt=prompt,
        version=field(value, "version", str),
        status=_word(value, "status", Status),
        metadata=_maybe(value, "metadata", dict) or {},
        output_schema=_maybe(value, "outputSchema", dict),
        decision_spec=_maybe(value, "decisionSpec", dict),
        model_config=_model_config(value["modelConfig"]),
        readme=_maybe(value, "readme", str) or "",
        files=tuple(read_file(one) for one in field(value, "files", list)),
        pins=tuple(
            Pin(field(one, "alias", str), read_tool_version(one["toolVersion"]))
            for one in field(value, "tools", list)
        ),
        hidden_pins=field(value, "hiddenTools", int),
        revision=field(value, "revision", int),
        created_at=_time(value, "createdAt"),
        updated_at=_time(value, "updatedAt"),
        published_at=_maybe_time(value, "publishedAt"),
    )


def read_page(value: Any, read: Callable[[Any], T]) -> Page[T]:
    """Return a page whose entries ``read`` reads."""
    return Page(tuple(read(one) for one in field(value, "data", list)), field(value, "total", int))


_CLASSES: Mapping[str, type[RegistryError]] = {
    kind.graphql_code: kind
    for kind in (NotFound, Conflict, Forbidden, Invalid, Unauthenticated, StoreError)
}


def error_of(answer: Any, status: int, workspace: str) -> RegistryError | None:
    """Return the exception that an answer's first error stands for, if it has one."""
    errors = answer.get("errors") if isinstance(answer, dict) else None
    if not isinstance(errors, list) or not errors or not isinstance(errors[0], dict):
        if status == 200:
            return None
        return StoreError(
            "bad_answer",
            f"the registry answered with status {status}",
            hint="check that a registry runs at this address",
        )
    extensions = errors[0].get("extensions")
    extensions = extensions if isinstance(extensions, dict) else {}

    def text(value: object, default: str) -> str:
        return value if isinstance(value, str) and value else default

    code = text(extensions.get("code"), "")
    message = text(errors[0].get("message"), "the registry refused the request")
    if code == PublishingDisabled.graphql_code:
        return PublishingDisabled(workspace)
    kind = _CLASSES.get(code, Unauthenticated if status == 401 else StoreError)
    # The message ends with the hint already.
    error = kind(text(extensions.get("rule"), "registry_refused"), message)
    error.hint = text(extensions.get("hint"), "") or None
    if isinstance(error, Invalid) and isinstance(extensions.get("problems"), list):
        error.problems = tuple(
            Problem(text(one.get("pointer"), ""), text(one.get("message"), ""))
            for one in extensions["problems"]
            if isinstance(one, dict)
        )
    return error
