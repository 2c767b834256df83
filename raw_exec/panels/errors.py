"""What is wrong with a panel."""

from __future__ import annotations

from ..errors import RawExecError

__all__ = ["PanelError"]


class PanelError(RawExecError):
    """A panel document or update is refused.

    Args:
        code: One of the contract's panel codes, for example ``"panel_invalid"``.
        pointer: JSON Pointer of the offending value; ``""`` is the whole document or update.
    """

    def __init__(self, code: str, message: str, pointer: str = "") -> None:
        super().__init__(code, message)
        self.pointer = pointer

    def __str__(self) -> str:
        return f"{self.pointer}: {self.message}" if self.pointer else self.message
