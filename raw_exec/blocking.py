"""The runtime for plain programs.

with raw_exec.blocking.open_runtime(config, cwd=".") as runtime:
    result = runtime.registry.dispatch("word_count", {"text": "one two"})
"""

from __future__ import annotations

from .adapters.blocking_runtime import Runtime, RuntimeTools, Session, open_runtime
from .adapters.thread import RuntimeClosed

__all__ = ["Runtime", "RuntimeClosed", "RuntimeTools", "Session", "open_runtime"]
