"""The one error of set-up: which step failed, with the kernel's reason.

The supervisor must never mistake a sandbox that could not be built for a fault
of the plugin, so nothing else may leave ``child.py``.
"""

from __future__ import annotations

import errno as errno_names
import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["StepFailed", "step"]


class StepFailed(Exception):
    """A set-up step did not take effect.

    Args:
        step: Short stable name, for example ``"landlock"`` or ``"mounts"``.
        code: The kernel's error number, 0 when the step was refused by us.
        message: What was tried and what came back, for a person.
    """

    def __init__(self, step: str, code: int, message: str) -> None:
        super().__init__(step, code, message)
        self.step = step
        self.code = code
        self.message = message

    def as_dict(self) -> dict[str, object]:
        """Return the failure as the launcher protocol spells it."""
        return {"step": self.step, "errno": self.code, "message": self.message}


@contextmanager
def step(name: str) -> Iterator[None]:
    """Turn an ``OSError`` inside the block into ``StepFailed(name)``."""
    try:
        yield
    except OSError as exc:
        code = exc.errno or 0
        label = errno_names.errorcode.get(code, str(code))
        what = f" on {exc.filename!r}" if exc.filename else ""
        text = f"{label}: {os.strerror(code)}{what}" if code else str(exc)
        raise StepFailed(name, code, text) from exc
