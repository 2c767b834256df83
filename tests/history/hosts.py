"""Other hosts on a history file: real processes that are killed where a test says.

A host runs a script with ``history`` open and ``say`` at hand, which prints one line; the test
reads lines until the one it waits for, and kills the host with SIGKILL or lets it go on.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent

_PROGRAM = """
import os, sys, trio
from raw_exec.history import *
from raw_exec.history import rows
from raw_exec.interactions import *

def say(word):
    print(word, flush=True)

def stop():
    # Until the test kills this process, or lets it go on.
    sys.stdin.readline()

async def main():
    async with open_history(sys.argv[1]) as history:
{body}

trio.run(main)
"""


class Host:
    """A running host."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def wait_for(self, word: str) -> None:
        """Read its output up to a word; its end first fails."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word:
                return
        raise AssertionError(f"the host ended before it said {word!r}")

    def go_on(self) -> None:
        """Let it leave ``stop()``."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it by force and wait until it is gone."""
        os.kill(self.process.pid, signal.SIGKILL)
        assert self.process.wait(timeout=30) == -signal.SIGKILL


@contextmanager
def host(path: Path, body: str) -> Iterator[Host]:
    """Start a host; it is ended in any case."""
    program = _PROGRAM.format(body=textwrap.indent(textwrap.dedent(body), " " * 8))
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Host(process)
    finally:
        process.kill()
        process.communicate(timeout=30)
