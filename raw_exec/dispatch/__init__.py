"""One call, from the model's words to one truthful outcome."""

from .call import Call, Services
from .outcome import ToolResult, exit_status
from .pipeline import STAGES, dispatch_call

__all__ = ["STAGES", "Call", "Services", "ToolResult", "dispatch_call", "exit_status"]
