"""Bring the project's prompts down, and keep the lock.

Rules:

1. What the lock has, with the same constraint and an intact cache, asks nobody.
2. What the lock has, but the cache lost, is fetched in the locked version. Content that does
   not fit the lock's digest is refused; only a draft may have changed.
3. What the lock lacks, or has for another constraint, is resolved anew.
4. Everything is fetched before anything is written, and the lock is written last.
5. Frozen: the lock has to say it all, and nothing is written but the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...errors import ConfigError
from ..errors import Conflict, NotFound
from ..names import Ref
from ..versions import is_label
from .content import Content, content_of
from .file import Entry, Project
from .lock import Locked, cache_path, load_cached, load_lock, save_lock, store

if TYPE_CHECKING:
    from ..client import Registry

__all__ = ["Installed", "add", "install", "remove", "update"]

State = Literal["cached", "fetched", "updated", "unchanged"]


@dataclass(frozen=True, slots=True)
class Installed:
    """One prompt after installing.

    Args:
        warnings: What the user has to know: draft versions and draft pins.
    """

    key: str
    ref: Ref
    version: str
    state: State
    integrity: str
    warnings: tuple[str, ...]


def install(
    project: Project, ask: Callable[[], Registry], *, frozen: bool = False
) -> tuple[Installed, ...]:
    """Install what the project's file names.

    Args:
        ask: Opens the registry; called only when something has to be asked.

    Raises:
        Conflict: ``lock_outdated`` (frozen) or ``integrity_mismatch``.
        NotFound: ``version_unknown``, or a prompt is unknown.
    """
    lock = load_lock(project.root)
    if frozen:
        _check_frozen(project, lock)
    return _bring(project, ask, lock, frozen=frozen)


def _bring(
    project: Project,
    ask: Callable[[], Registry],
    lock: dict[str, Locked],
    *,
    anew: Collection[str] = (),
    frozen: bool = False,
) -> tuple[Installed, ...]:
    """Bring every prompt of the project down, those in ``anew`` whatever the lock says."""
    done: list[Installed] = []
    fresh: list[Content] = []
    for key, entry in sorted(project.entries.items()):
        locked = lock.get(key)
        content: Content | None
        state: State = "cached"
        if key in anew:
            content = _fetch(ask(), entry, entry.constraint)
            same = locked is not None and (locked.version, locked.integrity) == (
                content.version,
                content.integrity,
            )
            state = "unchanged" if same else "updated"
        elif locked is None or not locked.fits(entry):
            content, state = _fetch(ask(), entry, entry.constraint), "fetched"
        else:
            content = load_cached(project.root, locked)
            if content is None:
                content, state = _fetch_locked(ask(), entry, locked, frozen), "fetched"
        if state != "cached":
            fresh.append(content)
        done.append(_installed(entry, content, state))
    for content in fresh:
        store(project.root, content)
    written = {
        one.key: Locked(one.ref, project.entries[one.key].constraint, one.version, one.integrity)
        for one in done
    }
    if not frozen and written != lock:
        save_lock(project.root, written)
    return tuple(done)


def _check_frozen(project: Project, lock: dict[str, Locked]) -> None:
    differences = [
        f"+ {key} ({entry.constraint})"
        for key, entry in sorted(project.entries.items())
        if key not in lock
    ]
    differences += [f"- {key}" for key in sorted(lock) if key not in project.entries]
    differences += [
        f"~ {key}: {lock[key].ref}@{lock[key].constraint} -> {entry.ref}@{entry.constraint}"
        for key, entry in sorted(project.entries.items())
        if key in lock and not lock[key].fits(entry)
    ]
    if differences:
        raise Conflict(
            "lock_outdated",
            f"the lock is out of date: {'; '.join(differences)}",
            hint="run `raw install` and commit the lock",
        )


def _fetch(registry: Registry, entry: Entry, constraint: str) -> Content:
    found = registry.find_prompt_version(entry.ref.workspace, entry.ref.name, constraint)
    if found is None:
        raise NotFound(
            "version_unknown",
            f"no version of {entry.ref} that you may read matches {constraint!r:.90}",
            hint=f"see `raw prompt version list {entry.ref}`; a draft is named @draft",
        )
    content = content_of(found)
    if content.ref != entry.ref:
        raise Conflict(
            "wrong_answer",
            f"the registry answered with {content.ref} when asked for {entry.ref}",
            hint="check which registry is asked",
        )
    return content


def _fetch_locked(registry: Registry, entry: Entry, locked: Locked, frozen: bool) -> Content:
    # A draft's label moves on when it is published; the constraint still finds what follows.
    may_move = is_label(locked.version) and not frozen
    content = _fetch(registry, entry, entry.constraint if may_move else locked.version)
    if not may_move and content.integrity != locked.integrity:
        raise Conflict(
            "integrity_mismatch",
            f"{entry.ref}@{locked.version} is not what the lock says: {content.integrity} "
            f"instead of {locked.integrity}",
            hint="check which registry is asked; `raw update` accepts the new content",
        )
    return content


def _installed(entry: Entry, content: Content, state: State) -> Installed:
    return Installed(
        entry.key,
        content.ref,
        content.version,
        state,
        content.integrity,
        tuple(content.warnings(entry.key)),
    )


def update(
    project: Project, ask: Callable[[], Registry], keys: Iterable[str] = ()
) -> tuple[Installed, ...]:
    """Resolve the constraints anew; without ``keys``, all of them. The others are installed.

    Raises:
        ConfigError: ``not_in_project``.
    """
    wanted = set(keys) or set(project.entries)
    for key in sorted(wanted - set(project.entries)):
        raise _not_in_project(project, key)
    return _bring(project, ask, load_lock(project.root), anew=wanted)


def add(project: Project, entry: Entry, ask: Callable[[], Registry]) -> Installed:
    """Resolve one prompt, then put it into the project's file and lock.

    Raises:
        NotFound: Nothing was written then.
    """
    content = _fetch(ask(), entry, entry.constraint)
    lock = load_lock(project.root)
    project.entries[entry.key] = entry
    store(project.root, content)
    project.save()
    kept = {key: one for key, one in lock.items() if key in project.entries}
    locked = Locked(entry.ref, entry.constraint, content.version, content.integrity)
    save_lock(project.root, kept | {entry.key: locked})
    return _installed(entry, content, "fetched")


def remove(project: Project, key: str) -> None:
    """Take a prompt out of the project's file, the lock and the cache.

    Raises:
        ConfigError: ``not_in_project``.
    """
    if key not in project.entries:
        raise _not_in_project(project, key)
    lock = load_lock(project.root)
    gone = lock.pop(key, None)
    del project.entries[key]
    project.save()
    save_lock(project.root, lock)
    is_used = any(
        gone is not None and (one.ref, one.version) == (gone.ref, gone.version)
        for one in lock.values()
    )
    if gone is not None and not is_used:
        cache_path(project.root, gone.ref, gone.version).unlink(missing_ok=True)


def _not_in_project(project: Project, key: str) -> ConfigError:
    return ConfigError(
        "not_in_project",
        f"prompt {key!r:.220} is not in the project",
        where=str(project.path),
        hint=f"it has: {', '.join(sorted(project.entries)) or 'none'}",
    )
