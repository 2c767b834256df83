"""A static description of a hook, for people and programs. Runs nothing."""

from __future__ import annotations

from typing import Any

from ..config import Config
from ..manifest import Subscription
from ..manifest.hook import GATES
from .binding import BoundHook
from .plan import DEFAULT_PROFILE, hook_profile

__all__ = ["describe_hook", "describe_subscription"]


def describe_hook(config: Config, hook: BoundHook) -> dict[str, Any]:
    """Describe a hook as JSON data."""
    manifest = hook.manifest
    return {
        "hook": hook.identity,
        "events": [describe_subscription(entry) for entry in manifest.events],
        "command": manifest.command,
        "args": list(manifest.args),
        "timeout_ms": manifest.timeout_ms,
        "profile": hook_profile(config, hook.identity) or DEFAULT_PROFILE,
        "folder": str(hook.snapshot.source),
        "digest": hook.snapshot.digest,
    }


def describe_subscription(entry: Subscription) -> dict[str, Any]:
    """Describe one entry of ``events``, with what it was written as."""
    when = entry.when
    return {
        "index": entry.index,
        "event": entry.event,
        "gate": entry.event in GATES,
        "match": None if entry.match is None else entry.match.pattern,
        "when": None
        if when is None
        else {"source": when.source, "any": when.any, "regex": when.regex},
    }
