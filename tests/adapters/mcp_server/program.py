"""``raw mcp`` as a program of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent
RAW = [sys.executable, "-m", "raw_exec"]


def command(root: Path, *more: str) -> list[str]:
    """Return the command line of a server for the configuration in ``root``."""
    options = ["--config", str(root / "config.json"), "--cwd", str(root / "cwd")]
    return [*RAW, "mcp", *options, *more]


@dataclass
class HttpServer:
    """A running server.

    Args:
        url: Its endpoint.
    """

    url: str
    process: subprocess.Popen[str]
    stopping: bool = False

    def stop(self) -> None:
        """Tell it to stop, once: a second signal would end it at once."""
        if not self.stopping:
            self.stopping = True
            self.process.send_signal(signal.SIGTERM)


@contextmanager
def http_server(root: Path, *more: str, env: dict[str, str] | None = None) -> Iterator[HttpServer]:
    """Start a server; it must end without a fault when it is told to."""
    process = subprocess.Popen(
        command(root, "--http", "0", *more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=env,
    )
    assert process.stdout is not None
    server = HttpServer(process.stdout.readline().strip(), process)
    try:
        yield server
    finally:
        server.stop()
        try:
            _, log = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            _, log = process.communicate()
            log += "\nTraceback: it did not end"
    assert process.returncode == 0, log
    assert "Traceback" not in log
    assert "bug" not in log
    assert "error" not in log, log
