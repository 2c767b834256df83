"""Facts about the machine, and a clean environment for every process that is measured."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from .measure import Unavailable

__all__ = ["clean_environment", "host_facts", "node_path", "pss_bytes", "run_to_end"]

_PACKAGES = ("raw-exec", "trio", "msgpack", "wasmtime", "jsonschema-rs", "mcp", "trio-parallel")


def clean_environment() -> dict[str, str]:
    """Return an environment in which nothing slows a start.

    An inherited ``NODE_EXTRA_CA_CERTS`` alone makes Node's start take three times as long.
    """
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent"}


@cache
def node_path() -> str:
    """Return the Node executable that the runtime uses.

    Raises:
        Unavailable: There is none.
    """
    from raw_exec.errors import WorkerError
    from raw_exec.pool.runtimes import find_node

    try:
        return str(find_node(None).path)
    except WorkerError as exc:
        raise Unavailable(str(exc)) from exc


def run_to_end(
    argv: list[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> str:
    """Run a program in a clean environment and return what it printed.

    Args:
        env: Added to the clean environment.

    Raises:
        Unavailable: It did not end with 0.
    """
    done = subprocess.run(
        argv,
        env={**clean_environment(), **(env or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode != 0:
        tail = done.stderr.strip().splitlines()[-1:] or ["it printed nothing"]
        raise Unavailable(f"{Path(argv[0]).name} ended with {done.returncode}: {tail[0]:.200}")
    return done.stdout


def pss_bytes(pid: int) -> int:
    """Return a process's proportional set size: shared pages divided by their users.

    Raises:
        Unavailable: The process can't be looked into, which takes root or the same user.
    """
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError as exc:
        raise Unavailable(f"can't read the memory map of process {pid}: {exc.strerror}") from exc
    raise Unavailable("this kernel gives no proportional set size")


def host_facts() -> dict[str, Any]:
    """Return what a reader needs to judge the numbers."""
    try:
        node = run_to_end([node_path(), "--version"]).strip()
    except Unavailable as exc:
        node = f"not available: {exc}"
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu_model": _cpu_model(),
        "cpu_count": os.cpu_count(),
        "cpus_usable": len(os.sched_getaffinity(0)),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "node": node,
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # a fact less, nothing worse
    return "unknown"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
