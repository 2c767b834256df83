"""Resolvers that change something; each is one transaction."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from ariadne import MutationType
from graphql import GraphQLResolveInfo

from .. import service
from ..errors import Forbidden, Invalid
from ..model import (
    UNSET,
    Prompt,
    PromptFile,
    PromptKind,
    PromptVersion,
    Tool,
    ToolVersion,
    Visibility,
)
from .context import RequestContext, checked_id
from .queries import context_of

__all__ = ["mutation"]

Info: TypeAlias = GraphQLResolveInfo
mutation = MutationType()

_CLEARED: Final[dict[str, Any]] = {"model_description": "", "metadata": {}, "readme": ""}
"""What null clears a field of a version to, when it is not null."""


def _target(info: Info, name: Any) -> tuple[RequestContext, str, str]:
    """Return the context, and whose tool or prompt is meant."""
    context = context_of(info)
    return context, context.workspace, checked_id(name)


def _check_not_from_cli(context: RequestContext, what: str) -> None:
    """Keep agents and scripts from what the registry's policy leaves to people."""
    if context.principal.client == "cli":
        raise Forbidden(
            "not_from_cli",
            f"{what} is not possible from a command line or an agent",
            hint="ask an owner or admin of the workspace to do it",
        )


@mutation.field("revokeUserApiKey")
def _revoke_key(_root: None, info: Info, *, id: Any) -> bool:  # noqa: A002
    return context_of(info).write(service.revoke_key, checked_id(id))


# -- tools


@mutation.field("createTool")
def _create_tool(_root: None, info: Info, *, name: str, description: str | None = None) -> Tool:
    context = context_of(info)
    return context.write(service.create_tool, context.workspace, name, description=description)


@mutation.field("updateTool")
def _update_tool(_root: None, info: Info, *, tool_name: Any, args: dict[str, Any]) -> Tool:
    context, workspace, name = _target(info, tool_name)
    tags = args.get("tags")
    return context.write(
        service.update_tool,
        workspace,
        name,
        description=args.get("description", UNSET),
        tags=UNSET if tags is None else tuple(tags),
    )


@mutation.field("setToolVisibility")
def _set_tool_visibility(
    _root: None, info: Info, *, tool_name: Any, visibility: Visibility
) -> Tool:
    context, workspace, name = _target(info, tool_name)
    _check_not_from_cli(context, "changing a tool's visibility")
    return context.write(service.set_tool_visibility, workspace, name, visibility)


@mutation.field("deleteTool")
def _delete_tool(_root: None, info: Info, *, tool_name: Any) -> bool:
    context, workspace, name = _target(info, tool_name)
    _check_not_from_cli(context, "deleting a tool")
    return context.write(service.delete_tool, workspace, name)


@mutation.field("createToolVersionDraft")
def _create_tool_draft(_root: None, info: Info, *, tool_name: Any) -> ToolVersion:
    context, workspace, name = _target(info, tool_name)
    return context.write(service.create_tool_draft, workspace, name)


@mutation.field("updateToolVersion")
def _update_tool_version(
    _root: None,
    info: Info,
    *,
    tool_name: Any,
    version: Any,
    input: dict[str, Any],  # noqa: A002
    expected_revision: int | None = None,
) -> ToolVersion:
    context, workspace, name = _target(info, tool_name)
    changes: dict[str, Any] = {
        field: _CLEARED.get(field) if value is None else value for field, value in input.items()
    }
    return context.write(
        service.update_tool_version,
        workspace,
        name,
        checked_id(version),
        expected_revision=expected_revision,
        **changes,
    )


@mutation.field("patchToolVersionMetadata")
def _patch_tool_metadata(
    _root: None,
    info: Info,
    *,
    tool_name: Any,
    version: Any,
    set: Any = None,  # noqa: A002
    delete: list[str] | None = None,
    expected_revision: int | None = None,
) -> ToolVersion:
    context, workspace, name = _target(info, tool_name)
    return context.write(
        service.patch_tool_metadata,
        workspace,
        name,
        checked_id(version),
        set=_mapping(set),
        delete=delete or (),
        expected_revision=expected_revision,
    )


def _mapping(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid("bad_json", "metadata to set is not a JSON object", hint="send { … }")
    return value


@mutation.field("deleteToolVersion")
def _delete_tool_version(_root: None, info: Info, *, tool_name: Any, version: Any) -> bool:
    context, workspace, name = _target(info, tool_name)
    return context.write(service.delete_tool_version, workspace, name, checked_id(version))


@mutation.field("publishToolVersion")
def _publish_tool_version(_root: None, info: Info, *, tool_name: Any, version: str) -> ToolVersion:
    context, workspace, name = _target(info, tool_name)
    return context.write(service.publish_tool_version, workspace, name, version)


# -- prompts


@mutation.field("createPrompt")
def _create_prompt(
    _root: None,
    info: Info,
    *,
    name: str,
    description: str | None = None,
    kind: PromptKind | None = None,
) -> Prompt:
    context = context_of(info)
    return context.write(
        service.create_prompt,
        context.workspace,
        name,
        description=description,
        kind=kind or PromptKind.LLM,
    )


@mutation.field("updatePrompt")
def _update_prompt(_root: None, info: Info, *, prompt_name: Any, args: dict[str, Any]) -> Prompt:
    context, workspace, name = _target(info, prompt_name)
    description = args.get("description", UNSET)
    return context.write(service.update_prompt, workspace, name, description=description)


@mutation.field("setPromptVisibility")
def _set_prompt_visibility(
    _root: None, info: Info, *, prompt_name: Any, visibility: Visibility
) -> Prompt:
    context, workspace, name = _target(info, prompt_name)
    _check_not_from_cli(context, "changing a prompt's visibility")
    return context.write(service.set_prompt_visibility, workspace, name, visibility)


@mutation.field("createPromptVersion")
def _create_prompt_draft(_root: None, info: Info, *, prompt_name: Any) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(service.create_prompt_draft, workspace, name)


@mutation.field("publishPromptVersion")
def _publish_prompt_version(
    _root: None, info: Info, *, prompt_name: Any, version: Any
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(service.publish_prompt_version, workspace, name, str(version))


@mutation.field("deletePromptVersion")
def _delete_prompt_version(_root: None, info: Info, *, prompt_name: Any, version: Any) -> bool:
    context, workspace, name = _target(info, prompt_name)
    return context.write(service.delete_prompt_version, workspace, name, checked_id(version))


# -- files


@mutation.field("createPromptFile")
def _create_file(
    _root: None, info: Info, *, prompt_name: Any, version: Any, args: dict[str, Any]
) -> PromptFile:
    context, workspace, name = _target(info, prompt_name)
    given = {"format": args["format"]} if args.get("format") else {}
    return context.write(
        service.create_prompt_file,
        workspace,
        name,
        checked_id(version),
        args["name"],
        args["content"],
        is_entrypoint=args["is_entrypoint"],
        **given,
    )


@mutation.field("updatePromptFile")
def _update_file(
    _root: None,
    info: Info,
    *,
    prompt_name: Any,
    version: Any,
    file_name: Any,
    args: dict[str, Any],
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)

    def given(key: str) -> Any:
        value = args.get(key)
        return UNSET if value is None else value

    return context.write(
        service.update_prompt_file,
        workspace,
        name,
        checked_id(version),
        checked_id(file_name),
        content=given("content"),
        new_name=given("name"),
        format=given("format"),
    )


@mutation.field("deletePromptFile")
def _delete_file(
    _root: None, info: Info, *, prompt_name: Any, version: Any, file_name: Any
) -> bool:
    context, workspace, name = _target(info, prompt_name)
    context.write(
        service.delete_prompt_file, workspace, name, checked_id(version), checked_id(file_name)
    )
    return True


@mutation.field("setPromptFileEntrypoint")
def _set_entrypoint(
    _root: None, info: Info, *, prompt_name: Any, version: Any, file_name: Any, is_entrypoint: bool
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(
        service.set_prompt_file_entrypoint,
        workspace,
        name,
        checked_id(version),
        checked_id(file_name),
        is_entrypoint,
    )


# -- content of a prompt version


@mutation.field("promptVersionSetStringMetadata")
@mutation.field("promptVersionSetIntegerMetadata")
@mutation.field("promptVersionSetFloatMetadata")
@mutation.field("promptVersionSetBooleanMetadata")
def _set_metadata(
    _root: None,
    info: Info,
    *,
    prompt_name: Any,
    version: Any,
    metadata_key: str,
    metadata_value: Any,
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(
        service.set_prompt_metadata,
        workspace,
        name,
        checked_id(version),
        set={metadata_key: metadata_value},
    )


@mutation.field("promptVersionDeleteMetadata")
def _delete_metadata(
    _root: None, info: Info, *, prompt_name: Any, version: Any, metadata_key: str
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(
        service.set_prompt_metadata, workspace, name, checked_id(version), delete=(metadata_key,)
    )


@mutation.field("promptVersionPatchMetadata")
def _patch_metadata(
    _root: None,
    info: Info,
    *,
    prompt_name: Any,
    version: Any,
    set: Any = None,  # noqa: A002
    delete: list[str] | None = None,
    replace: bool | None = None,
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(
        service.set_prompt_metadata,
        workspace,
        name,
        checked_id(version),
        set=_mapping(set),
        delete=delete or (),
        replace=bool(replace),
    )


@mutation.field("promptVersionSetOutputSchema")
def _set_output_schema(
    _root: None, info: Info, *, prompt_name: Any, version: Any, output_schema: Any = None
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(
        service.set_prompt_output_schema, workspace, name, checked_id(version), output_schema
    )


@mutation.field("promptVersionSetModelConfig")
def _set_model_config(
    _root: None, info: Info, *, prompt_name: Any, version: Any, model_config: dict[str, Any]
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(
        service.set_prompt_model_config,
        workspace,
        name,
        checked_id(version),
        provider=model_config["provider"],
        model=model_config["model"],
        parameters=model_config.get("parameters"),
    )


@mutation.field("promptVersionSetReadme")
def _set_readme(
    _root: None, info: Info, *, prompt_name: Any, version: Any, readme: str
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(service.set_prompt_readme, workspace, name, checked_id(version), readme)


# -- pins; the tool's workspace is its own, the header names the prompt's


@mutation.field("linkTool")
def _link_tool(
    _root: None, info: Info, *, prompt_name: Any, version: Any, args: dict[str, Any]
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    wanted = args["tool"].get("version")
    return context.write(
        service.link_tool,
        workspace,
        name,
        checked_id(version),
        **_tool_of(args["tool"]),
        constraint=None if wanted is None else checked_id(wanted),
        alias=args.get("alias"),
    )


def _tool_of(tool: dict[str, Any]) -> dict[str, str]:
    return {
        "tool_workspace": checked_id(tool["workspace"]),
        "tool_name": checked_id(tool["name"]),
    }


@mutation.field("updateToolLink")
def _rename_pin(
    _root: None, info: Info, *, prompt_name: Any, version: Any, tool: dict[str, Any], alias: str
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(
        service.rename_pin,
        workspace,
        name,
        checked_id(version),
        **_tool_of(tool),
        alias=alias,
    )


@mutation.field("unlinkTool")
def _unlink_tool(
    _root: None, info: Info, *, prompt_name: Any, version: Any, tool: dict[str, Any]
) -> PromptVersion:
    context, workspace, name = _target(info, prompt_name)
    return context.write(
        service.unlink_tool, workspace, name, checked_id(version), **_tool_of(tool)
    )
