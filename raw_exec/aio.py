"""The runtime for asyncio programs.

async with raw_exec.aio.open_runtime(config, cwd=".") as runtime:
    result = await runtime.registry.dispatch("word_count", {"text": "one two"})
"""

from __future__ import annotations

from .adapters.asyncio_runtime import Runtime, RuntimeTools, Session, open_runtime
from .adapters.thread import RuntimeClosed

__all__ = ["Runtime", "RuntimeClosed", "RuntimeTools", "Session", "open_runtime"]
