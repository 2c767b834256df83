"""Rows of the database as the values that the registry hands out."""

from __future__ import annotations

from ..model import (
    ApiKey,
    FileFormat,
    ModelConfig,
    Pin,
    Prompt,
    PromptFile,
    PromptKind,
    PromptVersion,
    Provider,
    Status,
    Tool,
    ToolVersion,
    User,
    Visibility,
    Workspace,
)
from ..store.rows import (
    ApiKeyRow,
    PinRow,
    PromptFileRow,
    PromptRow,
    PromptVersionRow,
    ToolRow,
    ToolVersionRow,
    UserRow,
    WorkspaceRow,
)

__all__ = [
    "view_file",
    "view_key",
    "view_prompt",
    "view_prompt_version",
    "view_tool",
    "view_tool_version",
    "view_user",
    "view_workspace",
]


def view_user(row: UserRow) -> User:
    return User(row.id, row.email, row.created_at)


def view_workspace(row: WorkspaceRow) -> Workspace:
    return Workspace(
        id=row.id,
        name=row.name,
        display_name=row.display_name,
        description=row.description,
        cli_publishing=row.cli_publishing,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def view_key(row: ApiKeyRow, workspace: str | None) -> ApiKey:
    return ApiKey(
        id=row.id,
        label=row.label,
        user_id=row.user_id,
        workspace=workspace,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )


def view_tool(row: ToolRow) -> Tool:
    return Tool(
        id=row.id,
        workspace=row.workspace.name,
        name=row.name,
        description=row.description,
        visibility=Visibility(row.visibility),
        tags=tuple(row.tags),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def view_tool_version(row: ToolVersionRow) -> ToolVersion:
    return ToolVersion(
        id=row.id,
        tool=view_tool(row.tool),
        version=row.version,
        status=Status(row.status),
        model_description=row.model_description,
        input_schema=row.input_schema,
        output_schema=row.output_schema,
        metadata=row.metadata_,
        readme=row.readme,
        revision=row.revision,
        created_at=row.created_at,
        updated_at=row.updated_at,
        published_at=row.published_at,
    )


def view_prompt(row: PromptRow) -> Prompt:
    return Prompt(
        id=row.id,
        workspace=row.workspace.name,
        name=row.name,
        description=row.description,
        visibility=Visibility(row.visibility),
        kind=PromptKind(row.kind),
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def view_file(row: PromptFileRow) -> PromptFile:
    return PromptFile(
        name=row.name,
        content=row.content,
        is_entrypoint=row.is_entrypoint,
        format=FileFormat(row.format),
        input_schema=row.input_schema,
        option_input_schema=row.option_input_schema,
        schema_warnings=tuple(row.schema_warnings),
    )


def view_prompt_version(
    row: PromptVersionRow, readable_workspaces: frozenset[str] | None
) -> PromptVersion:
    """Return a prompt version as one reader may see it.

    Args:
        readable_workspaces: Ids of workspaces whose private things the reader may see;
            ``None`` for all.
    """
    # What was published is whole for everybody who may read it: whoever published it could
    # read each tool, and its pins are frozen with it.
    is_published = row.status == Status.PUBLISHED.value
    pins = [one for one in row.pins if is_published or _is_pin_readable(one, readable_workspaces)]
    return PromptVersion(
        id=row.id,
        prompt=view_prompt(row.prompt),
        version=row.version,
        status=Status(row.status),
        metadata=row.metadata_,
        output_schema=row.output_schema,
        decision_spec=row.decision_spec,
        model_config=_view_model_config(row),
        readme=row.readme,
        files=tuple(view_file(one) for one in row.files),
        pins=tuple(Pin(one.alias, view_tool_version(one.tool_version)) for one in pins),
        hidden_pins=len(row.pins) - len(pins),
        revision=row.revision,
        created_at=row.created_at,
        updated_at=row.updated_at,
        published_at=row.published_at,
    )


def _is_pin_readable(pin: PinRow, readable_workspaces: frozenset[str] | None) -> bool:
    tool = pin.tool_version.tool
    if readable_workspaces is None or tool.workspace_id in readable_workspaces:
        return True
    is_published = pin.tool_version.status == Status.PUBLISHED.value
    return is_published and tool.visibility == Visibility.PUBLIC.value


def _view_model_config(row: PromptVersionRow) -> ModelConfig | None:
    found = row.model_config_
    if found is None:
        return None
    return ModelConfig(Provider(found["provider"]), found["model"], found["parameters"])
