"""Who may use the service: a private file of keys, and one key that is made up at start.

Security: the file holds digests. A key is 256 random bits, so a plain SHA-256 of it is as
good as a slow one. A file that others can read or change is refused, and one that becomes
unusable while the service runs lets nobody in.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...errors import ConfigError, first_problem
from ...fields import Cursor, Document
from ...jsontext import JsonTextError, parse
from ...serving import identify, token_digest

__all__ = ["PRINCIPAL", "Key", "KeyFile", "KeyRing", "new_token"]

PRINCIPAL: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_KEY_ID: Final = re.compile(r"[0-9a-f]{12}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_CREATED: Final = re.compile(r"[0-9T:.+Z-]{1,40}")
_MAX_BYTES: Final = 1024 * 1024
_MAX_KEYS: Final = 1000

_log = logging.getLogger(__name__)


def new_token() -> str:
    """Return a key that nobody can guess, and that is recognised where it leaks."""
    return f"rxs_{secrets.token_urlsafe(32)}"


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Args:
        id: Tells it from the others of its principal; not secret.
        principal: On whose behalf its calls are.
        sha256: Digest of the token.
        created: When, ISO 8601.
        cwd: Directory that its calls may work in; ``None``: the service's.
    """

    id: str
    principal: str
    sha256: str
    created: str
    cwd: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as the file has it."""
        out = {
            "id": self.id,
            "principal": self.principal,
            "sha256": self.sha256,
            "created": self.created,
        }
        return out if self.cwd is None else {**out, "cwd": self.cwd}


class KeyFile:
    """The file of keys.

    Args:
        path: It need not exist for ``add``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))

    def load(self) -> tuple[Key, ...]:
        """Return the keys in the order of the file.

        Raises:
            ConfigError: ``keys_unreadable``, ``keys_not_private`` or ``keys_invalid``.
        """
        where = str(self.path)
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(fd, "rb") as file:
                status = os.fstat(fd)
                _check_private(status, where)
                data = file.read(_MAX_BYTES + 1)
        except OSError as exc:
            raise ConfigError(
                "keys_unreadable",
                f"can not be read: {exc.strerror}",
                where=where,
                hint="make one with: raw serve key new NAME --keys FILE",
            ) from exc
        try:
            value = parse(data, max_bytes=_MAX_BYTES, where=where)
        except JsonTextError as exc:
            raise ConfigError(
                "keys_invalid", exc.message, where=where, problems=exc.problems
            ) from None
        document = Document(data.decode("utf-8"))
        keys = _read(document.root(value))
        problems = document.problems()
        if problems:
            raise ConfigError(
                "keys_invalid", first_problem(problems), where=where, problems=problems
            )
        return keys

    def add(self, principal: str, *, cwd: str | None = None) -> tuple[Key, str]:
        """Make a key; its token is not kept anywhere.

        Returns:
            The key and its token.

        Raises:
            ConfigError: The name, the directory or the file can't be used.
        """
        if PRINCIPAL.fullmatch(principal) is None:
            raise ConfigError(
                "principal_invalid",
                f"{principal!r:.80} is no name for the holder of a key",
                hint=f"names match {PRINCIPAL.pattern}",
            )
        if cwd is not None:
            cwd = os.path.realpath(cwd)
            if not os.path.isdir(cwd):
                raise ConfigError("cwd_invalid", f"working directory {cwd!r} is not a directory")
        known = self.load() if self.path.exists() else ()
        if len(known) >= _MAX_KEYS:
            raise ConfigError("keys_invalid", f"has {_MAX_KEYS} keys; remove some first")
        token = new_token()
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        key = Key(secrets.token_hex(6), principal, token_digest(token), now, cwd)
        self._save((*known, key))
        return key, token

    def remove(self, name: str) -> tuple[Key, ...]:
        """Remove the key with this ID, or all keys of this principal; return them.

        Raises:
            ConfigError: ``key_unknown``: there is none.
        """
        known = self.load()
        found = tuple(key for key in known if key.id == name) or tuple(
            key for key in known if key.principal == name
        )
        if not found:
            raise ConfigError(
                "key_unknown",
                f"no key has the ID or the holder {name!r:.80}",
                where=str(self.path),
                hint="list them with: raw serve key list --keys FILE",
            )
        self._save(tuple(key for key in known if key not in found))
        return found

    def _save(self, keys: tuple[Key, ...]) -> None:
        text = json.dumps({"keys": [key.as_dict() for key in keys]}, indent=2) + "\n"
        try:
            # Security: mkstemp makes the file with mode 0600, and it replaces in one step.
            fd, new = tempfile.mkstemp(prefix=".keys-", dir=self.path.parent)
            try:
                with os.fdopen(fd, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(fd)
                os.replace(new, self.path)
            except BaseException:
                os.unlink(new)
                raise
        except OSError as exc:
            raise ConfigError(
                "keys_unwritable", f"can not be written: {exc.strerror}", where=str(self.path)
            ) from exc


def _check_private(status: os.stat_result, where: str) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError("keys_not_private", "is not a regular file", where=where)
    if status.st_uid != os.geteuid():
        raise ConfigError("keys_not_private", "belongs to another user", where=where)
    if mode & 0o077:
        raise ConfigError(
            "keys_not_private",
            f"has mode {mode:04o}; others may read or change it",
            where=where,
            hint=f"chmod 600 {where}",
        )


def _read(root: Cursor) -> tuple[Key, ...]:
    fields = root.fields(("keys",), required=("keys",))
    if fields is None or "keys" not in fields:
        return ()
    out: list[Key] = []
    for item in fields["keys"].items(max_items=_MAX_KEYS):
        known = ("id", "principal", "sha256", "created", "cwd")
        entry = item.fields(known, required=known[:4])
        if entry is None or any(name not in entry for name in known[:4]):
            continue
        key_id = entry["id"].name(_KEY_ID, "key ID")
        principal = entry["principal"].name(PRINCIPAL, "holder")
        digest = entry["sha256"].name(_DIGEST, "digest")
        created = entry["created"].name(_CREATED, "time")
        cwd = entry["cwd"].string(min_chars=1, one_line=True) if "cwd" in entry else None
        if cwd is not None and not os.path.isabs(cwd):
            entry["cwd"].fail("must be an absolute path")
        if key_id is None or principal is None or digest is None or created is None:
            continue
        for other in out:
            if other.id == key_id or other.sha256 == digest:
                item.fail("repeats a key that is listed before")
            elif other.principal == principal and other.cwd != cwd:
                item.fail(f"keys of {principal!r} have different working directories")
        out.append(Key(key_id, principal, digest, created, cwd))
    return tuple(out)


class KeyRing:
    """The keys of a running service; a changed file counts from the next request on.

    Args:
        file: Where they are.

    Raises:
        ConfigError: The file can't be used, or is empty.
    """

    def __init__(self, file: KeyFile) -> None:
        self._file = file
        self._seen = self._stamp()
        self.problem: str | None = None
        self._directories: dict[str, str | None] = {}
        self._take(file.load())
        if not self._digests:
            raise ConfigError(
                "keys_invalid",
                "has no keys, so nobody could use the service",
                where=str(file.path),
                hint="make one with: raw serve key new NAME --keys FILE",
            )

    def _take(self, keys: tuple[Key, ...]) -> None:
        self._principals = {key.id: key.principal for key in keys}
        self._digests: Mapping[str, str] = {key.id: key.sha256 for key in keys}
        # Security: a holder whose keys are gone may have calls that go on; without its own
        # directory they would work in the service's.
        self._directories |= {key.principal: key.cwd for key in keys}

    def _stamp(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(self._file.path)
        except OSError:
            return None
        return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode, status.st_uid)

    def refresh(self) -> None:
        """Read the file again when it has changed; while it can't be used, nobody is let in."""
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            keys = self._file.load()
            self.problem = None
        except ConfigError as exc:
            keys = ()
            self.problem = f"keys can not be used: {exc}"
            _log.error("%s", self.problem)
        self._take(keys)

    def whose(self, token: str) -> str | None:
        """Return the principal of a token, or ``None``."""
        self.refresh()
        key_id = identify(token, self._digests)
        return None if key_id is None else self._principals[key_id]

    def directory_of(self, principal: str) -> str | None:
        """Return the directory that a principal's calls may work in, if it has one of its own.

        It outlives the principal's keys, as calls under way do.
        """
        return self._directories.get(principal)
