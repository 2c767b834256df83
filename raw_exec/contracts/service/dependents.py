"""Which prompt versions pin a tool, as far as the asker may know."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from .. import rules
from ..model import Principal, Status, Visibility
from ..store.rows import PinRow, PromptRow, PromptVersionRow, ToolRow
from .access import find_tool, readable_workspaces

__all__ = ["dependent_count", "find_dependents"]


def dependent_count(session: Session, principal: Principal, workspace: str, name: str) -> int:
    """Return how many published prompt versions, anywhere, pin any version of a tool."""
    tool = find_tool(session, principal, workspace, name)
    return (
        session.scalar(
            select(func.count())
            .select_from(PinRow)
            .join(PinRow.prompt_version)
            .where(PinRow.tool_id == tool.id, PromptVersionRow.status == Status.PUBLISHED.value)
        )
        or 0
    )


def find_dependents(
    session: Session, principal: Principal, tool: ToolRow, *wanted: ColumnElement[bool]
) -> tuple[Sequence[str], int]:
    """Return references of prompt versions that pin a tool, and how many more are hidden.

    Args:
        wanted: Conditions on the prompt version, its prompt or the pin.
    """
    rows = session.execute(
        select(PromptVersionRow, PromptRow)
        .join(PinRow, PinRow.prompt_version_id == PromptVersionRow.id)
        .join(PromptRow, PromptRow.id == PromptVersionRow.prompt_id)
        .where(PinRow.tool_id == tool.id, *wanted)
        .order_by(PromptRow.name, PromptVersionRow.created_at)
    ).all()
    mine = readable_workspaces(session, principal)

    def is_visible(version: PromptVersionRow, prompt: PromptRow) -> bool:
        if mine is None or prompt.workspace_id in mine:
            return True
        is_published = version.status == Status.PUBLISHED.value
        return is_published and prompt.visibility == Visibility.PUBLIC.value

    return rules.split_visible(
        (f"@{prompt.workspace.name}/{prompt.name}@{version.version}", is_visible(version, prompt))
        for version, prompt in rows
    )
