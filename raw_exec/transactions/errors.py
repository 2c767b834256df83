"""Why the changes of a call were not committed. But for the last one, nothing was changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import RawExecError
from ..text import escape_text

__all__ = ["CommitConflict", "CommitInterrupted", "CommitRefused", "show_path"]

_MAX_SHOWN = 10


def show_path(path: bytes) -> str:
    """Return a path to show: bytes that are no UTF-8 and control characters are escaped."""
    return escape_text(path.decode("utf-8", "backslashreplace"), keep_newlines=False) or "."


class _NotCommitted(RawExecError):
    """Base of both: each path with its reason.

    Args:
        problems: Path and reason, at least one; a path is relative to its root.
        root: The tree that they are in.
        hint: What would make it work.
    """

    code_text: str
    lead: str

    def __init__(
        self, problems: Sequence[tuple[bytes, str]], *, root: str, hint: str | None = None
    ) -> None:
        shown = [f"{show_path(path)}: {reason}" for path, reason in problems[:_MAX_SHOWN]]
        more = len(problems) - len(shown)
        text = "; ".join(shown) + (f"; and {more} more" if more else "")
        super().__init__(self.code_text, f"{self.lead}: {text}", where=root, hint=hint)
        self.root = root
        self.problems = tuple(problems)

    @property
    def paths(self) -> tuple[bytes, ...]:
        """The paths concerned, relative to ``root``."""
        return tuple(path for path, _reason in self.problems)

    @property
    def reason(self) -> str:
        """Why, for the first path."""
        return self.problems[0][1]

    def as_detail(self) -> dict[str, Any]:
        """Return JSON-compatible facts, for an outcome's ``detail``; as many as are shown."""
        listed = [
            {"path": show_path(path), "reason": reason}
            for path, reason in self.problems[:_MAX_SHOWN]
        ]
        return {"root": self.root, "problems": listed, "problem_count": len(self.problems)}


class CommitConflict(_NotCommitted):
    """What lay below when the call started is not there any more; code ``commit_conflict``."""

    code_text = "commit_conflict"
    lead = "not committed, since the files were changed while the call ran"


class CommitRefused(_NotCommitted):
    """A change must not or can not be committed; code ``commit_refused``."""

    code_text = "commit_refused"
    lead = "the changes can't be committed"


class CommitInterrupted(CommitRefused):
    """A commit failed on its way, and could not be taken back; code ``commit_interrupted``.

    Some of the tree is new and some old until the next commit or ``recover``, which finishes or
    undoes it.
    """

    code_text = "commit_interrupted"
    lead = "the commit stopped on its way, and is finished or undone later"
