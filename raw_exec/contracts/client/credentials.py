"""Keys that logins returned, per registry, in one private file.

Security: the file is made with mode 0600 in a directory of mode 0700, and one that others can
read is refused. A key is looked up by the exact address that it was given for.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ...errors import ConfigError
from ...jsontext import JsonTextError, parse, read_regular_file
from .transport import check_url

__all__ = ["Credential", "Credentials"]

_MAX_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class Credential:
    """What a login returned."""

    token: str = field(repr=False)
    user_id: str = ""
    key_id: str = ""


class Credentials:
    """The file of keys.

    Args:
        path: It need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> dict[str, Credential]:
        """Return all keys by registry.

        Raises:
            ConfigError: ``credentials_not_private`` or ``credentials_invalid``.
        """
        where = str(self.path)
        try:
            info = os.stat(self.path)
            data = read_regular_file(self.path, _MAX_BYTES)
        except FileNotFoundError:
            return {}
        except (OSError, JsonTextError) as exc:
            raise ConfigError(
                "credentials_invalid", "can not be read", where=where, hint="check the file"
            ) from exc
        if info.st_uid != os.geteuid() or stat.S_IMODE(info.st_mode) & 0o077:
            raise ConfigError(
                "credentials_not_private",
                f"has mode {stat.S_IMODE(info.st_mode):04o}; others may read it",
                where=where,
                hint=f"chmod 600 {where}, and log in again if others did read it",
            )
        try:
            return _check(parse(data, max_bytes=_MAX_BYTES, where=where))
        except (JsonTextError, KeyError, TypeError, ValueError, AttributeError) as exc:
            raise ConfigError(
                "credentials_invalid",
                "is not a file of keys",
                where=where,
                hint="remove it and log in again",
            ) from exc

    def find(self, url: str) -> Credential | None:
        """Return the key for a registry."""
        return self.load().get(check_url(url))

    def default(self) -> str | None:
        """Return the only registry that there is a login for."""
        known = list(self.load())
        return known[0] if len(known) == 1 else None

    def add(self, url: str, credential: Credential) -> None:
        """Keep a key, instead of an earlier one for the same registry."""
        self._save(self.load() | {check_url(url): credential})

    def remove(self, url: str) -> None:
        """Forget a key."""
        kept = self.load()
        kept.pop(check_url(url), None)
        self._save(kept)

    def _save(self, keys: dict[str, Credential]) -> None:
        value = {
            "registries": {
                url: {"token": one.token, "user_id": one.user_id, "key_id": one.key_id}
                for url, one in sorted(keys.items())
            }
        }
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Security: mkstemp makes the file with mode 0600, and it replaces in one step.
            fd, new = tempfile.mkstemp(prefix=".credentials-", dir=self.path.parent)
            try:
                with os.fdopen(fd, "w", encoding="utf-8") as file:
                    file.write(json.dumps(value, indent=2) + "\n")
                os.replace(new, self.path)
            except BaseException:
                os.unlink(new)
                raise
        except OSError as exc:
            raise ConfigError(
                "credentials_unwritable",
                f"can not be written: {exc.strerror}",
                where=str(self.path),
                hint="check the directory's permissions",
            ) from exc


def _check(value: Any) -> dict[str, Credential]:
    out: dict[str, Credential] = {}
    for url, one in value["registries"].items():
        token, user_id, key_id = one["token"], one["user_id"], one["key_id"]
        if not all(isinstance(text, str) for text in (token, user_id, key_id)):
            raise TypeError(url)
        out[url] = Credential(token, user_id, key_id)
    return out
