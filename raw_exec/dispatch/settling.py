"""What becomes of the files that a call changed on its copy-on-write view.

Rules
1. Settled is only a call that came to a checked result, and only when its worker's whole tree
   is dead: nothing can be written any more that was not judged.
2. ``enforced``: a change that no described effect covers withholds all of them. ``observed``:
   it is reported. An error result withholds them too, unless the profile commits always.
3. A rule with ``review`` asks here, with the changes in hand, and a no withholds them.
4. Changes are committed whole or not at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

from ..errors import CallRefused, ConfigError
from ..transactions import (
    Change,
    ChangeSet,
    CommitConflict,
    CommitRefused,
    commit,
    default_state_dir,
    not_done,
    show_path,
    uncovered,
    unified,
)
from ..transactions.view import View
from .asking import ask
from .call import Call, Services

__all__ = ["attribute_quota", "settle"]

_STAGE = "settle"
_MAX_LISTED: Final = 1000
"""Changes that an outcome or a question lists; their number is always told."""
_MAX_NAMED: Final = 50
"""Changes that a message names."""
_MAX_LISTED_CHARS: Final = 256 * 1024
_MAX_NAMED_CHARS: Final = 8 * 1024
"""Of their paths together: one path can have as many characters as a hundred usual ones."""
_MAX_DIFF_BYTES: Final = 256 * 1024
_QUOTA_MARKS: Final = ("ENOSPC", "EFBIG", "EDQUOT", "No space left", "File too large")

_T = TypeVar("_T")


async def settle(call: Call, services: Services) -> None:
    """Commit what the call changed on its view, if it may be.

    Raises:
        CallRefused: ``undeclared_effects``, ``approval_denied``, ``approval_required``,
            ``commit_conflict`` or ``commit_refused``; nothing was committed then.
    """
    view = call.view
    if view is None:
        return
    sets: tuple[ChangeSet, ...] = ()
    bare: tuple[Change, ...] = ()
    if not view.is_untouched():
        sets, bare = await _in_thread(lambda: _look(call, view))
    call.changes = _listed(sets, bare)
    _count(call, sets, view)
    if call.effects is not None:
        await _note_drift(call, sets, bare)
    if call.dry_run:
        call.diff = await _in_thread(lambda: _diff(sets))
        return
    plan = call.plan
    assert plan is not None  # noqa: S101  (set with the view)
    if call.is_error and plan.commit != "always":
        return
    if plan.effects == "enforced" and bare:
        raise _undeclared(call, sets, bare)
    if sets and _wants_review(call):
        text = await _in_thread(lambda: _diff(sets))
        await ask(call, services, changes=call.changes, diff=text)
    if sets:
        await _in_thread(lambda: commit(sets, state_dir=_state_dir(services)))
        call.has_changed_files = True
    call.committed = True


def _look(call: Call, view: View) -> tuple[tuple[ChangeSet, ...], tuple[Change, ...]]:
    sets = view.change_sets()
    return sets, uncovered(sets, call.effects, call.cwd)


def _diff(sets: Sequence[ChangeSet]) -> str:
    return unified(sets, _MAX_DIFF_BYTES)


def _state_dir(services: Services) -> Path:
    return default_state_dir() if services.state_dir is None else services.state_dir


def _wants_review(call: Call) -> bool:
    evaluation = call.evaluation
    return evaluation is not None and evaluation.rule is not None and evaluation.rule.review


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Do file work in a thread, not cancellable, and say why nothing was committed."""
    try:
        return await trio.to_thread.run_sync(work)
    except (CommitConflict, CommitRefused) as exc:
        raise CallRefused(
            exc.code, str(exc), stage=_STAGE, detail=exc.as_detail(), hint=exc.hint
        ) from exc
    except ConfigError as exc:
        raise CallRefused(
            "commit_refused", f"the changes can't be committed: {exc}", stage=_STAGE, hint=exc.hint
        ) from exc
    except OSError as exc:
        where = f" at {exc.filename!r}" if exc.filename else ""
        raise CallRefused(
            "commit_refused",
            f"the changes can't be committed: {exc.strerror or exc}{where}",
            stage=_STAGE,
            detail={"errno": exc.errno},
        ) from exc


def _listed(sets: Sequence[ChangeSet], bare: Sequence[Change]) -> tuple[dict[str, Any], ...]:
    undeclared = {id(change) for change in bare}
    described = (
        {**_described(found, change), "declared": id(change) not in undeclared}
        for found in sets
        for change in found.changes
    )
    return tuple(_first(described, lambda item: item["path"], _MAX_LISTED, _MAX_LISTED_CHARS))


def _first(items: Iterable[_T], text: Callable[[_T], str], count: int, chars: int) -> Iterator[_T]:
    """Yield as many of the items as a list may have, by their number and their texts."""
    for item in itertools.islice(items, count):
        chars -= len(text(item))
        if chars < 0:
            return
        yield item


def _described(found: ChangeSet, change: Change) -> dict[str, Any]:
    path = f"{found.root.rstrip('/')}/{show_path(change.path)}"
    return {"path": path, "action": change.action, "kind": change.kind}


def _count(call: Call, sets: Sequence[ChangeSet], view: View) -> None:
    total = sum(len(found.changes) for found in sets)
    call.usage["changes"] = total
    if total > len(call.changes):
        call.usage["changes_omitted"] = total - len(call.changes)
    if view.is_full():
        call.detail["limit"] = "scratch_bytes"
        call.detail["evidence"] = "the view that the call ran on is full"


async def _note_drift(call: Call, sets: Sequence[ChangeSet], bare: Sequence[Change]) -> None:
    missing = await _in_thread(lambda: not_done(sets, call.effects, call.cwd))
    undeclared = [item for item in call.changes if not item["declared"]]
    if bare or missing:
        call.detail["drift"] = {
            "undeclared": undeclared[:_MAX_NAMED],
            "not_done": list(missing[:_MAX_NAMED]),
            "undeclared_count": len(bare),
            "not_done_count": len(missing),
        }


def _undeclared(call: Call, sets: Sequence[ChangeSet], bare: Sequence[Change]) -> CallRefused:
    wanted = {id(change) for change in bare}
    named = [
        f"{change.action} {_described(found, change)['path']}"
        for found in sets
        for change in found.changes
        if id(change) in wanted
    ]
    first = list(_first(named, str, _MAX_NAMED, _MAX_NAMED_CHARS))
    shown = "; ".join(first) or "their paths are too long to be shown here"
    more = f"; and {len(named) - len(first)} more" if len(named) > len(first) else ""
    what = "described none of" if call.effects is None else "did not describe"
    return CallRefused(
        "undeclared_effects",
        f"{call.chosen_tool().identity} {what} these changes, so none was committed: {shown}{more}",
        stage=_STAGE,
        detail={
            "undeclared": list(_first(named, str, _MAX_LISTED, _MAX_LISTED_CHARS)),
            "undeclared_count": len(named),
        },
        hint="describe them in describeEffects, or run the tool under effects 'observed'",
    )


def attribute_quota(view: View, refusal: CallRefused) -> CallRefused:
    """Name the quota when a handler on a view failed because it was used up."""
    if refusal.code != "handler_error":
        return refusal
    mark = next((mark for mark in _QUOTA_MARKS if mark in refusal.message), None)
    if mark is None and not view.is_full():
        return refusal
    evidence = f"{mark!r} in the handler's error" if mark else "the view is full"
    return CallRefused(
        "output_limit",
        f"{refusal.message} (what a call changes on a view is bounded by limits.scratch_bytes)",
        stage=refusal.stage,
        detail={**refusal.detail, "limit": "scratch_bytes", "evidence": evidence},
        hint="raise limits.scratch_bytes, or change less in one call",
    )
