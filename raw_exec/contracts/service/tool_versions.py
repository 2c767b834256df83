"""Tool versions: everything that steers the model, one mutable draft, frozen publications."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from .. import rules
from ..content import (
    MAX_DESCRIPTION_BYTES,
    MAX_METADATA_BYTES,
    MAX_README_BYTES,
    check_input_schema,
    check_json_object,
    check_output_schema,
    check_text,
)
from ..model import UNSET, Page, Principal, Status, ToolVersion, Unset
from ..names import check_metadata_key
from ..store.rows import PinRow, PromptVersionRow, ToolRow, ToolVersionRow
from .access import check_page, enter, now
from .dependents import find_dependents
from .lifecycle import (
    choose_publication,
    find_latest,
    find_version,
    list_rows,
    need_version,
    publish,
    touch,
)
from .tools import new_tool_draft
from .views import view_tool_version

__all__ = [
    "create_tool_draft",
    "delete_tool_version",
    "find_tool_version",
    "get_tool_version",
    "list_tool_versions",
    "patch_tool_metadata",
    "publish_tool_version",
    "update_tool_version",
]


def find_tool_version(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    constraint: str | None = None,
    *,
    status: Status | None = None,
) -> ToolVersion | None:
    """Resolve a version of a tool; ``None`` when nothing matches.

    Args:
        constraint: ``draft``, a version, a draft's label or a constraint; ``None`` means the
            latest publication, or the draft of a tool that has none.
        status: Only versions of this status.

    Raises:
        Invalid: ``bad_constraint``.
        NotFound: The tool is unknown.
    """
    access = enter(session, principal, workspace)
    tool = access.find_tool(session, name)
    row = find_version(
        session, ToolVersionRow, tool.id, constraint, status=status, sees_drafts=access.reads_all
    )
    return view_tool_version(row) if row else None


def get_tool_version(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    constraint: str | None = None,
    *,
    status: Status | None = None,
) -> ToolVersion:
    """Like ``find_tool_version``, but raise ``NotFound`` when nothing matches."""
    found = find_tool_version(session, principal, workspace, name, constraint, status=status)
    return need_version(found, f"@{workspace}/{name}", constraint)


def list_tool_versions(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    *,
    skip: int = 0,
    take: int = 50,
    status: Status | None = None,
) -> Page[ToolVersion]:
    """Return the versions of a tool, newest first, the draft before all."""
    access = enter(session, principal, workspace)
    tool = access.find_tool(session, name)
    check_page(skip, take)
    rows, total = list_rows(
        session,
        ToolVersionRow,
        tool.id,
        skip=skip,
        take=take,
        status=status,
        sees_drafts=access.reads_all,
    )
    return Page(tuple(view_tool_version(row) for row in rows), total)


def create_tool_draft(
    session: Session, principal: Principal, workspace: str, name: str
) -> ToolVersion:
    """Open the next draft, which carries the last publication forward.

    Raises:
        Conflict: ``one_draft``.
    """
    access = enter(session, principal, workspace)
    tool = access.find_tool(session, name)
    access.need_author()
    last = find_latest(session, ToolVersionRow, tool.id)
    return view_tool_version(new_tool_draft(session, tool, last))


def _writable(
    session: Session, principal: Principal, workspace: str, name: str, version: str
) -> ToolVersionRow:
    access = enter(session, principal, workspace)
    tool = access.find_tool(session, name)
    access.need_author()
    found = find_version(session, ToolVersionRow, tool.id, version, status=None, sees_drafts=True)
    row = need_version(found, f"@{workspace}/{name}", version)
    rules.check_version_frozen(_ref(tool, row), Status(row.status))
    return row


def _ref(tool: ToolRow, row: ToolVersionRow) -> str:
    return f"@{tool.workspace.name}/{tool.name}@{row.version}"


def update_tool_version(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    *,
    model_description: str | Unset = UNSET,
    input_schema: Mapping[str, Any] | Unset = UNSET,
    output_schema: Mapping[str, Any] | Unset | None = UNSET,
    metadata: Mapping[str, Any] | Unset = UNSET,
    readme: str | Unset = UNSET,
    expected_revision: int | None = None,
) -> ToolVersion:
    """Change parts of a draft. What is not given stays; ``None`` clears the output schema.

    Args:
        version: ``draft``, or the draft's label.
        metadata: Replaces the whole object.
        expected_revision: Change only what you have seen.

    Raises:
        Conflict: ``version_frozen`` or ``stale_revision``.
        Invalid: A schema, text or object is refused.
    """
    row = _writable(session, principal, workspace, name, version)
    rules.check_stale_revision(_ref(row.tool, row), expected_revision, row.revision)
    if model_description is not UNSET:
        row.model_description = check_text(
            "model description", model_description, MAX_DESCRIPTION_BYTES
        )
    if input_schema is not UNSET:
        row.input_schema = check_input_schema(input_schema)
    if output_schema is not UNSET:
        row.output_schema = check_output_schema(output_schema)
    if metadata is not UNSET:
        row.metadata_ = check_json_object("metadata", metadata, MAX_METADATA_BYTES)
    if readme is not UNSET:
        row.readme = check_text("readme", readme, MAX_README_BYTES)
    touch(row, now(session))
    return view_tool_version(row)


def patch_tool_metadata(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    *,
    set: Mapping[str, Any],  # noqa: A002 - reads as what it does
    delete: Iterable[str] = (),
    expected_revision: int | None = None,
) -> ToolVersion:
    """Change single keys of a draft's metadata, so that two people lose nothing.

    A key that is set and deleted is deleted, and deleting an unknown key is fine.

    Raises:
        Conflict: ``version_frozen`` or ``stale_revision``.
    """
    row = _writable(session, principal, workspace, name, version)
    rules.check_stale_revision(_ref(row.tool, row), expected_revision, row.revision)
    gone = frozenset(delete)
    for key in set:
        check_metadata_key(key)
    patched = {key: value for key, value in {**row.metadata_, **set}.items() if key not in gone}
    row.metadata_ = check_json_object("metadata", patched, MAX_METADATA_BYTES)
    touch(row, now(session))
    return view_tool_version(row)


def publish_tool_version(
    session: Session, principal: Principal, workspace: str, name: str, number: str
) -> ToolVersion:
    """Publish the open draft under a number above all earlier ones. Pins to it follow.

    Raises:
        Conflict: ``already_published``, ``draft_exists`` or ``version_increases``.
        Forbidden: ``CLI_PUBLISHING_DISABLED``.
        Invalid: ``version_number``.
    """
    access = enter(session, principal, workspace)
    tool = access.find_tool(session, name)
    access.need_author()
    rules.check_cli_publishing(workspace, access.workspace.cli_publishing, principal.client)
    row, version = choose_publication(
        session, ToolVersionRow, tool.id, f"@{workspace}/{name}", number
    )
    at = now(session)
    publish(row, version, at)
    tool.updated_at = at
    return view_tool_version(row)


def delete_tool_version(
    session: Session, principal: Principal, workspace: str, name: str, version: str
) -> bool:
    """Delete the open draft.

    Raises:
        Conflict: ``version_frozen`` or ``draft_unpinned``.
    """
    row = _writable(session, principal, workspace, name, version)
    dependents, hidden = find_dependents(
        session,
        principal,
        row.tool,
        PinRow.tool_version_id == row.id,
        PromptVersionRow.status == Status.DRAFT.value,
    )
    rules.check_draft_unpinned(_ref(row.tool, row), dependents, hidden)
    session.delete(row)
    return True
