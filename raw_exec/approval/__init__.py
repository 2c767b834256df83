"""Asking a person, or a program on their behalf, before a call runs."""

from .request import (
    AbortSignal,
    Answer,
    ApprovalRequest,
    Approver,
    NobodyToAsk,
    normalise_answer,
)
from .terminal import TerminalApprover, render_request

__all__ = [
    "AbortSignal",
    "Answer",
    "ApprovalRequest",
    "Approver",
    "NobodyToAsk",
    "TerminalApprover",
    "normalise_answer",
    "render_request",
]
