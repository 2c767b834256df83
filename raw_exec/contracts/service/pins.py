"""Pins: which tool versions a prompt version's model sees, and under which names.

A constraint is resolved once, when the pin is made; the concrete version is stored. A pin to
a draft follows that draft into its publication, because that is the same version.
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from .. import rules
from ..content import MAX_PINS
from ..model import Principal, PromptVersion
from ..names import check_wire_name
from ..store.rows import PinRow, PromptVersionRow, ToolVersionRow
from .access import enter, new_id, readable_workspaces
from .lifecycle import find_draft, find_version, published_numbers
from .prompt_drafts import ref_of, show, writable

__all__ = ["link_tool", "rename_pin", "unlink_tool"]


def link_tool(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    *,
    tool_workspace: str,
    tool_name: str,
    constraint: str | None = None,
    alias: str | None = None,
) -> PromptVersion:
    """Pin one version of a tool to a draft of a prompt.

    Args:
        constraint: What to resolve; ``None`` means the latest publication.
        alias: The name that the model sees; ``None`` means the tool's own.

    Raises:
        Conflict: ``pins_draft_only``, ``one_version_per_tool`` or ``wire_name_taken``.
        Invalid: ``bad_constraint``, ``wire_name`` or ``too_many``.
        NotFound: ``no_matching_version``, or prompt, version or tool are unknown.
    """
    row = writable(session, principal, workspace, name, version, for_pins=True)
    access = enter(session, principal, tool_workspace)
    tool = access.find_tool(session, tool_name)
    tool_ref = f"@{tool_workspace}/{tool_name}"
    wire_name = check_wire_name(tool_name if alias is None else alias)
    found = find_version(
        session,
        ToolVersionRow,
        tool.id,
        constraint if constraint is not None else "*",
        status=None,
        sees_drafts=access.reads_all,
    )
    rules.check_no_matching_version(
        tool_ref,
        constraint if constraint is not None else "*",
        published_numbers(session, ToolVersionRow, tool.id),
        found is not None,
        access.reads_all and find_draft(session, ToolVersionRow, tool.id) is not None,
    )
    assert found is not None  # noqa: S101 - the rule above
    for pin in row.pins:
        if pin.tool_id == tool.id:
            rules.check_one_version_per_tool(
                ref_of(row), tool_ref, pin.tool_version.version, pin.alias
            )
    _check_wire_name(session, principal, row, wire_name, tool_ref, tool.id)
    rules.check_too_many(ref_of(row), "pins", len(row.pins) + 1, MAX_PINS)
    position = max((one.position for one in row.pins), default=-1) + 1
    row.pins.append(
        PinRow(
            id=new_id("pin"),
            tool_id=tool.id,
            tool_version_id=found.id,
            alias=wire_name,
            position=position,
        )
    )
    return show(session, principal, row)


def _check_wire_name(
    session: Session,
    principal: Principal,
    row: PromptVersionRow,
    alias: str,
    tool_ref: str,
    tool_id: str,
) -> None:
    mine = readable_workspaces(session, principal)
    for pin in row.pins:
        if pin.alias == alias and pin.tool_id != tool_id:
            holder = pin.tool_version.tool
            is_visible = mine is None or holder.workspace_id in mine
            shown = f"@{holder.workspace.name}/{holder.name}"
            is_visible = is_visible or holder.visibility == "PUBLIC"
            rules.check_wire_name_taken(
                ref_of(row), alias, shown if is_visible else "another tool", tool_ref
            )


def rename_pin(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    *,
    tool_workspace: str,
    tool_name: str,
    alias: str,
) -> PromptVersion:
    """Give a pinned tool another wire name. The tool alone says which pin.

    Raises:
        Conflict: ``pins_draft_only`` or ``wire_name_taken``.
        Invalid: ``wire_name``.
        NotFound: ``pin_exists``.
    """
    row = writable(session, principal, workspace, name, version, for_pins=True)
    check_wire_name(alias)
    pin = _find_pin(row, tool_workspace, tool_name)
    _check_wire_name(session, principal, row, alias, f"@{tool_workspace}/{tool_name}", pin.tool_id)
    pin.alias = alias
    return show(session, principal, row)


def unlink_tool(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    *,
    tool_workspace: str,
    tool_name: str,
) -> PromptVersion:
    """Remove a pin. Works too for a tool that the caller can no longer read.

    Raises:
        Conflict: ``pins_draft_only``.
        NotFound: ``pin_exists``.
    """
    row = writable(session, principal, workspace, name, version, for_pins=True)
    row.pins.remove(_find_pin(row, tool_workspace, tool_name))
    return show(session, principal, row)


def _find_pin(row: PromptVersionRow, tool_workspace: str, tool_name: str) -> PinRow:
    for pin in row.pins:
        tool = pin.tool_version.tool
        if tool.name == tool_name and tool.workspace.name == tool_workspace:
            return pin
    rules.check_pin_exists(ref_of(row), f"@{tool_workspace}/{tool_name:.64}", found=False)
    raise AssertionError("the rule raises")
