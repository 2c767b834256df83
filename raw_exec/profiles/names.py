"""Names that a provider accepts, and the way back.

A name that is fine stays as it is. Any other gets its forbidden characters replaced, is cut,
and ends in a part of its digest, so that it depends on nothing but itself; should that ever
be the name of another tool, it gets a longer part. So ``a.b`` and ``a_b`` never meet.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["NameRule", "wire_names"]

_DIGEST_CHARACTERS: Final = 8


@dataclass(frozen=True, slots=True)
class NameRule:
    """What a provider accepts as a name.

    Args:
        first: Characters that may come first, as in a pattern's brackets.
        other: Characters that may follow.
        limit: Most characters.
    """

    first: str
    other: str
    limit: int

    def accepts(self, name: str) -> bool:
        """Say whether a name can be sent as it is."""
        pattern = rf"[{self.first}][{self.other}]{{0,{self.limit - 1}}}"
        return re.fullmatch(pattern, name) is not None

    def replace(self, name: str, digest_characters: int) -> str:
        """Return a name that can be sent, for one that can't."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        plain = re.sub(f"[^{self.other}]", "_", name)
        if re.match(f"[{self.first}]", plain) is None:
            plain = f"t_{plain}"
        room = self.limit - digest_characters - 1
        return f"{plain[:room]}_{digest[:digest_characters]}"


def wire_names(names: Iterable[str], rule: NameRule) -> dict[str, str]:
    """Return the name to send for each name; no two are the same.

    Args:
        names: Names as this package uses them, each once.
        rule: The provider's.
    """
    wanted = list(dict.fromkeys(names))
    found = {name: name for name in wanted if rule.accepts(name)}
    taken = set(found)
    # In an order of their own, so that the order of selection changes no name.
    for name in sorted(set(wanted) - taken):
        for characters in range(_DIGEST_CHARACTERS, rule.limit - 2):
            wire = rule.replace(name, characters)
            if wire not in taken:
                break
        else:
            raise AssertionError("two digests are the same")
        found[name] = wire
        taken.add(wire)
    return {name: found[name] for name in wanted}
