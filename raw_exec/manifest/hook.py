"""Parse and load hook folders: ``hook.json`` (``raw.hook/2``) and a frozen copy beside it.

Contract: "Hook payloads" of the tool contract; folder, fields and limits of the hook
details. Whether a subscription fits the tools it can match is decided where both are
known, in ``hooks``.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ..errors import ManifestError, PolicyError, Problem
from ..fields import Cursor, Document, shown
from ..jsontext import JsonTextError, parse
from ..limits import MAX_MANIFEST_BYTES
from ..policy import Matcher, Predicate, compile_glob, parse_predicate
from .snapshot import Snapshot, take_snapshot
from .tree import FolderRules

__all__ = [
    "EVENTS",
    "GATES",
    "HOOK_MANIFEST",
    "TOOL_EVENTS",
    "HookManifest",
    "LoadedHook",
    "Subscription",
    "load_hook",
    "parse_hook_manifest",
]

HOOK_FORM: Final = "raw.hook/2"
HOOK_MANIFEST: Final = "hook.json"
HOOK_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
TOOL_EVENTS: Final = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
EVENTS: Final = ("SessionStart", "UserPromptSubmit", *TOOL_EVENTS, "Stop", "SessionEnd")
GATES: Final = frozenset({"UserPromptSubmit", "PreToolUse"})
"""Events whose hooks can stop what is about to happen; the others only tell."""

MAX_HOOK_FILES: Final = 256
MAX_HOOK_BYTES: Final = 16 * 1024 * 1024
DEFAULT_TIMEOUT_MS: Final = 5000
MAX_TIMEOUT_MS: Final = 30_000
_MAX_SUBSCRIPTIONS = 64
_MAX_ARGS = 256
_MAX_ARG_CHARS = 4096
_REQUIRED = ("protocol_version", "name", "events", "command")
_FIELDS = (*_REQUIRED, "args", "timeout_ms")
_EVENT_FIELDS = ("name", "match", "when")
_PROGRAM = re.compile(r"[A-Za-z0-9_+@%=:,.-]{1,128}")

HOOK_FOLDER: Final = FolderRules(
    what="hook",
    manifest=HOOK_MANIFEST,
    max_entries=4 * MAX_HOOK_FILES,
    max_files=MAX_HOOK_FILES,
    max_bytes=MAX_HOOK_BYTES,
    links=False,
)

Source = Literal["agent", "local"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """One entry of ``events``.

    Args:
        index: Position in ``events``, from 0.
        event: One of ``EVENTS``.
        match: Glob over policy identities; ``None`` is every tool. Tool events only.
        when: Condition on arguments or effects. Tool events only.
    """

    index: int
    event: str
    match: Matcher | None = None
    when: Predicate | None = None

    def reaches(self, identity: str) -> bool:
        """Return whether the glob lets a tool's calls through to the condition."""
        return self.match is None or self.match.match(identity)


@dataclass(frozen=True, slots=True)
class HookManifest:
    """A valid ``hook.json``.

    Args:
        command: A name on ``PATH``, or ``./`` and a file of the folder.
        args: As written; those that begin with ``./`` name something in the folder.
        timeout_ms: Wall time of one run.
    """

    name: str
    events: tuple[Subscription, ...]
    command: str
    args: tuple[str, ...] = ()
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class LoadedHook:
    """A valid hook folder.

    Args:
        identity: Selection ID, ``<source>/<name>``.
    """

    identity: str
    source: Source
    manifest: HookManifest
    snapshot: Snapshot


def parse_hook_manifest(
    data: bytes | str, *, folder_name: str | None = None, where: str = HOOK_MANIFEST
) -> HookManifest:
    """Parse and validate the bytes of a ``hook.json``.

    Args:
        data: At most 1 MiB.
        folder_name: What ``name`` must equal, when given.
        where: Name of the file for messages.

    Raises:
        ManifestError: ``manifest_invalid``, with every problem found.
    """
    try:
        value = parse(data, max_bytes=MAX_MANIFEST_BYTES, where=where)
    except JsonTextError as exc:
        raise ManifestError(
            "manifest_invalid", exc.message, where=where, hint=exc.hint, problems=exc.problems
        ) from exc
    document = Document(data if isinstance(data, str) else data.decode("utf-8"))
    root = document.root(value)
    manifest = _check(root, folder_name) if _check_version(root) else None
    if manifest is None or not document.ok:
        problems = document.problems()
        more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
        raise ManifestError(
            "manifest_invalid", f"{problems[0]}{more}", where=where, problems=problems
        )
    return manifest


def _check_version(root: Cursor) -> bool:
    """Refuse another contract version first: its other fields would only confuse."""
    if not isinstance(root.value, dict):
        root.wrong_type("an object")
        return False
    if "protocol_version" not in root.value:
        return True  # reported as missing, with the other fields
    cursor = root.child("protocol_version")
    version = cursor.value
    if isinstance(version, bool) or version != 2:
        form = f'"protocol_version": 2 ({HOOK_FORM})'
        cursor.fail(f"is {shown(version)}; the only form accepted is {form}")
        return False
    return True


def _check(root: Cursor, folder_name: str | None) -> HookManifest | None:
    fields = root.fields(_FIELDS, _REQUIRED)
    if fields is None:
        return None
    name = fields["name"].name(HOOK_NAME, "name") if "name" in fields else None
    if name is not None and folder_name is not None and name != folder_name:
        fields["name"].fail(f"is {name!r}, but the folder is named {shown(folder_name)}")
    events = _check_events(fields["events"]) if "events" in fields else ()
    command = _check_command(fields["command"]) if "command" in fields else None
    args: tuple[str, ...] = ()
    if "args" in fields:
        args = tuple(_check_args(fields["args"]))
    timeout: int | None = DEFAULT_TIMEOUT_MS
    if "timeout_ms" in fields:
        timeout = fields["timeout_ms"].integer(1, MAX_TIMEOUT_MS)
    if name is None or command is None or timeout is None or not root.document.ok:
        return None
    return HookManifest(name, events, command, args, timeout)


def _check_events(cursor: Cursor) -> tuple[Subscription, ...]:
    if cursor.value == []:
        cursor.fail("must not be empty: a hook without events never runs")
        return ()
    found = (_check_event(item, i) for i, item in enumerate(_items(cursor, _MAX_SUBSCRIPTIONS)))
    return tuple(event for event in found if event is not None)


def _items(cursor: Cursor, limit: int) -> list[Cursor]:
    return list(cursor.items(max_items=limit))


def _check_event(cursor: Cursor, index: int) -> Subscription | None:
    fields = cursor.fields(_EVENT_FIELDS, ("name",))
    name = fields["name"].choice(EVENTS, "event") if fields and "name" in fields else None
    if fields is None or name is None:
        return None
    if name not in TOOL_EVENTS:
        for key in ("match", "when"):
            if key in fields:
                fields[key].fail(f"is only for tool events; {name} is not about a tool")
        return Subscription(index, name)
    match = _check_match(fields["match"]) if "match" in fields else None
    when = _check_when(fields["when"]) if "when" in fields else None
    return Subscription(index, name, match, when)


def _check_match(cursor: Cursor) -> Matcher | None:
    pattern = cursor.string(min_chars=1, one_line=True)
    if pattern is None:
        return None
    try:
        return compile_glob(pattern)
    except PolicyError as exc:
        cursor.fail(exc.message)
        return None


def _check_when(cursor: Cursor) -> Predicate | None:
    try:
        return parse_predicate(cursor.value, where="when")
    except PolicyError as exc:
        cursor.fail(exc.message + (f"; {exc.hint}" if exc.hint else ""))
        return None


def _check_command(cursor: Cursor) -> str | None:
    command = cursor.string(min_chars=1, max_chars=_MAX_ARG_CHARS, one_line=True)
    if command is None:
        return None
    if command.startswith("./"):
        return command if _check_inside(cursor, command) else None
    if "/" in command or _PROGRAM.fullmatch(command) is None or command in (".", ".."):
        cursor.fail(
            f"is {shown(command)}; it must be the name of a program on PATH, "
            "or './' and a file of this folder"
        )
        return None
    return command


def _check_args(cursor: Cursor) -> list[str]:
    out = []
    for item in _items(cursor, _MAX_ARGS):
        text = item.string(max_chars=_MAX_ARG_CHARS)
        if text is None:
            continue
        if "\0" in text:
            item.fail("must not contain NUL")
        elif not text.startswith("./") or _check_inside(item, text):
            out.append(text)
    return out


def _check_inside(cursor: Cursor, path: str) -> bool:
    """Refuse ``..`` as a whole: with no links there is nothing it would be needed for."""
    if ".." in path.split("/"):
        cursor.fail(f"is {shown(path)}; './' paths stay in this folder, without '..'")
        return False
    return True


# ---------------------------------------------------------------- folders


def load_hook(root: Path, folder_name: str, *, source: Source) -> LoadedHook:
    """Read, validate and snapshot the hook ``folder_name`` of ``root``. Runs nothing.

    Args:
        root: One of the two hook roots.
        folder_name: Must equal the manifest's ``name``.
        source: Which root it is.

    Raises:
        ManifestError: Whatever is wrong, with all problems of the manifest at once.
    """
    folder = os.path.join(root, folder_name)
    fd = _open_folder(folder)
    try:
        snapshot = take_snapshot(fd, folder, rules=HOOK_FOLDER)
    finally:
        os.close(fd)
    if snapshot.find(HOOK_MANIFEST) is None:
        text = f"there is no file {HOOK_MANIFEST!r}"
        raise ManifestError("manifest_missing", text, where=folder)
    where = f"{folder}/{HOOK_MANIFEST}"
    data = snapshot.read(HOOK_MANIFEST)
    manifest = parse_hook_manifest(data, folder_name=folder_name, where=where)
    problems = _find_missing(manifest, snapshot)
    if problems:
        raise ManifestError("entry_missing", str(problems[0]), where=where, problems=problems)
    return LoadedHook(f"{source}/{folder_name}", source, manifest, snapshot)


def _open_folder(folder: str) -> int:
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ManifestError("hook_not_found", "there is no such hook", where=folder) from None
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.ENOTDIR):
            text = "must be a folder; links are not followed for hooks"
            raise ManifestError("hook_unreadable", text, where=folder) from None
        text = f"can not open the folder: {exc.strerror}"
        raise ManifestError("hook_unreadable", text, where=folder) from exc


def _find_missing(manifest: HookManifest, snapshot: Snapshot) -> tuple[Problem, ...]:
    """Return what ``./`` paths name that is not in the folder."""
    problems = []
    if manifest.command.startswith("./"):
        entry = snapshot.find(posixpath.normpath(manifest.command))
        if entry is None:
            text = f"there is no file {manifest.command!r} in the folder"
            problems.append(Problem("/command", text))
        elif not entry.executable:
            text = f"{manifest.command!r} is not executable; chmod +x it, or name its interpreter"
            problems.append(Problem("/command", text))
    for index, text in enumerate(manifest.args):
        path = posixpath.normpath(text)
        if text.startswith("./") and path != "." and path not in snapshot.entries:
            message = f"there is nothing named {text!r} in the folder"
            problems.append(Problem(f"/args/{index}", message))
    return tuple(problems)
