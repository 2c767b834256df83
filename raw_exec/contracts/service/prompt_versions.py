"""Prompt versions: content, output schema, metadata, model config, publication."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from .. import rules
from ..content import (
    MAX_LABEL_BYTES,
    MAX_METADATA_BYTES,
    MAX_README_BYTES,
    check_json_object,
    check_output_schema,
    check_prompt_metadata,
    check_text,
)
from ..model import Page, Principal, PromptVersion, Provider, Status, Visibility
from ..store.rows import PromptVersionRow
from .access import check_page, enter, now, readable_workspaces
from .lifecycle import (
    choose_publication,
    find_latest,
    find_version,
    list_rows,
    need_version,
    publish,
)
from .prompt_drafts import load_version, load_versions, new_prompt_draft, ref_of, show, writable
from .views import view_prompt_version

__all__ = [
    "create_prompt_draft",
    "delete_prompt_version",
    "find_prompt_version",
    "get_prompt_version",
    "list_prompt_versions",
    "publish_prompt_version",
    "set_prompt_metadata",
    "set_prompt_model_config",
    "set_prompt_output_schema",
    "set_prompt_readme",
]


def find_prompt_version(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    constraint: str | None = None,
    *,
    status: Status | None = None,
) -> PromptVersion | None:
    """Resolve a version of a prompt, with files and pins; ``None`` when nothing matches.

    Args:
        constraint: As in ``find_tool_version``.
        status: Only versions of this status.

    Raises:
        Invalid: ``bad_constraint``.
        NotFound: The prompt is unknown.
    """
    access = enter(session, principal, workspace)
    prompt = access.find_prompt(session, name)
    row = find_version(
        session,
        PromptVersionRow,
        prompt.id,
        constraint,
        status=status,
        sees_drafts=access.reads_all,
    )
    return show(session, principal, row) if row else None


def get_prompt_version(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    constraint: str | None = None,
    *,
    status: Status | None = None,
) -> PromptVersion:
    """Like ``find_prompt_version``, but raise ``NotFound`` when nothing matches."""
    found = find_prompt_version(session, principal, workspace, name, constraint, status=status)
    return need_version(found, f"@{workspace}/{name}", constraint)


def list_prompt_versions(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    *,
    skip: int = 0,
    take: int = 50,
    status: Status | None = None,
) -> Page[PromptVersion]:
    """Return the versions of a prompt, newest first, the draft before all."""
    access = enter(session, principal, workspace)
    prompt = access.find_prompt(session, name)
    check_page(skip, take)
    rows, total = list_rows(
        session,
        PromptVersionRow,
        prompt.id,
        skip=skip,
        take=take,
        status=status,
        sees_drafts=access.reads_all,
    )
    mine = readable_workspaces(session, principal)
    loaded = load_versions(session, rows)
    return Page(tuple(view_prompt_version(row, mine) for row in loaded), total)


def create_prompt_draft(
    session: Session, principal: Principal, workspace: str, name: str
) -> PromptVersion:
    """Open the next draft: files, pins and all of the last publication.

    Raises:
        Conflict: ``one_draft``.
    """
    access = enter(session, principal, workspace)
    prompt = access.find_prompt(session, name)
    access.need_author()
    last = find_latest(session, PromptVersionRow, prompt.id)
    loaded = load_version(session, last) if last else None
    return show(session, principal, new_prompt_draft(session, prompt, loaded))


def publish_prompt_version(
    session: Session, principal: Principal, workspace: str, name: str, number: str
) -> PromptVersion:
    """Publish the open draft under a number above all earlier ones.

    Raises:
        Conflict: ``already_published``, ``draft_exists``, ``version_increases``,
            ``pinned_tools_published`` or ``pinned_tools_readable``.
        Forbidden: ``CLI_PUBLISHING_DISABLED``.
        Invalid: ``version_number``.
    """
    access = enter(session, principal, workspace)
    prompt = access.find_prompt(session, name)
    access.need_author()
    rules.check_cli_publishing(workspace, access.workspace.cli_publishing, principal.client)
    ref = f"@{workspace}/{name}"
    draft, version = choose_publication(session, PromptVersionRow, prompt.id, ref, number)
    row = load_version(session, draft)
    _check_closure(session, principal, row)
    at = now(session)
    publish(row, version, at)
    prompt.updated_at = at
    return show(session, principal, row)


def _check_closure(session: Session, principal: Principal, row: PromptVersionRow) -> None:
    """Check that whoever will be able to read the publication can resolve all of it."""
    drafts: list[str] = []
    private: list[tuple[str, bool]] = []
    mine = readable_workspaces(session, principal)
    is_public = row.prompt.visibility == Visibility.PUBLIC.value
    for pin in row.pins:
        tool = pin.tool_version.tool
        ref = f"@{tool.workspace.name}/{tool.name}"
        is_visible = mine is None or tool.workspace_id in mine
        if pin.tool_version.status == Status.DRAFT.value:
            drafts.append(f"{ref}@{pin.tool_version.version}" if is_visible else repr(pin.alias))
        # Readers of a publication are shown what it pins, so of a private prompt's tools
        # only the publisher has to be able to read them; strangers look tools up themselves.
        if tool.visibility != Visibility.PUBLIC.value and (is_public or not is_visible):
            private.append((ref, is_visible))
    rules.check_pinned_tools_published(ref_of(row), drafts)
    rules.check_pinned_tools_readable(ref_of(row), *rules.split_visible(private))


def delete_prompt_version(
    session: Session, principal: Principal, workspace: str, name: str, version: str
) -> bool:
    """Delete the open draft with its files and pins.

    Raises:
        Conflict: ``version_frozen``.
    """
    session.delete(writable(session, principal, workspace, name, version))
    return True


def set_prompt_metadata(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    *,
    set: Mapping[str, Any] | None = None,  # noqa: A002 - reads as what it does
    delete: Iterable[str] = (),
    replace: bool = False,
) -> PromptVersion:
    """Change keys of a draft's metadata, which has plain values only.

    Args:
        delete: Wins over ``set``; unknown keys are fine.
        replace: Start from nothing instead of what is there.

    Raises:
        Conflict: ``version_frozen``.
        Invalid: ``metadata_flat``, ``metadata_key`` and others.
    """
    row = writable(session, principal, workspace, name, version)
    gone = frozenset(delete)
    merged = {**({} if replace else row.metadata_), **(set or {})}
    row.metadata_ = check_prompt_metadata({k: v for k, v in merged.items() if k not in gone})
    return show(session, principal, row)


def set_prompt_output_schema(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    schema: Mapping[str, Any] | None,
) -> PromptVersion:
    """Set a draft's output schema; ``None`` clears it.

    Raises:
        Conflict: ``version_frozen``.
        Invalid: ``bad_schema`` and others.
    """
    row = writable(session, principal, workspace, name, version)
    row.output_schema = check_output_schema(schema)
    return show(session, principal, row)


def set_prompt_readme(
    session: Session, principal: Principal, workspace: str, name: str, version: str, readme: str
) -> PromptVersion:
    """Set a draft's readme."""
    row = writable(session, principal, workspace, name, version)
    row.readme = check_text("readme", readme, MAX_README_BYTES)
    return show(session, principal, row)


def set_prompt_model_config(
    session: Session,
    principal: Principal,
    workspace: str,
    name: str,
    version: str,
    *,
    provider: Provider,
    model: str,
    parameters: Mapping[str, Any] | None = None,
) -> PromptVersion:
    """Say which model a draft is written for."""
    row = writable(session, principal, workspace, name, version)
    checked = None
    if parameters is not None:
        checked = check_json_object("model parameters", parameters, MAX_METADATA_BYTES)
    row.model_config_ = {
        "provider": provider.value,
        "model": check_text("model name", model, MAX_LABEL_BYTES),
        "parameters": checked,
    }
    return show(session, principal, row)
