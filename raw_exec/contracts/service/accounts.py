"""Users, workspaces and who belongs to them."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session, joinedload

from .. import rules
from ..content import MAX_DESCRIPTION_BYTES, MAX_LABEL_BYTES, check_text
from ..errors import Forbidden, NotFound
from ..model import UNSET, Member, Membership, Principal, Role, Unset, User, Workspace
from ..names import check_email, check_workspace_name
from ..store.rows import MembershipRow, UserRow, WorkspaceRow
from .access import enter, need_operator, need_user, new_id, now
from .views import view_user, view_workspace

__all__ = [
    "add_user",
    "add_workspace",
    "find_user",
    "get_workspace",
    "list_members",
    "list_users",
    "list_workspaces",
    "me",
    "my_memberships",
    "remove_member",
    "set_member",
    "set_workspace",
]


def add_user(session: Session, principal: Principal, email: str) -> User:
    """Add a user.

    Raises:
        Conflict: ``name_taken``.
    """
    need_operator(session, principal, "add users")
    email = check_email(email)
    taken = session.scalar(select(UserRow.id).where(UserRow.email == email)) is not None
    rules.check_name_taken("user", email, taken)
    row = UserRow(id=new_id("user"), email=email, created_at=now(session))
    session.add(row)
    session.flush()
    return view_user(row)


def list_users(session: Session, principal: Principal) -> tuple[User, ...]:
    """Return all users by e-mail address."""
    need_operator(session, principal, "list users")
    return tuple(view_user(row) for row in session.scalars(select(UserRow).order_by(UserRow.email)))


def find_user(session: Session, email: str) -> UserRow:
    """Return a user by e-mail address.

    Raises:
        NotFound: ``user_unknown``.
    """
    email = check_email(email)
    row = session.scalar(select(UserRow).where(UserRow.email == email))
    if row is None:
        raise NotFound(
            "user_unknown", f"there is no user {email}", hint="add it with `raw registry user add`"
        )
    return row


def me(session: Session, principal: Principal) -> User:
    """Return the user whose key this is."""
    user_id = need_user(session, principal)
    return view_user(session.get_one(UserRow, user_id))


def my_memberships(session: Session, principal: Principal) -> tuple[Membership, ...]:
    """Return the workspaces of the principal's user, by name."""
    user_id = need_user(session, principal)
    rows = session.scalars(
        select(MembershipRow)
        .where(MembershipRow.user_id == user_id)
        .join(MembershipRow.workspace)
        .options(joinedload(MembershipRow.workspace))
        .order_by(WorkspaceRow.name)
    )
    return tuple(Membership(Role(row.role), view_workspace(row.workspace)) for row in rows)


def add_workspace(
    session: Session,
    principal: Principal,
    name: str,
    *,
    owner: str,
    display_name: str | None = None,
    description: str | None = None,
) -> Workspace:
    """Add a workspace with its first owner, an e-mail address.

    Raises:
        Conflict: ``name_taken``.
        NotFound: ``user_unknown``.
    """
    need_operator(session, principal, "add workspaces")
    check_workspace_name(name)
    taken = session.scalar(select(WorkspaceRow.id).where(WorkspaceRow.name == name)) is not None
    rules.check_name_taken("workspace", f"@{name}", taken)
    user = find_user(session, owner)
    at = now(session)
    row = WorkspaceRow(
        id=new_id("ws"),
        name=name,
        display_name=_label("display name", display_name),
        description=_description(description),
        cli_publishing=False,
        created_at=at,
        updated_at=at,
    )
    session.add(row)
    # Flushed first: the membership has no relationship that would order the two.
    session.flush()
    session.add(
        MembershipRow(workspace_id=row.id, user_id=user.id, role=Role.OWNER.value, created_at=at)
    )
    session.flush()
    return view_workspace(row)


def _label(what: str, text: str | None) -> str | None:
    return None if text is None else check_text(what, text, MAX_LABEL_BYTES)


def _description(text: str | None) -> str | None:
    return None if text is None else check_text("description", text, MAX_DESCRIPTION_BYTES)


def set_workspace(
    session: Session,
    principal: Principal,
    name: str,
    *,
    cli_publishing: bool | Unset = UNSET,
    display_name: str | Unset | None = UNSET,
    description: str | Unset | None = UNSET,
) -> Workspace:
    """Change a workspace's settings. ``None`` clears a text.

    ``cli_publishing`` says whether requests with ``X-Client: cli`` may publish in it.
    """
    access = enter(session, principal, name)
    access.need_admin("change its settings")
    row = access.workspace
    if cli_publishing is not UNSET:
        row.cli_publishing = cli_publishing
    if display_name is not UNSET:
        row.display_name = _label("display name", display_name)
    if description is not UNSET:
        row.description = _description(description)
    row.updated_at = now(session)
    return view_workspace(row)


def get_workspace(session: Session, principal: Principal, name: str) -> Workspace:
    """Return a workspace. Its name and descriptions are no secret."""
    return view_workspace(enter(session, principal, name).workspace)


def list_workspaces(session: Session, principal: Principal) -> tuple[Workspace, ...]:
    """Return all workspaces by name."""
    need_operator(session, principal, "list all workspaces")
    rows = session.scalars(select(WorkspaceRow).order_by(WorkspaceRow.name))
    return tuple(view_workspace(row) for row in rows)


def list_members(session: Session, principal: Principal, workspace: str) -> tuple[Member, ...]:
    """Return the members by e-mail address."""
    access = enter(session, principal, workspace)
    access.need_author()
    rows = session.scalars(
        select(MembershipRow)
        .where(MembershipRow.workspace_id == access.workspace.id)
        .join(MembershipRow.user)
        .options(joinedload(MembershipRow.user))
        .order_by(UserRow.email)
    )
    return tuple(Member(view_user(row.user), Role(row.role)) for row in rows)


def set_member(
    session: Session, principal: Principal, workspace: str, email: str, role: Role
) -> Member:
    """Add a member, or give one another role.

    Only owners make owners, and only owners change one.

    Raises:
        Conflict: ``last_owner``.
        Forbidden: ``not_a_member``, ``needs_admin`` or ``needs_owner``.
    """
    access = enter(session, principal, workspace)
    access.need_admin("change its members")
    user = find_user(session, email)
    row = session.get(MembershipRow, (access.workspace.id, user.id))
    was_owner = row is not None and row.role == Role.OWNER.value
    if (was_owner or role is Role.OWNER) and access.role is not Role.OWNER:
        raise _owners_only(workspace, "make or change an owner")
    if was_owner and role is not Role.OWNER:
        rules.check_last_owner(workspace, _other_owners(session, access.workspace.id, user.id))
    if row is None:
        row = MembershipRow(
            workspace_id=access.workspace.id,
            user_id=user.id,
            role=role.value,
            created_at=now(session),
        )
        session.add(row)
    row.role = role.value
    return Member(view_user(user), role)


def remove_member(session: Session, principal: Principal, workspace: str, email: str) -> bool:
    """Remove a member; return whether there was one. Anybody may remove themselves.

    Raises:
        Conflict: ``last_owner``.
    """
    access = enter(session, principal, workspace)
    access.need_author()
    user = find_user(session, email)
    row = session.get(MembershipRow, (access.workspace.id, user.id))
    if user.id != principal.user_id:
        access.need_admin("remove other members")
    if row is None:
        return False
    if row.role == Role.OWNER.value:
        if access.role is not Role.OWNER:
            raise _owners_only(workspace, "remove an owner")
        rules.check_last_owner(workspace, _other_owners(session, access.workspace.id, user.id))
    session.delete(row)
    return True


def _owners_only(workspace: str, what: str) -> Forbidden:
    return Forbidden(
        "needs_owner", f"only an owner of workspace @{workspace} may {what}", hint="ask one"
    )


def _other_owners(session: Session, workspace_id: str, user_id: str) -> int:
    return (
        session.scalar(
            select(func.count())
            .select_from(MembershipRow)
            .where(
                MembershipRow.workspace_id == workspace_id,
                MembershipRow.role == Role.OWNER.value,
                MembershipRow.user_id != user_id,
            )
        )
        or 0
    )
