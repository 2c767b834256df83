"""Prompts: the catalogue entry and its visibility."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from .. import rules
from ..model import UNSET, Page, Principal, Prompt, PromptKind, Status, Unset, Visibility
from ..names import check_prompt_name, prompt_identity
from ..store.rows import PinRow, PromptRow, PromptVersionRow, ToolRow
from .access import (
    check_page,
    enter,
    find_prompt,
    new_id,
    now,
    readable_workspaces,
)
from .prompt_drafts import new_prompt_draft
from .tools import catalogue_filter, catalogue_page, checked_description
from .views import view_prompt

__all__ = [
    "create_prompt",
    "get_prompt",
    "list_prompts",
    "set_prompt_visibility",
    "update_prompt",
]


def create_prompt(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    *,
    description: str | None = None,
    kind: PromptKind = PromptKind.LLM,
) -> Prompt:
    """Create a private prompt with an open draft that has two empty entrypoint files.

    Raises:
        Conflict: ``name_taken`` or ``prompt_names_distinct``.
        Invalid: ``prompt_name``.
    """
    access = enter(session, principal, workspace)
    access.need_author()
    check_prompt_name(name)
    identity = prompt_identity(name)
    other = session.scalar(
        select(PromptRow.name).where(
            PromptRow.workspace_id == access.workspace.id, PromptRow.identity == identity
        )
    )
    ref = f"@{workspace}/{name}"
    rules.check_name_taken("prompt", ref, other == name)
    rules.check_prompt_names_distinct(ref, f"@{workspace}/{other}" if other else None)
    at = now(session)
    row = PromptRow(
        id=new_id("prompt"),
        workspace_id=access.workspace.id,
        workspace=access.workspace,
        name=name,
        identity=identity,
        description=checked_description(description),
        visibility=Visibility.PRIVATE.value,
        kind=kind.value,
        created_at=at,
        updated_at=at,
    )
    session.add(row)
    session.flush()
    new_prompt_draft(session, row, None)
    return view_prompt(row)


def get_prompt(session: Session, principal: Principal, workspace: str, name: str) -> Prompt:
    """Return a prompt."""
    return view_prompt(find_prompt(session, principal, workspace, name))


def list_prompts(
    session: Session,
    principal: Principal,
    workspace: str,
    *,
    skip: int = 0,
    take: int = 50,
    search: str | None = None,
) -> Page[Prompt]:
    """Return the prompts of a workspace that the principal may read, newest first."""
    access = enter(session, principal, workspace)
    check_page(skip, take)
    wanted = catalogue_filter(PromptRow, access.workspace.id, access.reads_all, search)
    total = session.scalar(select(func.count()).select_from(PromptRow).where(*wanted)) or 0
    rows = session.scalars(catalogue_page(select(PromptRow).where(*wanted), PromptRow, skip, take))
    return Page(tuple(view_prompt(row) for row in rows), total)


def update_prompt(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    *,
    description: str | Unset | None = UNSET,
) -> Prompt:
    """Change the catalogue description.

    Clients hash it with what they install, so a change shows there as changed content.
    """
    access = enter(session, principal, workspace)
    row = access.find_prompt(session, name)
    access.need_author()
    if description is not UNSET:
        row.description = checked_description(description)
    row.updated_at = now(session)
    return view_prompt(row)


def set_prompt_visibility(
    session: Session, principal: Principal, workspace: str, name: str, visibility: Visibility
) -> Prompt:
    """Make a prompt private, or public when all that its publications pin is public.

    Raises:
        Conflict: ``public_prompt_public_tools``.
    """
    access = enter(session, principal, workspace)
    row = access.find_prompt(session, name)
    access.need_admin("change the visibility of its prompts")
    if visibility is Visibility.PUBLIC:
        mine = readable_workspaces(session, principal)
        found = session.scalars(
            select(ToolRow)
            .join(PinRow, PinRow.tool_id == ToolRow.id)
            .join(PromptVersionRow, PromptVersionRow.id == PinRow.prompt_version_id)
            .where(
                PromptVersionRow.prompt_id == row.id,
                PromptVersionRow.status == Status.PUBLISHED.value,
                ToolRow.visibility != Visibility.PUBLIC.value,
            )
            .distinct()
        )
        private, hidden = rules.split_visible(
            (f"@{tool.workspace.name}/{tool.name}", mine is None or tool.workspace_id in mine)
            for tool in found
        )
        rules.check_public_prompt_public_tools(f"@{workspace}/{name}", sorted(private), hidden)
    row.visibility = visibility.value
    row.updated_at = now(session)
    return view_prompt(row)
