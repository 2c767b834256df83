"""API keys: made once, kept as a hash, looked up on every request.

A token is 32 random bytes, so a plain SHA-256 of it can not be searched backwards, and a
lookup by hash tells nothing about other tokens through its timing.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import Final

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload

from ..content import MAX_LABEL_BYTES, check_text
from ..errors import Forbidden, Invalid, NotFound, Unauthenticated
from ..model import ApiKey, Client, NewApiKey, Principal
from ..store.rows import ApiKeyRow, MembershipRow, UserRow, WorkspaceRow
from .access import check_key, check_principal, enter, need_user, new_id, now
from .accounts import find_user
from .views import view_key

__all__ = ["authenticate", "create_key", "hash_token", "issue_user_key", "list_keys", "revoke_key"]

_TOKEN_BYTES: Final = 32
_MAX_TOKEN_CHARS: Final = 256


def hash_token(token: str) -> str:
    """Return what the database keeps of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def authenticate(session: Session, token: str | None, *, client: Client) -> Principal:
    """Return whose token this is; without one, somebody anonymous.

    Args:
        client: ``"cli"`` for requests that say ``X-Client: cli``.

    Raises:
        Unauthenticated: ``key_unknown``, ``key_revoked`` or ``key_expired``.
    """
    if token is None:
        return Principal.anonymous(client)
    row = None
    if len(token) <= _MAX_TOKEN_CHARS:
        row = session.scalar(select(ApiKeyRow).where(ApiKeyRow.token_sha256 == hash_token(token)))
    if row is None:
        raise Unauthenticated("key_unknown", "this API key is not known here", hint="log in again")
    check_key(session, True, row.revoked_at, row.expires_at)
    return Principal(client, user_id=row.user_id, workspace_id=row.workspace_id, key_id=row.id)


def create_key(
    session: Session,
    principal: Principal,
    *,
    email: str | None = None,
    workspace: str | None = None,
    label: str = "",
    expires_at: datetime | None = None,
) -> NewApiKey:
    """Make a key for a user or for a workspace, and return its token this one time.

    A user's key acts as that user; a workspace's key reads what the workspace has. Users
    make keys for themselves, admins for their workspace, the operator for anybody.
    """
    check_principal(session, principal)
    if (email is None) == (workspace is None):
        raise Invalid("key_holder", "a key is for one user or one workspace", hint="name one")
    check_text("label", label, MAX_LABEL_BYTES)
    if expires_at is not None and expires_at <= now(session):
        raise Invalid("key_expiry", "the key would expire in the past", hint="choose a later time")
    if email is not None:
        user = find_user(session, email)
        if not principal.is_operator and user.id != principal.user_id:
            raise Forbidden("not_your_key", "that is another user", hint="make one for yourself")
        return issue_user_key(session, user, label, expires_at)
    access = enter(session, principal, str(workspace))
    access.need_admin("make keys for it")
    return _issue(session, label, expires_at, "rxw", None, access.workspace)


def issue_user_key(
    session: Session, user: UserRow, label: str, expires_at: datetime | None = None
) -> NewApiKey:
    """Make a key for a user who has been identified already."""
    return _issue(session, label, expires_at, "rxu", user, None)


def _issue(
    session: Session,
    label: str,
    expires_at: datetime | None,
    prefix: str,
    user: UserRow | None,
    workspace: WorkspaceRow | None,
) -> NewApiKey:
    token = f"{prefix}_{secrets.token_urlsafe(_TOKEN_BYTES)}"
    row = ApiKeyRow(
        id=new_id("key"),
        token_sha256=hash_token(token),
        label=label,
        user_id=user.id if user else None,
        workspace_id=workspace.id if workspace else None,
        created_at=now(session),
        expires_at=expires_at,
        revoked_at=None,
    )
    session.add(row)
    session.flush()
    return NewApiKey(view_key(row, workspace.name if workspace else None), token)


def list_keys(
    session: Session, principal: Principal, *, workspace: str | None = None
) -> tuple[ApiKey, ...]:
    """Return keys, oldest first: a workspace's, else one's own; all of them for the operator."""
    query = select(ApiKeyRow).options(joinedload(ApiKeyRow.workspace))
    if workspace is not None:
        access = enter(session, principal, workspace)
        access.need_admin("list its keys")
        query = query.where(ApiKeyRow.workspace_id == access.workspace.id)
    elif not principal.is_operator:
        query = query.where(ApiKeyRow.user_id == need_user(session, principal))
    rows = session.scalars(query.order_by(ApiKeyRow.created_at, ApiKeyRow.id))
    return tuple(view_key(row, row.workspace.name if row.workspace else None) for row in rows)


def revoke_key(session: Session, principal: Principal, key_id: str) -> bool:
    """Revoke a key for good; return ``False`` when it was revoked already.

    Raises:
        NotFound: ``key_id_unknown``, also for keys that are not the caller's to revoke.
    """
    check_principal(session, principal)
    row = session.get(ApiKeyRow, key_id)
    if row is None or not _may_revoke(session, principal, row):
        raise NotFound(
            "key_id_unknown",
            f"there is no API key {key_id!a:.80} of yours",
            hint="list your keys to see their ids",
        )
    if row.revoked_at is not None:
        return False
    row.revoked_at = now(session)
    return True


def _may_revoke(session: Session, principal: Principal, row: ApiKeyRow) -> bool:
    if principal.is_operator:
        return True
    if principal.user_id is None:
        return False
    if row.workspace_id is None:
        return row.user_id == principal.user_id
    member = session.get(MembershipRow, (row.workspace_id, principal.user_id))
    return member is not None and member.role in {"OWNER", "ADMIN"}
