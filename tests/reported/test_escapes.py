"""What users reported about escapes and leaks, tried as a user of a shell tool would.

Each test has the name of the symptom that it looks for and must not find.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import raw_exec
from tests.reported.support import OK, PROCESSES, TIERS, Session, python_tool, raw_command, shell
from toolbox import py_config, write_config, write_tool

pytestmark = pytest.mark.slow

SECRET = "s3cret-7c1e"


@asynccontextmanager
async def beside_a_secret(root: Path, simulate: Sequence[str]) -> AsyncIterator[Session]:
    """Open a shell whose working directory lies beside a folder that it was not granted."""
    (root / "outside").mkdir()
    (root / "outside" / "secret").write_text(SECRET)
    async with shell(root, simulate) as opened:
        yield opened


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_link_made_inside_of_the_grant_reaches_outside(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """denoland/deno #2318, #2738, #12152, nodejs/node #49154, #56201, #44004: soft links."""
    async with beside_a_secret(tmp_path, simulate) as opened:
        rows = await opened.bash(
            "ln -s ../outside link; ln -s link/secret two; cat link/secret two",
            "echo x > link/new; echo x > two; mkdir link/folder",
            "ln -s real in; mkdir real; echo y > in/mine; cat in/mine",
        )
        assert [SECRET in row["stdout"] + row["stderr"] for row in rows] == [False] * 3
        assert rows[2]["stdout"] == "y\n"
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["secret"]
    assert (tmp_path / "outside" / "secret").read_text() == SECRET


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_hard_link_is_an_alias_of_a_file_outside(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """Kilo-Org/kilocode #11596: made from outside to inside, by link and by rename."""
    async with beside_a_secret(tmp_path, simulate) as opened:
        rows = await opened.bash(
            "ln ../outside/secret alias; ln -P ../outside/secret alias; cat alias",
            "mv ../outside/secret moved; cat moved; echo x > alias; echo x > moved",
            "echo y > one; ln one two; cat two",
        )
        assert [SECRET in row["stdout"] + row["stderr"] for row in rows] == [False] * 3
        assert rows[2]["stdout"] == "y\n"
    assert (tmp_path / "outside" / "secret").read_text() == SECRET


@pytest.mark.parametrize("simulate", TIERS)
async def test_running_one_program_and_writing_anywhere_is_running_anything(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """denoland/deno #11964: what a tool puts before another program gains it nothing."""
    async with beside_a_secret(tmp_path, simulate) as opened:
        rows = await opened.bash(
            "cp /bin/cat mine && ./mine ../outside/secret",
            "printf '#!/bin/sh\\ncat ../outside/secret\\n' > ls; chmod +x ls; PATH=.:$PATH ls",
            "echo junk > evil.so; export LD_PRELOAD=$PWD/evil.so BASH_ENV=$PWD/ls",
            'echo "[$LD_PRELOAD$BASH_ENV]"; ./mine evil.so',
        )
        assert [SECRET in row["stdout"] + row["stderr"] for row in rows] == [False] * 4
        assert rows[3]["stdout"] == "[]\njunk\n"


@pytest.mark.parametrize("simulate", TIERS)
async def test_native_calls_escape_a_list_of_forbidden_modules(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """huggingface/smolagents #2094: ``ctypes`` may be imported and reaches nothing more."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    body = (
        "import ctypes, errno, os\n"
        "c = ctypes.CDLL(None, use_errno=True)\n"
        "def said(n):\n"
        "    return 'ok' if n >= 0 else errno.errorcode[ctypes.get_errno()]\n"
        f"tries = [said(c.open({str(secret).encode()!r}, 0)), said(c.socket(2, 1, 0)),"
        " said(c.fork()), said(c.ptrace(16, os.getppid(), 0, 0))]\n"
        "own = said(c.open(b'mine', 0o101, 0o600))\n"
        "return {'content': [{'type': 'json', 'value': [tries, own]}]}"
    )
    async with python_tool(tmp_path, body, simulate) as opened:
        tries, own = await opened.value()
    assert "ok" not in tries
    assert (own, set(tries) <= {"EACCES", "EPERM", "ENOENT", "ENOSYS", "EAFNOSUPPORT"}) == (
        "ok",
        True,
    )


@pytest.mark.parametrize(
    ("processes", "simulate"),
    [(False, ()), (True, ("no-userns", "no-cgroup"))],
    ids=["without processes", "with processes"],
)
async def test_io_uring_goes_round_the_filter_of_the_network(
    tmp_path: Path, processes: bool, simulate: Sequence[str]
) -> None:
    """openai/codex #10814: with and without the right to start processes."""
    body = (
        "import ctypes, errno\n"
        "c = ctypes.CDLL(None, use_errno=True)\n"
        "p = ctypes.create_string_buffer(256)\n"
        "calls = ((425, 8, p), (426, -1, 0, 0, 0, 0, 0), (427, -1, 0, 0, 0))\n"
        "r = [c.syscall(*call) for call in calls]\n"
        "return {'content': [{'type': 'json', 'value': [r, errno.errorcode[ctypes.get_errno()]]}]}"
    )
    fields = PROCESSES if processes else {}
    async with python_tool(tmp_path, body, simulate, **fields) as opened:
        results, name = await opened.value()
    assert (results, name in ("ENOSYS", "EPERM")) == ([-1, -1, -1], True)


@pytest.mark.parametrize("simulate", TIERS)
async def test_a_program_in_memory_is_run_although_execution_was_not_granted(
    tmp_path: Path, simulate: Sequence[str]
) -> None:
    """landlock-lsm/linux #37, #49: a memory file, the loader, a program of one's own."""
    body = (
        "import os, errno\n"
        "def attempt(f, *args):\n"
        "    try:\n        f(*args)\n"
        "    except OSError as error:\n        return errno.errorcode[error.errno]\n"
        "    return 'ok'\n"
        "def from_memory():\n"
        "    fd = os.memfd_create('x')\n"
        "    os.write(fd, b'#!/bin/sh\\necho ran\\n')\n"
        "    os.execve(fd, ['x'], {})\n"
        "open('mine', 'w').write('#!/bin/sh\\necho ran\\n')\n"
        "os.chmod('mine', 0o700)\n"
        "tries = [attempt(from_memory),"
        " attempt(os.execv, './mine', ['mine']),"
        " attempt(os.execv, '/lib64/ld-linux-x86-64.so.2', ['x', '/bin/true']),"
        " attempt(os.posix_spawn, './mine', ['mine'], {})]\n"
        "return {'content': [{'type': 'json', 'value': tries}]}"
    )
    async with python_tool(tmp_path, body, simulate) as opened:
        tries = await opened.value()
    assert set(tries) <= {"EACCES", "EPERM", "ENOENT", "ENOSYS"}


EVIL = [
    ({"type": "string", "pattern": "^(a+)+$"}, "a" * 50_000 + "!", "invalid_args"),
    ({"type": "string", "pattern": "(a)\\1"}, "", "load"),
]


@pytest.mark.parametrize(("schema", "text", "code"), EVIL, ids=["nested", "back"])
async def test_an_expression_of_the_schema_hangs_the_validator(
    tmp_path: Path, schema: dict[str, object], text: str, code: str
) -> None:
    """colinhacks/zod #5851, everit-org/json-schema #147, Aiven-Open/karapace #1362."""
    (tmp_path / "work").mkdir()
    whole = {"type": "object", "properties": {"text": schema}, "additionalProperties": False}
    write_tool(
        tmp_path, "t", f"def handler(args, context):\n    {OK}\n", language="python", schema=whole
    )
    path = write_config(tmp_path, ["t"])
    command = raw_command("--json", "--config", str(path), "tools", "call", "t", "--args", "-")
    with trio.fail_after(60):
        done = await trio.run_process(
            command,
            stdin=json.dumps({"text": text}).encode(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            cwd=tmp_path / "work",
        )
    said = done.stdout.decode()
    assert done.returncode not in (0, 70), said
    assert ("pattern" in said) is True, said


async def test_references_that_double_at_every_level_blow_up_the_validator(tmp_path: Path) -> None:
    """json-schema-spec #315: 64 levels of two references each are refused at load."""
    levels = {
        f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}, {"$ref": f"#/$defs/l{n + 1}"}]}
        for n in range(64)
    }
    schema = {"type": "object", "$defs": {**levels, "l64": {}}, "allOf": [{"$ref": "#/$defs/l0"}]}
    py_config(tmp_path, OK)
    source = f"def handler(args, context):\n    {OK}\n"
    write_tool(tmp_path, "t", source, language="python", schema=schema)
    config = raw_exec.load_config(tmp_path / "config.json")
    with trio.fail_after(60), pytest.raises(raw_exec.RawExecError) as caught:
        async with raw_exec.open_runtime(config, cwd=tmp_path):
            pass
    assert "input_schema" in str(caught.value)
