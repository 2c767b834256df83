"""Tools: the catalogue entry, which is not versioned and never sent to a model."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, delete, func, or_, select
from sqlalchemy.orm import Session

from .. import rules
from ..content import MAX_DESCRIPTION_BYTES, MAX_LABEL_BYTES, check_text
from ..model import UNSET, Page, Principal, Status, Tool, Unset, Visibility
from ..names import check_tool_name
from ..store.rows import PinRow, PromptRow, PromptVersionRow, ToolRow, ToolVersionRow
from .access import check_page, enter, find_tool, new_id, now
from .dependents import find_dependents
from .lifecycle import number_draft
from .views import view_tool

__all__ = [
    "create_tool",
    "delete_tool",
    "get_tool",
    "list_tools",
    "new_tool_draft",
    "set_tool_visibility",
    "update_tool",
]

_MAX_TAGS = 20
_MAX_SEARCH_BYTES = 256
Entry = TypeVar("Entry", ToolRow, PromptRow)


def create_tool(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    *,
    description: str | None = None,
) -> Tool:
    """Create a private tool with an open draft.

    Raises:
        Conflict: ``name_taken``.
        Invalid: ``tool_name``.
    """
    access = enter(session, principal, workspace)
    access.need_author()
    check_tool_name(name)
    same_name = (ToolRow.workspace_id == access.workspace.id) & (ToolRow.name == name)
    taken = session.scalar(select(ToolRow.id).where(same_name)) is not None
    rules.check_name_taken("tool", f"@{workspace}/{name}", taken)
    at = now(session)
    row = ToolRow(
        id=new_id("tool"),
        workspace_id=access.workspace.id,
        workspace=access.workspace,
        name=name,
        description=checked_description(description),
        visibility=Visibility.PRIVATE.value,
        tags=[],
        created_at=at,
        updated_at=at,
    )
    session.add(row)
    session.flush()
    new_tool_draft(session, row, None)
    return view_tool(row)


def checked_description(text: str | None) -> str | None:
    """Return a catalogue description that fits."""
    return None if text is None else check_text("description", text, MAX_DESCRIPTION_BYTES)


def new_tool_draft(session: Session, tool: ToolRow, last: ToolVersionRow | None) -> ToolVersionRow:
    """Open a tool's draft, from its last publication when there is one.

    Raises:
        Conflict: ``one_draft``.
    """
    at = now(session)
    row = ToolVersionRow(
        id=new_id("tv"),
        tool_id=tool.id,
        tool=tool,
        model_description=last.model_description if last else "",
        input_schema=last.input_schema if last else {"type": "object", "properties": {}},
        output_schema=last.output_schema if last else None,
        metadata_=last.metadata_ if last else {},
        readme=last.readme if last else "",
        revision=1,
        created_at=at,
        updated_at=at,
        published_at=None,
    )
    with session.no_autoflush:
        number_draft(session, row, f"@{tool.workspace.name}/{tool.name}", tool.id)
    session.add(row)
    session.flush()
    return row


def get_tool(session: Session, principal: Principal, workspace: str, name: str) -> Tool:
    """Return a tool."""
    return view_tool(find_tool(session, principal, workspace, name))


def list_tools(
    session: Session,
    principal: Principal,
    workspace: str,
    *,
    skip: int = 0,
    take: int = 50,
    search: str | None = None,
) -> Page[Tool]:
    """Return the tools of a workspace that the principal may read, newest first.

    Args:
        search: Part of a name or description, whatever the case.
    """
    access = enter(session, principal, workspace)
    check_page(skip, take)
    wanted = catalogue_filter(ToolRow, access.workspace.id, access.reads_all, search)
    total = session.scalar(select(func.count()).select_from(ToolRow).where(*wanted)) or 0
    rows = session.scalars(catalogue_page(select(ToolRow).where(*wanted), ToolRow, skip, take))
    return Page(tuple(view_tool(row) for row in rows), total)


def catalogue_filter(
    model: type[Entry], workspace_id: str, reads_all: bool, search: str | None
) -> list[ColumnElement[bool]]:
    """Return the conditions for a list of tools or prompts."""
    wanted: list[ColumnElement[bool]] = [model.workspace_id == workspace_id]
    if not reads_all:
        wanted.append(model.visibility == Visibility.PUBLIC.value)
    if search:
        check_text("search", search, _MAX_SEARCH_BYTES)
        # autoescape: "%" and "_" of the search are looked for as they are.
        wanted.append(
            or_(
                model.name.icontains(search, autoescape=True),
                model.description.icontains(search, autoescape=True),
            )
        )
    return wanted


def catalogue_page(query: Select[Entry], model: type[Entry], skip: int, take: int) -> Select[Entry]:
    """Return one page of a list of tools or prompts, newest first."""
    newest: tuple[ColumnElement[Any], ...] = (model.created_at.desc(), model.id.desc())
    return query.order_by(*newest).offset(skip).limit(take)


def update_tool(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    *,
    description: str | Unset | None = UNSET,
    tags: tuple[str, ...] | Unset = UNSET,
) -> Tool:
    """Change what the catalogue shows. The description here is not the model's."""
    access = enter(session, principal, workspace)
    row = access.find_tool(session, name)
    access.need_author()
    if description is not UNSET:
        row.description = checked_description(description)
    if tags is not UNSET:
        rules.check_too_many(f"@{workspace}/{name}", "tags", len(tags), _MAX_TAGS)
        row.tags = [check_text("tag", tag, MAX_LABEL_BYTES) for tag in dict.fromkeys(tags)]
    row.updated_at = now(session)
    return view_tool(row)


def set_tool_visibility(
    session: Session, principal: Principal, workspace: str, name: str, visibility: Visibility
) -> Tool:
    """Make a tool public, or private when nothing published depends on it elsewhere.

    Raises:
        Conflict: ``tool_not_withdrawn``.
    """
    access = enter(session, principal, workspace)
    row = access.find_tool(session, name)
    access.need_admin("change the visibility of its tools")
    if visibility is Visibility.PRIVATE:
        dependents, hidden = find_dependents(
            session,
            principal,
            row,
            PromptVersionRow.status == Status.PUBLISHED.value,
            (PromptRow.workspace_id != row.workspace_id)
            | (PromptRow.visibility == Visibility.PUBLIC.value),
        )
        rules.check_tool_not_withdrawn(f"@{workspace}/{name}", dependents, hidden)
    row.visibility = visibility.value
    row.updated_at = now(session)
    return view_tool(row)


def delete_tool(session: Session, principal: Principal, workspace: str, name: str) -> bool:
    """Delete a tool with its versions; drafts of prompts lose their pins to it.

    Raises:
        Conflict: ``tool_not_deleted``.
    """
    access = enter(session, principal, workspace)
    row = access.find_tool(session, name)
    access.need_admin("delete its tools")
    published = PromptVersionRow.status == Status.PUBLISHED.value
    dependents, hidden = find_dependents(session, principal, row, published)
    rules.check_tool_not_deleted(f"@{workspace}/{name}", dependents, hidden)
    session.execute(delete(PinRow).where(PinRow.tool_id == row.id))
    session.execute(delete(ToolVersionRow).where(ToolVersionRow.tool_id == row.id))
    session.execute(delete(ToolRow).where(ToolRow.id == row.id))
    return True
