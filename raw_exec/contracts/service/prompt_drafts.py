"""Drafts of prompts: how they begin, are loaded for a change, and keep inferred inputs."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session, joinedload, selectinload

from .. import rules
from ..model import FileFormat, Principal, PromptVersion, Status
from ..store.rows import PinRow, PromptFileRow, PromptRow, PromptVersionRow, ToolVersionRow
from ..templates import infer_inputs, parse_template
from .access import enter, new_id, now, readable_workspaces
from .lifecycle import find_version, need_version, number_draft, touch
from .views import view_prompt_version

__all__ = [
    "infer_files",
    "load_version",
    "load_versions",
    "new_file",
    "new_prompt_draft",
    "ref_of",
    "show",
    "writable",
]

_FIRST_FILES = ("systemPrompt", "userPrompt")


def ref_of(row: PromptVersionRow) -> str:
    """Return ``@workspace/name@version``."""
    return f"@{row.prompt.workspace.name}/{row.prompt.name}@{row.version}"


def load_version(session: Session, row: PromptVersionRow) -> PromptVersionRow:
    """Load a version's files and pins with it."""
    return load_versions(session, [row])[0]


def load_versions(session: Session, rows: Sequence[PromptVersionRow]) -> list[PromptVersionRow]:
    """Load files and pins of versions, in three queries however many there are."""
    loaded = session.scalars(
        select(PromptVersionRow)
        .where(PromptVersionRow.id.in_([row.id for row in rows]))
        .options(
            selectinload(PromptVersionRow.files),
            selectinload(PromptVersionRow.pins)
            .joinedload(PinRow.tool_version, innerjoin=True)
            .options(joinedload(ToolVersionRow.tool, innerjoin=True)),
        )
        .execution_options(populate_existing=True)
    )
    by_id = {one.id: one for one in loaded}
    return [by_id[row.id] for row in rows]


def show(session: Session, principal: Principal, row: PromptVersionRow) -> PromptVersion:
    """Return a version as the principal may see it, with what was changed just now."""
    session.flush()
    loaded = load_version(session, row)
    return view_prompt_version(loaded, readable_workspaces(session, principal))


def writable(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    *,
    for_pins: bool = False,
) -> PromptVersionRow:
    """Return a draft with its files and pins, for an author to change.

    Raises:
        Conflict: ``version_frozen``, or ``pins_draft_only`` when pins are to change.
        NotFound: Prompt or version are unknown.
    """
    access = enter(session, principal, workspace)
    prompt = access.find_prompt(session, name)
    access.need_author()
    found = find_version(
        session, PromptVersionRow, prompt.id, version, status=None, sees_drafts=True
    )
    row = need_version(found, f"@{workspace}/{name}", version)
    if for_pins:
        rules.check_pins_draft_only(ref_of(row), Status(row.status))
    rules.check_version_frozen(ref_of(row), Status(row.status))
    touch(row, now(session))
    session.flush()
    return load_version(session, row)


def new_prompt_draft(
    session: Session, prompt: PromptRow, last: PromptVersionRow | None
) -> PromptVersionRow:
    """Open a prompt's draft: a copy of its last publication, or two empty entrypoints.

    Raises:
        Conflict: ``one_draft``.
    """
    at = now(session)
    row = PromptVersionRow(
        id=new_id("pv"),
        prompt_id=prompt.id,
        prompt=prompt,
        metadata_=last.metadata_ if last else {},
        output_schema=last.output_schema if last else None,
        decision_spec=last.decision_spec if last else None,
        model_config_=last.model_config_ if last else None,
        readme=last.readme if last else "",
        revision=1,
        created_at=at,
        updated_at=at,
        published_at=None,
    )
    with session.no_autoflush:
        number_draft(session, row, f"@{prompt.workspace.name}/{prompt.name}", prompt.id)
    if last is None:
        row.files = [new_file(i, name, is_entrypoint=True) for i, name in enumerate(_FIRST_FILES)]
    else:
        row.files = [_copy_file(one) for one in last.files]
        row.pins = [_copy_pin(one) for one in last.pins]
    session.add(row)
    session.flush()
    return row


def new_file(
    position: int,
    name: str,
    *,
    content: str = "",
    is_entrypoint: bool = False,
    format: FileFormat = FileFormat.TEXT,  # noqa: A002 - the wire's word
) -> PromptFileRow:
    """Return a file without inferred inputs yet."""
    return PromptFileRow(
        id=new_id("file"),
        position=position,
        name=name,
        content=content,
        is_entrypoint=is_entrypoint,
        format=format.value,
        input_schema=None,
        option_input_schema=None,
        schema_warnings=[],
    )


def _copy_file(file: PromptFileRow) -> PromptFileRow:
    copy = new_file(
        file.position,
        file.name,
        content=file.content,
        is_entrypoint=file.is_entrypoint,
        format=FileFormat(file.format),
    )
    # Copied, not inferred anew: a fork that changes nothing must be equal.
    copy.input_schema = file.input_schema
    copy.option_input_schema = file.option_input_schema
    copy.schema_warnings = file.schema_warnings
    return copy


def _copy_pin(pin: PinRow) -> PinRow:
    return PinRow(
        id=new_id("pin"),
        tool_id=pin.tool_id,
        tool_version_id=pin.tool_version_id,
        alias=pin.alias,
        position=pin.position,
    )


def infer_files(row: PromptVersionRow) -> None:
    """Infer the inputs of every file anew: files include each other.

    Raises:
        Invalid: ``bad_template``.
    """
    parsed = {one.name: parse_template(one.content, where=one.name) for one in row.files}
    for one in row.files:
        inferred = infer_inputs(one.name, parsed)
        one.input_schema = inferred.schema
        one.schema_warnings = list(inferred.warnings)
