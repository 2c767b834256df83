"""Run tools that somebody else wrote, for a language model, without trusting them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .approval import Answer, ApprovalRequest
    from .config import Config, load_config
    from .dispatch import ToolResult
    from .errors import (
        ConfigError,
        ManifestError,
        PolicyError,
        Problem,
        RawExecError,
        SandboxError,
        WorkerError,
    )
    from .runtime import Runtime, open_runtime

__all__ = [
    "Answer",
    "ApprovalRequest",
    "Config",
    "ConfigError",
    "ManifestError",
    "PolicyError",
    "Problem",
    "RawExecError",
    "Runtime",
    "SandboxError",
    "ToolResult",
    "WorkerError",
    "__version__",
    "load_config",
    "open_runtime",
]

__version__ = "0.1.0"

# Imported on first use, so that `raw --help` need not load the whole runtime.
_HOMES = {
    "Answer": "approval",
    "ApprovalRequest": "approval",
    "Config": "config",
    "ConfigError": "errors",
    "ManifestError": "errors",
    "PolicyError": "errors",
    "Problem": "errors",
    "RawExecError": "errors",
    "Runtime": "runtime",
    "SandboxError": "errors",
    "ToolResult": "dispatch",
    "WorkerError": "errors",
    "load_config": "config",
    "open_runtime": "runtime",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
