"""Match whole policy identities with ``*`` and ``?``.

``*`` is any number of any characters, ``/`` and none included; ``?`` is exactly one
character; everything else is itself. There is no way to escape the two, since no
identity contains them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..errors import PolicyError

__all__ = ["MAX_GLOB_BYTES", "Matcher", "compile_glob"]

MAX_GLOB_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Matcher:
    """A compiled glob.

    Args:
        pattern: As written.
        parts: The literal (and ``?``) runs between the ``*``.
    """

    pattern: str
    parts: tuple[str, ...]

    def match(self, identity: str) -> bool:
        """Return whether the glob matches the whole identity.

        Each run is taken at the leftmost place that fits, which never has to be undone.
        Without ``?`` that is linear; with it, at most run length times identity length.
        """
        first, *rest = self.parts
        if not rest:
            return len(first) == len(identity) and _fits(first, identity, 0)
        last = rest.pop()
        end = len(identity) - len(last)
        if end < len(first) or not _fits(first, identity, 0) or not _fits(last, identity, end):
            return False
        at = len(first)
        for run in rest:
            found = _find(run, identity, at, end)
            if found < 0:
                return False
            at = found + len(run)
        return True


def _fits(run: str, text: str, at: int) -> bool:
    if "?" not in run:
        return text.startswith(run, at)
    return all(char in ("?", other) for char, other in zip(run, text[at:], strict=False))


def _find(run: str, text: str, start: int, end: int) -> int:
    if "?" not in run:
        return text.find(run, start, end)
    for at in range(start, end - len(run) + 1):
        if _fits(run, text[at : at + len(run)], 0):
            return at
    return -1


def compile_glob(pattern: str) -> Matcher:
    """Compile a glob.

    Args:
        pattern: 1 to ``MAX_GLOB_BYTES`` bytes of UTF-8.

    Raises:
        PolicyError: ``glob_invalid``.
    """
    if not pattern:
        raise PolicyError("glob_invalid", "a glob must not be empty", hint="'*' matches every tool")
    try:
        size = len(pattern.encode())
    except UnicodeEncodeError as exc:
        raise PolicyError("glob_invalid", "a glob has a lone surrogate") from exc
    if size > MAX_GLOB_BYTES:
        raise PolicyError(
            "glob_invalid", f"a glob is {size} bytes long; the limit is {MAX_GLOB_BYTES}"
        )
    return Matcher(pattern, tuple(pattern.split("*")))
