"""``raw-contracts.lock.json`` and the cache: what exactly was installed.

The lock is committed: concrete versions with the digest of their content. The cache holds
the content; a file of it counts only when its digest is the lock's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...errors import ConfigError
from ...jsontext import JsonTextError, parse
from ..errors import Invalid
from ..names import Ref, parse_ref
from ..versions import check_version
from .content import Content, read_content
from .file import Entry
from .files import inside, read_project_file, write_project_file

__all__ = ["LOCK_NAME", "Locked", "cache_path", "load_cached", "load_lock", "save_lock", "store"]

LOCK_NAME: Final = "raw-contracts.lock.json"
CACHE_FOLDER: Final = ".raw/contracts"
_MAX_BYTES: Final = 4 * 1024 * 1024
_INTEGRITY: Final = re.compile(r"sha256-[0-9a-f]{64}")
_FIELDS: Final = ("constraint", "integrity", "prompt", "version")


@dataclass(frozen=True, slots=True)
class Locked:
    """One prompt of the lock.

    Args:
        constraint: What was asked for when it was resolved.
        integrity: Digest of the content, ``sha256-<hex>``.
    """

    ref: Ref
    constraint: str
    version: str
    integrity: str

    def fits(self, entry: Entry) -> bool:
        """Return whether it is what the project's file asks for now."""
        return (self.ref, self.constraint) == (entry.ref, entry.constraint)


def load_lock(root: Path) -> dict[str, Locked]:
    """Return the lock by the project's names; empty when there is none.

    Raises:
        ConfigError: ``lock_invalid`` or ``project_unreadable``.
    """
    path = root / LOCK_NAME
    data = read_project_file(path)
    if data is None:
        return {}
    try:
        value: Any = parse(data, max_bytes=_MAX_BYTES, where=str(path))
        if value["lock_version"] != 1:
            raise ConfigError(
                "lock_invalid",
                f"has version {value['lock_version']!r:.20}",
                where=str(path),
                hint="it is of another version of this program; update that, or remove the file",
            )
        return {key: _locked(key, one) for key, one in value["prompts"].items()}
    except (JsonTextError, Invalid, KeyError, TypeError, AttributeError) as exc:
        raise ConfigError(
            "lock_invalid",
            "is not a lock",
            where=str(path),
            hint="restore it, or remove it and run `raw install`",
        ) from exc


def _locked(key: str, one: Any) -> Locked:
    parse_ref(key, kind="prompt", version="forbidden")
    values = [one[name] for name in _FIELDS]
    if not all(isinstance(value, str) for value in values) or len(one) != len(_FIELDS):
        raise TypeError(key)
    constraint, integrity, prompt, version = values
    if not _INTEGRITY.fullmatch(integrity):
        raise TypeError(key)
    ref = parse_ref(prompt, kind="prompt", version="forbidden")
    return Locked(ref, constraint, check_version(version), integrity)


def save_lock(root: Path, locked: Mapping[str, Locked]) -> None:
    """Write the lock: sorted, without times, so that equal locks are equal files."""
    prompts = {
        key: {
            "prompt": str(one.ref),
            "constraint": one.constraint,
            "version": one.version,
            "integrity": one.integrity,
        }
        for key, one in sorted(locked.items())
    }
    text = json.dumps({"lock_version": 1, "prompts": prompts}, indent=2, ensure_ascii=False)
    write_project_file(root / LOCK_NAME, text + "\n")


def cache_path(root: Path, ref: Ref, version: str) -> Path:
    """Return where a version's content is kept; all parts of the name were checked."""
    return inside(root, f"{CACHE_FOLDER}/@{ref.workspace}/{ref.name}@{version}.json")


def load_cached(root: Path, locked: Locked) -> Content | None:
    """Return the content that the lock names, or ``None`` when it is missing or tampered with."""
    path = cache_path(root, locked.ref, locked.version)
    data = read_project_file(path)
    content = None if data is None else read_content(data, str(path))
    if content is None or content.integrity != locked.integrity:
        return None
    if (content.ref, content.version) != (locked.ref, locked.version):
        return None
    return content


def store(root: Path, content: Content) -> None:
    """Put content into the cache."""
    folder = inside(root, CACHE_FOLDER)
    ignore = folder.parent / ".gitignore"
    if not ignore.exists():
        write_project_file(ignore, "*\n")
    write_project_file(cache_path(root, content.ref, content.version), content.text)
