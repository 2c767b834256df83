"""Asking a person, or a program on their behalf, before a call runs."""

from .request import AbortSignal, Answer, ApprovalRequest, Approver, normalise_answer
from .terminal import TerminalApprover, render_request

__all__ = [
    "AbortSignal",
    "Answer",
    "ApprovalRequest",
    "Approver",
    "TerminalApprover",
    "normalise_answer",
    "render_request",
]
