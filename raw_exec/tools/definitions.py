"""What the model is told about tools, and the digest that says when it changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from ..manifest import ToolManifest

__all__ = ["cache_key", "definition"]


def definition(name: str, manifest: ToolManifest) -> dict[str, Any]:
    """Return the model-visible definition of one tool. The schema in it is frozen."""
    return {
        "name": name,
        "description": manifest.description,
        "input_schema": manifest.input_schema,
    }


def cache_key(tools: Iterable[tuple[str, str, str, bool]]) -> str:
    """Return ``sha256:…`` over ordered definitions and the content of selected tools.

    Invariant: a tool's digest covers its manifest, so digest, name, order and visibility say
    everything about the definitions; they need not be encoded again.

    Args:
        tools: Identity, name, snapshot digest and visibility of every selected tool, in order.
    """
    state = hashlib.sha256(b"raw_exec cache key 1\0")
    for identity, name, digest, visible in tools:
        state.update(f"{identity} {name} {digest} {visible:d}\n".encode())
    return "sha256:" + state.hexdigest()
