"""What tool versions and prompt versions have in common: drafts, numbers, resolution.

State of one entity: any number of publications with rising numbers, and at most one draft.

    open draft    needs no draft; copies the last publication; labelled after it
    publish       needs a draft and a higher number; the draft becomes the publication
    delete        needs a draft
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from .. import rules
from ..errors import version_unknown
from ..model import Status
from ..store.rows import PromptVersionRow, ToolVersionRow
from ..versions import DRAFT, Version, draft_label, is_label, is_plain, parse_constraint

__all__ = [
    "choose_publication",
    "find_draft",
    "find_latest",
    "find_version",
    "list_rows",
    "need_version",
    "number_draft",
    "publish",
    "published_numbers",
    "touch",
]

Row = TypeVar("Row", ToolVersionRow, PromptVersionRow)
Found = TypeVar("Found")


def _owner(model: type[Row]) -> InstrumentedAttribute[str]:
    return ToolVersionRow.tool_id if model is ToolVersionRow else PromptVersionRow.prompt_id


def _newest_first(query: Select[Row], model: type[Row]) -> Select[Row]:
    # A draft's label is above every publication, so it comes first.
    return query.order_by(model.major.desc(), model.minor.desc(), model.patch.desc())


def find_draft(session: Session, model: type[Row], owner: str) -> Row | None:
    """Return the open draft."""
    return session.scalar(
        select(model).where(_owner(model) == owner, model.status == Status.DRAFT.value)
    )


def find_latest(session: Session, model: type[Row], owner: str) -> Row | None:
    """Return the highest publication."""
    query = select(model).where(_owner(model) == owner, model.status == Status.PUBLISHED.value)
    return session.scalar(_newest_first(query, model).limit(1))


def published_numbers(session: Session, model: type[Row], owner: str) -> list[str]:
    """Return the numbers of all publications, newest first."""
    rows = session.execute(
        select(model.version)
        .where(_owner(model) == owner, model.status == Status.PUBLISHED.value)
        .order_by(model.major.desc(), model.minor.desc(), model.patch.desc())
    )
    return [version for (version,) in rows]


def find_version(
    session: Session,
    model: type[Row],
    owner: str,
    constraint: str | None,
    *,
    status: Status | None,
    sees_drafts: bool,
) -> Row | None:
    """Resolve what somebody wrote after the ``@``.

    In this order: nothing (the latest publication, or else the draft), the word ``draft``, a
    version or label as it is stored, a constraint that publications satisfy.

    Raises:
        Invalid: ``bad_constraint``.
    """
    wants_draft = status is not Status.PUBLISHED and sees_drafts
    wants_published = status is not Status.DRAFT
    if constraint is None:
        found = find_latest(session, model, owner) if wants_published else None
        return found or (find_draft(session, model, owner) if wants_draft else None)
    if constraint == DRAFT:
        return find_draft(session, model, owner) if wants_draft else None
    parsed = parse_constraint(constraint)
    is_whole = is_plain(constraint) or is_label(constraint)
    exact = _find_exact(session, model, owner, constraint) if is_whole else None
    if exact is not None:
        is_draft = exact.status == Status.DRAFT.value
        return exact if (wants_draft if is_draft else wants_published) else None
    if not wants_published:
        return None
    best = parsed.best(published_numbers(session, model, owner))
    return None if best is None else _find_exact(session, model, owner, best)


def _find_exact(session: Session, model: type[Row], owner: str, version: str) -> Row | None:
    return session.scalar(select(model).where(_owner(model) == owner, model.version == version))


def need_version(found: Found | None, ref: str, constraint: str | None) -> Found:
    """Return what was found, or raise ``NotFound`` (``version_unknown``)."""
    if found is None:
        raise version_unknown(ref, constraint)
    return found


def list_rows(
    session: Session,
    model: type[Row],
    owner: str,
    *,
    skip: int,
    take: int,
    status: Status | None,
    sees_drafts: bool,
) -> tuple[Sequence[Row], int]:
    """Return a page of versions, newest first, and how many there are."""
    wanted: list[ColumnElement[bool]] = [_owner(model) == owner]
    if status is not None:
        wanted.append(model.status == status.value)
    if not sees_drafts:
        wanted.append(model.status == Status.PUBLISHED.value)
    total = session.scalar(select(func.count()).select_from(model).where(*wanted)) or 0
    query = _newest_first(select(model).where(*wanted), model)
    return session.scalars(query.offset(skip).limit(take)).all(), total


def number_draft(session: Session, row: Row, ref: str, owner: str) -> None:
    """Give a new draft its label and numbers, after the last publication.

    Raises:
        Conflict: ``one_draft``.
    """
    model = type(row)
    existing = find_draft(session, model, owner)
    rules.check_one_draft(ref, existing.version if existing else None)
    latest = find_latest(session, model, owner)
    label = draft_label(Version.parse(latest.version) if latest else None)
    _set_numbers(row, Version.parse(label.partition("-")[0]), label)
    row.status = Status.DRAFT.value


def _set_numbers(row: Row, version: Version, text: str) -> None:
    row.version = text
    row.major, row.minor, row.patch = version.major, version.minor, version.patch


def choose_publication(
    session: Session, model: type[Row], owner: str, ref: str, number: str
) -> tuple[Row, Version]:
    """Return the draft that may be published under this number.

    Raises:
        Invalid: ``version_number``.
        Conflict: ``already_published``, ``draft_exists`` or ``version_increases``.
    """
    version = Version.parse(number)
    spent = _find_exact(session, model, owner, number)
    rules.check_already_published(ref, number, spent.published_at if spent else None)
    draft = find_draft(session, model, owner)
    rules.check_draft_exists(ref, draft.version if draft else None)
    latest = find_latest(session, model, owner)
    is_higher = latest is None or version > Version.parse(latest.version)
    rules.check_version_increases(ref, number, latest.version if latest else None, is_higher)
    assert draft is not None  # noqa: S101 - the rule above
    return draft, version


def publish(row: Row, version: Version, at: datetime) -> None:
    """Turn a draft into a publication, in place, so that pins to it follow."""
    _set_numbers(row, version, str(version))
    row.status = Status.PUBLISHED.value
    row.published_at = at
    touch(row, at)


def touch(row: Row, at: datetime) -> None:
    """Note that a version's content changed."""
    row.revision += 1
    row.updated_at = at
