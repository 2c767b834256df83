"""Resolvers that read."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, TypeAlias

from ariadne import ObjectType, QueryType, ScalarType
from graphql import GraphQLResolveInfo

from .. import service
from ..errors import NotFound
from ..model import (
    Membership,
    Page,
    Pin,
    Prompt,
    PromptFile,
    PromptVersion,
    Status,
    Tool,
    ToolVersion,
    User,
    Workspace,
)
from .context import RequestContext, checked_id

__all__ = ["READING_TYPES", "SCALARS", "context_of"]

Info: TypeAlias = GraphQLResolveInfo
_FIRST_PAGE: Final = {"skip": 0, "take": 50}

date_time = ScalarType("DateTime")
SCALARS: Final = (date_time,)


def context_of(info: Info) -> RequestContext:
    """Return the context of the request that is being resolved."""
    context = info.context
    assert isinstance(context, RequestContext)  # noqa: S101 - the executor put it there
    return context


@date_time.serializer
def _write_time(value: datetime) -> str:
    return value.isoformat().replace("+00:00", "Z")


query = QueryType()
user_type = ObjectType("User")
workspace_type = ObjectType("Workspace")
tool_type = ObjectType("Tool")
prompt_type = ObjectType("Prompt")
prompt_version_type = ObjectType("PromptVersion")
file_type = ObjectType("PromptFile")
READING_TYPES: Final = (
    query,
    user_type,
    workspace_type,
    tool_type,
    prompt_type,
    prompt_version_type,
    file_type,
)


@query.field("me")
def _me(_root: None, info: Info) -> User:
    return context_of(info).read(service.me)


@user_type.field("memberships")
def _memberships(_user: User, info: Info) -> tuple[Membership, ...]:
    # ``me`` is the only user that a query reaches.
    return context_of(info).read(service.my_memberships)


@query.field("tool")
def _tool(_root: None, info: Info, *, tool_name: Any) -> Tool:
    context = context_of(info)
    return context.read(service.get_tool, context.workspace, checked_id(tool_name))


@query.field("toolVersion")
def _one_tool_version(
    _root: None,
    info: Info,
    *,
    tool_name: Any,
    constraint: str | None = None,
    status: Status | None = None,
) -> ToolVersion | None:
    context = context_of(info)
    return context.read(
        service.find_tool_version,
        context.workspace,
        checked_id(tool_name),
        None if constraint is None else checked_id(constraint),
        status=status,
    )


@query.field("tools")
def _tools(
    _root: None, info: Info, *, pagination: dict[str, int], search: str | None = None
) -> Page[Tool]:
    context = context_of(info)
    return context.read(
        service.list_tools,
        context.workspace,
        skip=pagination["skip"],
        take=pagination["take"],
        search=search,
    )


@query.field("prompt")
def _prompt(_root: None, info: Info, *, prompt_name: Any) -> Prompt:
    context = context_of(info)
    return context.read(service.get_prompt, context.workspace, checked_id(prompt_name))


@query.field("prompts")
def _prompts(
    _root: None, info: Info, *, pagination: dict[str, int], search: str | None = None
) -> Page[Prompt]:
    context = context_of(info)
    return context.read(
        service.list_prompts,
        context.workspace,
        skip=pagination["skip"],
        take=pagination["take"],
        search=search,
    )


@query.field("promptCollection")
def _collection(_root: None, info: Info, *, name: Any) -> None:
    context = context_of(info)
    raise NotFound(
        "collection_unknown",
        f"collection @{context.workspace}/+{checked_id(name)!s:.64} does not exist",
        hint="this registry has no collections; name each prompt",
    )


@query.field("evalYaml")
def _eval_yaml(_root: None, info: Info, *, prompt_name: Any, version: Any) -> None:
    context = context_of(info)
    context.read(
        service.get_prompt_version, context.workspace, checked_id(prompt_name), checked_id(version)
    )


# A workspace inside another answer is its bare name until more of it is asked for.


@tool_type.field("workspace")
@prompt_type.field("workspace")
def _workspace(entry: Tool | Prompt, _info: Info) -> str:
    return entry.workspace


@workspace_type.field("name")
def _workspace_name(workspace: Workspace | str, _info: Info) -> str:
    return workspace if isinstance(workspace, str) else workspace.name


@workspace_type.field("displayName")
def _display_name(workspace: Workspace | str, info: Info) -> str | None:
    return _whole(workspace, info).display_name


@workspace_type.field("description")
def _workspace_description(workspace: Workspace | str, info: Info) -> str | None:
    return _whole(workspace, info).description


def _whole(workspace: Workspace | str, info: Info) -> Workspace:
    if isinstance(workspace, Workspace):
        return workspace
    return context_of(info).read(service.get_workspace, workspace)


@tool_type.field("dependentCount")
def _dependent_count(tool: Tool, info: Info) -> int:
    return context_of(info).read(service.dependent_count, tool.workspace, tool.name)


@tool_type.field("version")
def _tool_version(
    tool: Tool, info: Info, *, constraint: str | None = None, status: Status | None = None
) -> ToolVersion | None:
    return context_of(info).read(
        service.find_tool_version,
        tool.workspace,
        tool.name,
        None if constraint is None else checked_id(constraint),
        status=status,
    )


@tool_type.field("versions")
def _tool_versions(
    tool: Tool,
    info: Info,
    *,
    pagination: dict[str, int] | None = None,
    status: Status | None = None,
) -> Page[ToolVersion]:
    page = pagination or _FIRST_PAGE
    return context_of(info).read(
        service.list_tool_versions,
        tool.workspace,
        tool.name,
        skip=page["skip"],
        take=page["take"],
        status=status,
    )


@prompt_type.field("version")
def _prompt_version(
    prompt: Prompt, info: Info, *, constraint: str | None = None, status: Status | None = None
) -> PromptVersion | None:
    return context_of(info).read(
        service.find_prompt_version,
        prompt.workspace,
        prompt.name,
        None if constraint is None else checked_id(constraint),
        status=status,
    )


@prompt_type.field("versions")
def _prompt_versions(
    prompt: Prompt,
    info: Info,
    *,
    pagination: dict[str, int] | None = None,
    status: Status | None = None,
) -> Page[PromptVersion]:
    page = pagination or _FIRST_PAGE
    return context_of(info).read(
        service.list_prompt_versions,
        prompt.workspace,
        prompt.name,
        skip=page["skip"],
        take=page["take"],
        status=status,
    )


@prompt_version_type.field("tools")
def _pins(version: PromptVersion, _info: Info) -> tuple[Pin, ...]:
    return version.pins


@prompt_version_type.field("hiddenTools")
def _hidden_pins(version: PromptVersion, _info: Info) -> int:
    return version.hidden_pins


@file_type.field("schemaWarnings")
def _schema_warnings(file: PromptFile, _info: Info) -> list[dict[str, str]]:
    return list(file.schema_warnings)
