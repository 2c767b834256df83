"""Files of a prompt version: templates, their partials, and which are entrypoints."""

from __future__ import annotations

from sqlalchemy.orm import Session

from .. import rules
from ..content import MAX_FILE_BYTES, MAX_FILES, check_text
from ..errors import NotFound
from ..model import UNSET, FileFormat, Principal, PromptFile, PromptVersion, Unset
from ..names import check_file_name
from ..store.rows import PromptFileRow, PromptVersionRow
from .prompt_drafts import infer_files, new_file, ref_of, show, writable
from .views import view_file

__all__ = [
    "create_prompt_file",
    "delete_prompt_file",
    "set_prompt_file_entrypoint",
    "update_prompt_file",
]


def create_prompt_file(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    file_name: str,
    content: str,
    *,
    is_entrypoint: bool = False,
    format: FileFormat = FileFormat.TEXT,  # noqa: A002 - the wire's word
) -> PromptFile:
    """Add a file to a draft.

    Raises:
        Conflict: ``name_taken`` or ``version_frozen``.
        Invalid: ``bad_template``, ``file_name`` and others.
    """
    row = writable(session, principal, workspace, name, version)
    _check_free(row, file_name)
    rules.check_too_many(ref_of(row), "files", len(row.files) + 1, MAX_FILES)
    position = max((one.position for one in row.files), default=-1) + 1
    file = new_file(
        position,
        file_name,
        content=check_text(f"file {file_name!r}", content, MAX_FILE_BYTES),
        is_entrypoint=is_entrypoint,
        format=format,
    )
    row.files.append(file)
    infer_files(row)
    session.flush()
    return view_file(file)


def _check_free(row: PromptVersionRow, file_name: str) -> None:
    check_file_name(file_name)
    taken = any(one.name == file_name for one in row.files)
    rules.check_name_taken("file", f"{file_name!r} of {ref_of(row)}", taken)


def _find(row: PromptVersionRow, file_name: str) -> PromptFileRow:
    for one in row.files:
        if one.name == file_name:
            return one
    raise NotFound(
        "file_unknown",
        f"{ref_of(row)} has no file {file_name!a:.130}",
        hint="list its files to see what there is",
    )


def update_prompt_file(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    file_name: str,
    *,
    content: str | Unset = UNSET,
    new_name: str | Unset = UNSET,
    format: FileFormat | Unset = UNSET,  # noqa: A002 - the wire's word
) -> PromptVersion:
    """Change a file of a draft, or rename it.

    Raises:
        Conflict: ``name_taken`` or ``version_frozen``.
        NotFound: ``file_unknown``.
        Invalid: ``bad_template``, ``file_name`` and others.
    """
    row = writable(session, principal, workspace, name, version)
    file = _find(row, file_name)
    if new_name is not UNSET and new_name != file_name:
        _check_free(row, new_name)
        file.name = new_name
    if content is not UNSET:
        file.content = check_text(f"file {file.name!r}", content, MAX_FILE_BYTES)
    if format is not UNSET:
        file.format = format.value
    infer_files(row)
    return show(session, principal, row)


def delete_prompt_file(
    session: Session, principal: Principal, workspace: str, name: str, version: str, file_name: str
) -> PromptVersion:
    """Remove a file from a draft.

    Raises:
        NotFound: ``file_unknown``.
    """
    row = writable(session, principal, workspace, name, version)
    row.files.remove(_find(row, file_name))
    infer_files(row)
    return show(session, principal, row)


def set_prompt_file_entrypoint(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    file_name: str,
    is_entrypoint: bool,
) -> PromptVersion:
    """Say whether a file of a draft can be rendered by itself.

    Raises:
        NotFound: ``file_unknown``.
    """
    row = writable(session, principal, workspace, name, version)
    _find(row, file_name).is_entrypoint = is_entrypoint
    return show(session, principal, row)
