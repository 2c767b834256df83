"""Login by device code: a program asks, a person approves elsewhere, the program collects.

    pending  --approve-->  approved  --poll-->  collected
    pending  --deny----->  denied
    any      --time----->  expired

A code is used once: a login that was collected, or that nobody started, polls as
``invalid_grant``. Polling answers with a word instead of raising, because even "not yet"
has to be committed: it is how polling too fast is noticed.

Contract source: registry wire interface §1.4 (words of RFC 8628).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from ..content import MAX_LABEL_BYTES, check_text
from ..errors import Conflict, Forbidden, NotFound, StoreError
from ..model import Principal
from ..store.rows import DeviceRow, UserRow
from .access import check_principal, new_id, now
from .accounts import find_user
from .keys import hash_token, issue_user_key

__all__ = [
    "DeviceLogin",
    "DevicePoll",
    "approve_device",
    "deny_device",
    "poll_device",
    "start_device_login",
]

Word = Literal[
    "granted",
    "authorization_pending",
    "slow_down",
    "access_denied",
    "expired_token",
    "invalid_grant",
]

LIFETIME_SECONDS: Final = 600
INTERVAL_SECONDS: Final = 2
_SLOWER_SECONDS: Final = 5
_EARLY_SECONDS: Final = 0.5
"""A client that waits one interval may still arrive a little before it is over."""

_KEPT_SECONDS: Final = 3600
"""After it expired a login is remembered, so that its program learns why."""

_MAX_PENDING: Final = 10_000
"""Anybody may start one without a key."""

# Consonants without look-alikes: no words, nothing to misread.
_ALPHABET: Final = "BCDFGHJKLMNPQRSTVWXZ"
_CODE_CHARS: Final = 8


@dataclass(frozen=True, slots=True)
class DeviceLogin:
    """What the program that logs in gets. Seconds throughout."""

    device_code: str
    user_code: str
    interval: int
    expires_in: int


@dataclass(frozen=True, slots=True)
class DevicePoll:
    """Answer to one poll. The rest is set when ``status`` is ``"granted"``."""

    status: Word
    token: str | None = None
    user_id: str | None = None
    key_id: str | None = None

    def __repr__(self) -> str:
        return f"DevicePoll(status={self.status!r}, key_id={self.key_id!r})"


def start_device_login(session: Session, label: str) -> DeviceLogin:
    """Begin a login.

    Args:
        label: What the program calls its device; becomes the key's label.

    Raises:
        StoreError: ``too_many_logins``, when that many are waiting.
    """
    check_text("device label", label, MAX_LABEL_BYTES)
    at = now(session)
    session.execute(
        delete(DeviceRow).where(DeviceRow.expires_at < at - timedelta(seconds=_KEPT_SECONDS))
    )
    waiting = session.scalar(select(func.count()).select_from(DeviceRow)) or 0
    if waiting >= _MAX_PENDING:
        raise StoreError("too_many_logins", "too many logins are waiting", hint="try again later")
    device_code = secrets.token_urlsafe(32)
    drawn = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_CHARS))
    session.add(
        DeviceRow(
            id=new_id("login"),
            device_sha256=hash_token(device_code),
            user_code=drawn,
            label=label,
            state="pending",
            interval_seconds=INTERVAL_SECONDS,
            user_id=None,
            created_at=at,
            expires_at=at + timedelta(seconds=LIFETIME_SECONDS),
            polled_at=None,
        )
    )
    shown = f"{drawn[:4]}-{drawn[4:]}"
    return DeviceLogin(device_code, shown, INTERVAL_SECONDS, LIFETIME_SECONDS)


def approve_device(
    session: Session, principal: Principal, user_code: str, *, email: str | None = None
) -> None:
    """Let the program that shows this code log in as a user.

    Args:
        email: For whom; only the operator, who has to, may name somebody else.

    Raises:
        NotFound: ``device_code_unknown``, also for codes that expired.
        Conflict: ``device_code_used``.
    """
    check_principal(session, principal)
    user_id = principal.user_id
    if principal.is_operator and email is not None:
        user_id = find_user(session, email).id
    if user_id is None:
        raise Forbidden(
            "needs_user", "a login is approved for a user", hint="log in, or name the user"
        )
    if email is not None and find_user(session, email).id != user_id:
        raise Forbidden("not_your_login", "that is another user", hint="approve it for yourself")
    row = _pending(session, user_code)
    row.user_id = user_id
    row.state = "approved"


def deny_device(session: Session, principal: Principal, user_code: str) -> None:
    """Tell the program that shows this code that it may not log in.

    Raises:
        NotFound: ``device_code_unknown``.
        Conflict: ``device_code_used``.
    """
    check_principal(session, principal)
    if principal.user_id is None and not principal.is_operator:
        raise Forbidden("needs_user", "a login is denied by a user", hint="log in first")
    _pending(session, user_code).state = "denied"


def _pending(session: Session, user_code: str) -> DeviceRow:
    wanted = "".join(char for char in user_code.upper() if char in _ALPHABET)
    row = session.scalar(select(DeviceRow).where(DeviceRow.user_code == wanted))
    if row is None or row.expires_at <= now(session):
        raise NotFound(
            "device_code_unknown",
            f"no login waits for the code {user_code!a:.40}, or it has expired",
            hint="check the code, or start the login again",
        )
    if row.state != "pending":
        raise Conflict(
            "device_code_used",
            f"the login with the code {user_code!a:.40} was answered already",
            hint="start the login again for another one",
        )
    return row


def poll_device(session: Session, device_code: str) -> DevicePoll:
    """Answer a program that waits; make its key when the login was approved.

    Polling before the interval is over makes the interval longer, as RFC 8628 has it.
    """
    row = session.scalar(
        select(DeviceRow).where(DeviceRow.device_sha256 == hash_token(device_code))
    )
    if row is None or row.state == "collected":
        return DevicePoll("invalid_grant")
    at = now(session)
    if row.state == "denied":
        return DevicePoll("access_denied")
    if row.expires_at <= at:
        return DevicePoll("expired_token")
    if row.state == "approved":
        row.state = "collected"
        user = session.get_one(UserRow, row.user_id)
        key = issue_user_key(session, user, row.label)
        return DevicePoll("granted", key.token, user.id, key.key.id)
    allowed = timedelta(seconds=row.interval_seconds - _EARLY_SECONDS)
    is_early = row.polled_at is not None and at < row.polled_at + allowed
    row.polled_at = at
    if is_early:
        row.interval_seconds += _SLOWER_SECONDS
        return DevicePoll("slow_down")
    return DevicePoll("authorization_pending")
