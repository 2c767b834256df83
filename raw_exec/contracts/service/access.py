"""Who may do what, decided inside the transaction that does it.

Rules:

1. Whoever holds the database (the operator) may do everything.
2. A public tool's or prompt's publications are for everybody. What is private, and every
   draft, is for members of the workspace and for its keys.
3. Members author and publish. Owners and admins also change visibility, delete tools, and
   manage members, keys and settings. A workspace's key only reads.
4. What somebody may not read does not exist for them: the same error, word for word.
5. The principal's key is looked up again in each transaction, so revoking it ends a request
   that is under way at its next operation.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from .. import rules
from ..errors import Forbidden, Invalid, NotFound, Unauthenticated
from ..model import Principal, Role, Visibility
from ..store.rows import ApiKeyRow, MembershipRow, PromptRow, ToolRow, WorkspaceRow

__all__ = [
    "Access",
    "check_key",
    "check_page",
    "check_principal",
    "enter",
    "find_prompt",
    "find_tool",
    "need_operator",
    "need_user",
    "new_id",
    "now",
    "readable_workspaces",
]

MAX_TAKE = 1000
"""Entries of one page."""

_KEY = (ApiKeyRow.id, ApiKeyRow.revoked_at, ApiKeyRow.expires_at)


def now(session: Session) -> datetime:
    """Return the store's time."""
    value = session.info["now"]()
    assert isinstance(value, datetime)  # noqa: S101 - the store put it there
    return value


def new_id(prefix: str) -> str:
    """Return an identifier that nobody can guess or collide with."""
    return f"{prefix}_{secrets.token_hex(12)}"


@dataclass(frozen=True, slots=True)
class Access:
    """What a principal may do in one workspace.

    Args:
        role: ``None`` for whoever is no member.
        reads_all: Whether private things and drafts are visible.
    """

    workspace: WorkspaceRow
    role: Role | None
    reads_all: bool

    def need_author(self) -> None:
        """Raise unless the principal may write here."""
        rules.check_not_a_member(self.workspace.name, self.role)

    def need_admin(self, what: str) -> None:
        """Raise unless the principal may administer. ``what`` completes "may …"."""
        rules.check_not_a_member(self.workspace.name, self.role)
        rules.check_needs_admin(self.workspace.name, self.role, what)

    def find_tool(self, session: Session, name: str) -> ToolRow:
        """Return a tool of the workspace, or raise ``NotFound`` (``tool_unknown``)."""
        row = session.scalar(
            select(ToolRow).where(ToolRow.workspace_id == self.workspace.id, ToolRow.name == name)
        )
        if row is None or not self._reads(row):
            raise NotFound(
                "tool_unknown",
                f"tool @{self.workspace.name}/{name:.64} does not exist or is not visible to you",
                hint="check its name, or ask for access to its workspace",
            )
        return row

    def find_prompt(self, session: Session, name: str) -> PromptRow:
        """Return a prompt of the workspace, or raise ``NotFound`` (``prompt_unknown``)."""
        row = session.scalar(
            select(PromptRow).where(
                PromptRow.workspace_id == self.workspace.id, PromptRow.name == name
            )
        )
        if row is None or not self._reads(row):
            raise NotFound(
                "prompt_unknown",
                f"prompt @{self.workspace.name}/{name:.214} does not exist or is not visible to "
                "you",
                hint="check its name, or ask for access to its workspace",
            )
        return row

    def _reads(self, row: ToolRow | PromptRow) -> bool:
        return self.reads_all or row.visibility == Visibility.PUBLIC.value


def check_principal(session: Session, principal: Principal) -> None:
    """Raise ``Unauthenticated`` when the principal's key stopped being valid."""
    if principal.key_id is None:
        return
    key = session.execute(
        select(ApiKeyRow.revoked_at, ApiKeyRow.expires_at).where(ApiKeyRow.id == principal.key_id)
    ).one_or_none()
    check_key(session, key is not None, *(key or (None, None)))


def check_key(
    session: Session, found: bool, revoked_at: datetime | None, expires_at: datetime | None
) -> None:
    """Raise ``Unauthenticated`` for a key that is gone, revoked or expired."""
    if not found or revoked_at is not None:
        raise Unauthenticated("key_revoked", "this API key was revoked", hint="log in again")
    if expires_at is not None and expires_at <= now(session):
        raise Unauthenticated("key_expired", "this API key has expired", hint="log in again")


def need_operator(session: Session, principal: Principal, what: str) -> None:
    """Raise unless the principal holds the database. ``what`` completes "may …"."""
    check_principal(session, principal)
    if not principal.is_operator:
        raise Forbidden(
            "needs_operator",
            f"only whoever runs the registry may {what}",
            hint="ask them to do it with `raw registry`",
        )


def need_user(session: Session, principal: Principal) -> str:
    """Return the id of the principal's user, or raise ``Unauthenticated``."""
    check_principal(session, principal)
    if principal.user_id is None:
        raise Unauthenticated("needs_user", "this needs a user's API key", hint="log in first")
    return principal.user_id


def enter(session: Session, principal: Principal, workspace: str) -> Access:
    """Return what the principal may do in a workspace.

    Raises:
        NotFound: ``workspace_unknown``.
        Unauthenticated: When the principal's key stopped being valid.
    """
    # One question for all three: it is asked in front of every operation.
    found = session.execute(
        select(WorkspaceRow, MembershipRow.role, *_KEY)
        .outerjoin(
            MembershipRow,
            (MembershipRow.workspace_id == WorkspaceRow.id)
            & (MembershipRow.user_id == principal.user_id),
        )
        .outerjoin(ApiKeyRow, ApiKeyRow.id == principal.key_id)
        .where(WorkspaceRow.name == workspace)
    ).one_or_none()
    if found is None:
        check_principal(session, principal)
        raise NotFound(
            "workspace_unknown",
            f"workspace @{workspace:.64} does not exist",
            hint="check its name",
        )
    row, word, key_id, *times = found
    if principal.key_id is not None:
        check_key(session, key_id is not None, *times)
    if principal.is_operator:
        return Access(row, Role.OWNER, reads_all=True)
    if principal.workspace_id is not None:
        return Access(row, None, reads_all=principal.workspace_id == row.id)
    role = None if word is None else Role(word)
    return Access(row, role, reads_all=role is not None)


def readable_workspaces(session: Session, principal: Principal) -> frozenset[str] | None:
    """Return the ids of workspaces whose private things are visible; ``None`` for all."""
    if principal.is_operator:
        return None
    if principal.workspace_id is not None:
        return frozenset({principal.workspace_id})
    if principal.user_id is None:
        return frozenset()
    mine = select(MembershipRow.workspace_id).where(MembershipRow.user_id == principal.user_id)
    return frozenset(session.scalars(mine))


def find_tool(session: Session, principal: Principal, workspace: str, name: str) -> ToolRow:
    """Return a tool that the principal may read.

    Raises:
        NotFound: ``tool_unknown`` or ``workspace_unknown``.
    """
    return enter(session, principal, workspace).find_tool(session, name)


def find_prompt(session: Session, principal: Principal, workspace: str, name: str) -> PromptRow:
    """Return a prompt that the principal may read.

    Raises:
        NotFound: ``prompt_unknown`` or ``workspace_unknown``.
    """
    return enter(session, principal, workspace).find_prompt(session, name)


def check_page(skip: int, take: int) -> None:
    """Raise ``Invalid`` for a page that no list has."""
    if skip < 0 or not 0 <= take <= MAX_TAKE:
        raise Invalid(
            "bad_page",
            f"page of {take} entries after {skip} is not possible",
            hint=f"skip 0 or more and take 0 to {MAX_TAKE}",
        )
