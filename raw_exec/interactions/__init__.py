"""Questions that tools ask people, and their answers."""

from __future__ import annotations

from .callback import CallbackAdapter
from .deciding import answer_bytes
from .errors import FAILURES, InteractionError
from .question import Acknowledgement, Adapter, Question, Reply
from .service import DEFAULT_TIMEOUT_MS, MAX_PENDING, MAX_TIMEOUT_MS, InteractionService
from .state import TRANSITIONS, InteractionEvent, InteractionState, next_state
from .terminal import TerminalAdapter, standard_terminal

__all__ = [
    "DEFAULT_TIMEOUT_MS",
    "FAILURES",
    "MAX_PENDING",
    "MAX_TIMEOUT_MS",
    "TRANSITIONS",
    "Acknowledgement",
    "Adapter",
    "CallbackAdapter",
    "InteractionError",
    "InteractionEvent",
    "InteractionService",
    "InteractionState",
    "Question",
    "Reply",
    "TerminalAdapter",
    "answer_bytes",
    "next_state",
    "standard_terminal",
]
