"""A home of its own for every test, and three ways to run ``raw`` in it."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import raw_exec
from raw_exec.cli.main import cli

Invoke = Callable[..., Result]
RunRaw = Callable[..., "subprocess.CompletedProcess[str]"]
AtTerminal = Callable[..., AbstractContextManager["Terminal"]]

APPEND_NOTES = {
    "api_version": 2,
    "id": "append_notes",
    "version": "1.0.0",
    "name": "append_notes",
    "description": "Append one newline-terminated note.",
    "input_schema": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "text": {"type": "string", "minLength": 1},
        },
        "required": ["path", "text"],
        "additionalProperties": False,
    },
    "condition_sources": ["arguments"],
    "entry": "./index.py",
}
APPEND_NOTES_PY = """
import os


def validate_args(args):
    if not args["text"].endswith("\\n"):
        return "text must end with a newline"


def handler(args, context):
    with open(os.path.join(context.cwd, args["path"]), "a", encoding="utf-8") as file:
        file.write(args["text"])
    size = len(args["text"].encode())
    return {"content": [{"type": "text", "text": f"Appended {size} bytes to {args['path']}"}]}
"""


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests, so that the engine is compiled once."""
    return tmp_path_factory.mktemp("cache")


class Home:
    """A user's home with an empty configuration folder and a working directory."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.config_dir = root / "config" / "raw"
        self.config_file = self.config_dir / "config.json"
        self.tools = self.config_dir / "tools"
        self.work = root / "work"
        self.tools.mkdir(parents=True)
        self.work.mkdir()
        self.env = {
            "HOME": str(root),
            "XDG_CONFIG_HOME": str(root / "config"),
            "XDG_CACHE_HOME": str(cache),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(Path(raw_exec.__file__).parent.parent),
        }

    def configure(
        self, use: Sequence[Any] = (), rules: Sequence[dict[str, Any]] = (), **extra: Any
    ) -> Path:
        """Write a configuration with one agent."""
        value = {"agents": {"main": {"tools": {"use": list(use), "rules": list(rules)}}}, **extra}
        self.config_file.write_text(json.dumps(value), encoding="utf-8")
        self.config_file.chmod(0o600)
        return self.config_file

    def add_tool(self, manifest: dict[str, Any], **files: str) -> Path:
        """Write a tool into the user's own root."""
        folder = self.tools / str(manifest["id"])
        folder.mkdir()
        (folder / "tool.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
        return folder

    def add_append_notes(self, **changes: Any) -> Path:
        """Write the seed's tool, as Python."""
        return self.add_tool(APPEND_NOTES | changes, index__py=APPEND_NOTES_PY)


@pytest.fixture
def home(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A fresh home; this process is in it as well."""
    made = Home(tmp_path, cache)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(made.work)
    return made


@pytest.fixture
def invoke(home: Home) -> Invoke:
    """Run a command in this process."""

    def run(*args: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, list(args), prog_name="raw", input=stdin)

    return run


@pytest.fixture
def run(invoke: Invoke) -> Callable[..., Any]:
    """Run a command that works, in this process, and return its JSON."""

    def run(*args: str, stdin: str | None = None) -> Any:
        done = invoke(*args, "--json", stdin=stdin)
        assert done.exit_code == 0, (args, done.output)
        return json.loads(done.stdout)

    return run


@pytest.fixture
def raw(home: Home) -> RunRaw:
    """Run a command in a process of its own, without a terminal."""

    def run(
        *args: str, stdin: str = "", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "raw_exec", *args],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=home.work,
            env=home.env | (env or {}),
            timeout=60,
            start_new_session=True,
        )

    return run


class Terminal:
    """The person's side of a terminal."""

    def __init__(self, fd: int, process: subprocess.Popen[bytes]) -> None:
        self.fd = fd
        self.process = process
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def read_until(self, text: str, seconds: float = 60) -> str:
        """Return what was shown up to ``text`` since the last time."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} was not shown, but {self.shown!r}"
            if select.select([self.fd], [], [], left)[0]:
                assert self._read(), f"the end came after {self.shown!r}"
        before, _, self.shown = self.shown.partition(text)
        return before.replace("\r\n", "\n")

    def type(self, text: str) -> None:
        """Type at the keyboard."""
        os.write(self.fd, text.encode())

    def _read(self) -> bool:
        """Read what is there, or return False when the last program has closed its side."""
        try:
            self.shown += self._decoder.decode(os.read(self.fd, 65536))
        except OSError:
            return False
        return True

    def finish(self) -> tuple[int, str]:
        """Return the exit status and standard output; what was shown until then is in ``shown``."""
        while select.select([self.fd], [], [], 60)[0] and self._read():
            pass
        stdout, _ = self.process.communicate(timeout=60)
        return self.process.returncode, stdout.decode()


@pytest.fixture
def at_terminal(home: Home) -> AtTerminal:
    """Run ``raw`` at a terminal; only standard output is piped."""

    def become_foreground() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    @contextmanager
    def run(*args: str) -> Iterator[Terminal]:
        ours, theirs = os.openpty()
        with subprocess.Popen(
            [sys.executable, "-m", "raw_exec", *args],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            cwd=home.work,
            env=home.env,
            preexec_fn=become_foreground,
        ) as process:
            os.close(theirs)
            try:
                yield Terminal(ours, process)
            finally:
                process.kill()
                os.close(ours)

    return run
