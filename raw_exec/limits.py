"""Numbers that bound everything, with units in their names.

``Limits`` is what a configuration may change. The module constants are fixed:
they protect the supervisor itself and are part of the documented contract.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "MAX_ARGUMENT_BYTES",
    "MAX_ARGUMENT_NODES",
    "MAX_JSON_DEPTH",
    "MAX_JSON_NODES",
    "MAX_MANIFEST_BYTES",
    "MAX_OUTPUT_BYTES",
    "MAX_PATTERN_BYTES",
    "MAX_SAFE_INTEGER",
    "MAX_SNAPSHOT_BYTES",
    "MAX_SNAPSHOT_FILES",
    "MAX_TOOLS",
    "Limits",
]

MAX_MANIFEST_BYTES = 1024 * 1024
"""A manifest with a 16-operation ``write_file`` schema is about 10 KiB."""

MAX_JSON_DEPTH = 64
"""Nesting of any document or value we accept; CPython's own limit is near 1,000."""

MAX_JSON_NODES = 100_000
"""Values (containers and scalars) in one manifest or configuration file."""

MAX_PATTERN_BYTES = 4096
"""One RE2 pattern, in UTF-8."""

MAX_ARGUMENT_BYTES = 32 * 1024 * 1024
"""Encoded arguments of one call."""

MAX_ARGUMENT_NODES = 100_000
"""Values and keys in the arguments of one call; schema checks cost up to a few µs each."""

MAX_OUTPUT_BYTES = 16 * 1024 * 1024
"""The largest budget of text and JSON that a call may be given; the default is far less."""

MAX_SAFE_INTEGER = 2**53 - 1
"""Integers beyond this are not the same number in every language (RFC 7493)."""

MAX_SNAPSHOT_FILES = 50_000
"""Files in one tool folder, its ``node_modules`` included."""

MAX_SNAPSHOT_BYTES = 512 * 1024 * 1024
"""Bytes in one tool folder, its ``node_modules`` included."""

MAX_TOOLS = 20_000
"""Selected tools of one agent."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one call, as configured under ``limits``.

    Args:
        call_ms: Wall time of the handler, milliseconds.
        load_ms: Wall time of importing the plugin, milliseconds.
        grace_ms: Between the abort signal and the kill, milliseconds.
        descriptor_ms: Wall time of ``validateArgs`` and of ``describeEffects``, each.
        memory_bytes: Private memory of a worker.
        result_bytes: One result, encoded; an image of 16 MiB is 22 MiB of base64.
        log_bytes: What is kept of a worker's stdout and of its stderr, per call.
        scratch_bytes: Files in the worker's private directory.
        idle_ms: How long an unused worker is kept.
        max_calls: Calls before a worker is retired.
        max_workers: Worker processes of one runtime at any time.
        growth_bytes: Resident growth since its first call that retires a worker.
    """

    call_ms: int = 120_000
    load_ms: int = 10_000
    grace_ms: int = 500
    descriptor_ms: int = 100
    memory_bytes: int = 512 * 1024 * 1024
    result_bytes: int = 24 * 1024 * 1024
    log_bytes: int = 64 * 1024
    scratch_bytes: int = 256 * 1024 * 1024
    idle_ms: int = 60_000
    max_calls: int = 1_000_000
    max_workers: int = 16
    growth_bytes: int = 256 * 1024 * 1024
