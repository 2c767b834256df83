"""Hooks: executables of the operator that are told of events and can veto some.

Contract: ``raw.hook/2``. A hook never loosens policy and never changes arguments.
"""

from __future__ import annotations

from .binding import BoundHook, HookSet, load_hooks
from .describe import describe_hook
from .payload import event_payload, tool_payload
from .plan import hook_plan
from .receipt import FAILURE_CODES, HookReceipt
from .roots import HookRoots, discover_hooks, hook_roots
from .service import HookIds, HookService, SessionDecision, ToolCall

__all__ = [
    "FAILURE_CODES",
    "BoundHook",
    "HookIds",
    "HookReceipt",
    "HookRoots",
    "HookService",
    "HookSet",
    "SessionDecision",
    "ToolCall",
    "describe_hook",
    "discover_hooks",
    "event_payload",
    "hook_plan",
    "hook_roots",
    "load_hooks",
    "tool_payload",
]
