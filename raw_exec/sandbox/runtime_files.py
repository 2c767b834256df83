"""Which files a language runtime or program needs, found without running anything.

``ldd`` would run the program's loader; a small ELF reader gives the one fact needed,
the path of that loader. Library folders come from the usual places.
"""

from __future__ import annotations

import os
import platform
import struct
import sys
import sysconfig
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .._resources import workers_dir

__all__ = ["RuntimeFiles", "node_files", "program_files", "python_files", "read_interpreter"]

_MAX_INTERPRETER_BYTES = 4096
_MAX_SHEBANG_BYTES = 256
_PT_INTERP = 3
# Read by any runtime for names of things: zones, locales, the loader's cache.
_DATA = (
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/lib/locale",
    "/usr/share/locale",
    "/usr/share/zoneinfo",
)


@dataclass(frozen=True, slots=True)
class RuntimeFiles:
    """Files of one runtime.

    Args:
        name: For people: ``"node"``, ``"python"`` or the program's path.
        read: Paths it reads.
        execute: Programs that must be executable for it to start; loader included.
        base_data_bytes: Private memory it reserves before any plugin code runs, used or
            not; what a plan grants comes on top.
    """

    name: str
    read: tuple[str, ...]
    execute: tuple[str, ...]
    base_data_bytes: int = 0


def read_interpreter(path: Path) -> str | None:
    """Return the loader an ELF program names, or ``None`` (static, or not ELF).

    Every offset is bounds-checked by reading: a malformed file gives ``None``.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
            if len(head) < 64 or head[:4] != b"\x7fELF" or head[4] != 2:
                return None
            order = "<" if head[5] == 1 else ">"
            (table,) = struct.unpack_from(order + "Q", head, 32)
            size, count = struct.unpack_from(order + "HH", head, 54)
            if size < 56:
                return None
            for index in range(min(count, 256)):
                file.seek(table + index * size)
                entry = file.read(56)
                if len(entry) < 56:
                    return None
                kind = struct.unpack_from(order + "I", entry, 0)[0]
                if kind != _PT_INTERP:
                    continue
                offset, length = (
                    struct.unpack_from(order + "Q", entry, 8)[0],
                    struct.unpack_from(order + "Q", entry, 32)[0],
                )
                if not 1 < length <= _MAX_INTERPRETER_BYTES:
                    return None
                file.seek(offset)
                return os.fsdecode(file.read(length).rstrip(b"\0"))
    except (OSError, OverflowError, ValueError, struct.error):
        return None
    return None


def _library_directories(binary: Path | None) -> list[str]:
    triplet = f"{platform.machine()}-linux-gnu"
    found = [
        path
        for path in (f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib64", "/usr/lib64")
        if os.path.isdir(path)
    ]
    if not any(triplet in path or path.endswith("lib64") for path in found) or not any(
        os.path.exists(os.path.join(path, "libc.so.6")) for path in found
    ):
        # A distribution that keeps libraries in plain /lib (musl, for one).
        found += [path for path in ("/lib", "/usr/lib") if os.path.isdir(path)]
    if binary is not None:
        beside = binary.parent.parent / "lib"
        if str(beside) not in ("/lib", "/usr/lib") and beside.is_dir():
            found.append(str(beside))
    for store in ("/nix/store", "/gnu/store"):
        if binary is not None and str(binary).startswith(store + "/"):
            found.append(store)
    return found


def _elf(binary: Path) -> tuple[list[str], list[str]]:
    """Return what an ELF program reads and executes."""
    execute = [str(binary)]
    loader = read_interpreter(binary)
    if loader is not None:
        execute.append(loader)
    return [str(binary), *_library_directories(binary), *_DATA], execute


def node_files(binary: str | Path, *, base_data_bytes: int = 0) -> RuntimeFiles:
    """Return the files of a Node worker.

    Args:
        binary: The real executable.
        base_data_bytes: What this build reserves at its start: 48 MB for Node 20, and half
            a gigabyte of address space for compiled code since Node 24.
    """
    read, execute = _elf(Path(binary))
    read.append(str(workers_dir() / "node"))
    return RuntimeFiles("node", _unique(read), _unique(execute), base_data_bytes)


def python_files() -> RuntimeFiles:
    """Return the files of a Python worker: the standard library, the worker, msgpack.

    The worker is forked, not executed, so nothing has to be executable; a plan with processes
    makes what can be read executable too, the interpreter included. Installed packages of the
    supervisor's own environment are not included.
    """
    binary = Path(sys.executable).resolve()
    read = [str(binary), *_library_directories(binary), *_DATA]
    # "platstdlib" would be the virtual environment, with every installed package.
    read.append(sysconfig.get_path("stdlib"))
    read += [entry for entry in sys.path if entry.endswith("lib-dynload")]
    base = Path(sys.base_prefix) / "lib"
    read.append(str(base / f"python{sys.version_info[0]}.{sys.version_info[1]}"))
    spec = find_spec("msgpack")
    if spec is not None and spec.origin is not None:
        read.append(str(Path(spec.origin).resolve().parent))
    read.append(str(workers_dir() / "python"))
    return RuntimeFiles("python", _unique(read), ())


def program_files(path: str | Path) -> RuntimeFiles:
    """Return the files of any program: an ELF file, or a script and its interpreter."""
    binary = Path(path).resolve()
    try:
        with binary.open("rb") as file:
            head = file.read(_MAX_SHEBANG_BYTES)
    except OSError:
        head = b""
    read, execute = _elf(binary)
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n", 1)[0].split()
        if words:
            inner_read, inner_execute = _elf(Path(os.fsdecode(words[0])).resolve())
            read += inner_read
            execute += [os.fsdecode(words[0]), *inner_execute]
    return RuntimeFiles(str(path), _unique([str(path), *read]), _unique([str(path), *execute]))


def _unique(paths: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path for path in paths if path))
