"""Sessions: the home of panels, questions, background processes and receipts."""

from __future__ import annotations

from .keeper import SessionKeeper, open_keeper
from .opening import open_session
from .session import Session

__all__ = ["Session", "SessionKeeper", "open_keeper", "open_session"]
