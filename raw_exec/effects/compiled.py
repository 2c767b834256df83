"""The compiled engine, kept on disk: 1.2 s to compile, a few milliseconds to read.

Security: loading a compiled module runs the native code in it. So the file must be a
regular file of the effective user that nobody else may write or read, in a folder that
nobody else may write; it is read through one descriptor that was checked, never by path
a second time; and its digest must fit. Anything else is ignored and compiled again.
What this does not cover: another process of the same user, which could as well change
this package.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from .guest import NATIVE_STACK_BYTES, Guest
from .guestfile import open_guest, read_guest_wasm

if TYPE_CHECKING:
    import wasmtime

__all__ = ["default_cache_dir", "load_guest"]

_MAX_FILE_BYTES = 64 * 1024 * 1024
_DIGEST_BYTES = 32
_FORMAT = b"5"  # changes with what open_guest does


def default_cache_dir() -> Path:
    """Return ``$XDG_CACHE_HOME/raw/engine``, or the same below ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path("~/.cache").expanduser()
    return root / "raw" / "engine"


def load_guest(cache_dir: Path) -> Guest:
    """Return the guest, from ``cache_dir`` when it holds a good file, else compiled.

    A cache that cannot be read or written costs time and is no error.
    """
    import wasmtime

    config = wasmtime.Config()
    config.epoch_interruption = True
    config.max_wasm_stack = NATIVE_STACK_BYTES
    engine = wasmtime.Engine(config)
    wasm = read_guest_wasm()
    path = cache_dir / f"{_key(wasm)}.cwasm"
    module = _read(engine, path)
    if module is None:
        module = wasmtime.Module(engine, open_guest(wasm))
        _write(path, bytes(module.serialize()))
    return Guest(engine, module)


def _key(wasm: bytes) -> str:
    facts = (
        _FORMAT,
        importlib.metadata.version("wasmtime").encode(),
        platform.machine().encode(),
        hashlib.sha256(wasm).digest(),
    )
    return hashlib.sha256(b"\0".join(facts)).hexdigest()[:32]


def _read(engine: wasmtime.Engine, path: Path) -> wasmtime.Module | None:
    import wasmtime

    try:
        if not _is_private_folder(path.parent):
            return None
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        private = status.st_uid == os.geteuid() and not status.st_mode & 0o077
        if not (stat.S_ISREG(status.st_mode) and private and status.st_size <= _MAX_FILE_BYTES):
            return None
        data = file.read(_MAX_FILE_BYTES)
    payload = data[_DIGEST_BYTES:]
    if hashlib.sha256(payload).digest() != data[:_DIGEST_BYTES]:
        return None
    try:
        return wasmtime.Module.deserialize(engine, payload)
    except wasmtime.WasmtimeError:
        # Same digest, but made by a differently built wasmtime.
        return None


def _write(path: Path, payload: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private_folder(path.parent):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o600)
    except OSError:
        return
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)


def _is_private_folder(folder: Path) -> bool:
    status = os.lstat(folder)
    mine = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return stat.S_ISDIR(status.st_mode) and mine
