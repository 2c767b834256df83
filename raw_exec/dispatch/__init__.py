"""One call, from the model's words to one truthful outcome."""

from .call import Call, Services
from .outcome import CODES, ToolResult, exit_status
from .pipeline import STAGES, dispatch_call, judge_call

__all__ = [
    "CODES",
    "STAGES",
    "Call",
    "Services",
    "ToolResult",
    "dispatch_call",
    "exit_status",
    "judge_call",
]
