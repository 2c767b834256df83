"""Configuration, names, the files of a program, and logs: what needs no server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import raw_exec
from raw_exec.config import McpServer, describe_config
from raw_exec.errors import ConfigError
from raw_exec.manifest.tool import TOOL_NAME
from raw_exec.mcp_client.logs import ErrorTail, Secrets, StrayLines, last_line
from raw_exec.mcp_client.pipes import MAX_BLOCKS, _read_large
from raw_exec.mcp_client.program import find_server_program
from raw_exec.tools.mcp import mcp_names
from tests.mcp_client.support import mcp_config

SECRET = "s3cret-4711-value"


@pytest.mark.parametrize(
    ("server", "pointer", "words"),
    [
        ({}, "", "exactly one of 'command' and 'url'"),
        ({"type": "stdio"}, "", "'command'"),
        ({"type": "stdio", "url": "https://h"}, "/url", "streamable-http"),
        ({"type": "streamable-http", "command": "c"}, "/command", "stdio"),
        ({"type": "sse", "url": "https://h"}, "/type", "stdio, streamable-http"),
        ({"command": "c", "headers": {"A": SECRET}}, "/headers", "streamable-http"),
        ({"url": "https://h", "sandbox": "shell"}, "/sandbox", "stdio"),
        ({"command": "c", "sandbox": "shel"}, "/sandbox", "did you mean 'shell'?"),
        ({"command": "c", "sandbox": "fresh"}, "/sandbox", "'pooled'"),
        ({"command": "c", "env": {"HOME": SECRET}}, "/env/HOME", "private directory"),
        ({"command": "c", "env": {"1": SECRET}}, "/env/1", "must match"),
        ({"command": "c", "env": {"A": 5}}, "/env/A", '{"var": NAME}'),
        ({"command": "c", "env": {"A": {"var": "tokn"}}}, "/env/A/var", "did you mean 'token'?"),
        ({"command": "c", "env": {"A": {"value": SECRET}}}, "/env/A", "'var'"),
        ({"url": "https://h", "headers": {"Mcp-X": SECRET}}, "/headers/Mcp-X", "protocol"),
        ({"url": "https://h", "headers": {"A": SECRET + "\n"}}, "/headers/A", "control"),
        ({"command": "c", "idle_ms": 0}, "/idle_ms", "between"),
        ({"command": "c", "timeout_ms": 5}, "/timeout_ms", "unknown field"),
    ],
)
def test_each_mistake_is_refused_at_its_place_without_a_secret(
    tmp_path: Path, server: dict[str, Any], pointer: str, words: str
) -> None:
    """Line and column as everywhere; a value is never echoed."""
    variables = {
        "token": {
            "description": "d",
            "access": "use",
            "source": {"kind": "literal", "value": SECRET},
        }
    }
    sandbox = {"profiles": {"fresh": {"isolation": "fresh"}}}
    with pytest.raises(ConfigError) as caught:
        mcp_config(tmp_path, [], {"x": server}, vars=variables, sandbox=sandbox)
    problems = caught.value.problems
    assert f"/mcp/servers/x{pointer}" in [problem.pointer for problem in problems]
    text = " ".join(map(str, problems))
    assert words in text
    assert SECRET not in text + str(caught.value)
    assert all(problem.line for problem in problems)


def test_a_profile_for_a_server_s_tools_is_refused_where_it_has_no_effect(tmp_path: Path) -> None:
    """All tools of a server share its process, so that only the server has a profile."""
    with pytest.raises(ConfigError, match=r"mcp\.servers\.<server>\.sandbox"):
        mcp_config(tmp_path, [], {}, sandbox={"tools": {"mcp/s/*": "shell"}})


def test_the_whole_form_is_read(tmp_path: Path) -> None:
    """Values and references apart; headers over plain http are worth a warning."""
    source = {"kind": "literal", "value": SECRET}
    config = mcp_config(
        tmp_path,
        [],
        {
            "s": {
                "type": "stdio",
                "command": "c",
                "args": ["-v"],
                "env": {"A": "b", "T": {"var": "token"}},
                "cwd": "sub",
                "sandbox": "readonly",
                "start_ms": 1,
                "idle_ms": 2,
                "call_ms": 3,
            },
            "w": {"url": "http://example.org/mcp", "headers": {"T": {"var": "token"}}},
        },
        vars={"token": {"description": "d", "access": "use", "source": source}},
    )
    assert config.mcp["s"] == McpServer(
        "s",
        command="c",
        args=("-v",),
        env={"A": "b"},
        env_vars={"T": "token"},
        cwd="sub",
        sandbox="readonly",
        start_ms=1,
        idle_ms=2,
        call_ms=3,
    )
    assert (config.mcp["w"].type, config.mcp["w"].profile) == ("streamable-http", "remote")
    assert any("plain http" in text for text in config.warnings)
    assert SECRET not in repr(config) + json.dumps(describe_config(config))


_SERVER = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,12}", fullmatch=True)
_TOOL = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=80)


@given(st.lists(st.tuples(_SERVER, _TOOL), max_size=12), st.randoms())
def test_names_are_valid_distinct_and_independent_of_order(
    pairs: list[tuple[str, str]], random: Any
) -> None:
    """Any names that a server may have; each tool keeps its name whatever stands beside it."""
    refs = [f"mcp/{server}/{tool}" for server, tool in dict.fromkeys(pairs)]
    names = mcp_names(refs)
    assert set(names) == set(refs)
    assert len(set(names.values())) == len(refs)
    assert all(TOOL_NAME.fullmatch(name) for name in names.values())
    random.shuffle(refs)
    assert mcp_names(refs) == names
    for server, tool in pairs:
        plain = f"{server}__{tool}"
        if names[f"mcp/{server}/{tool}"] == plain:
            # The way back: the first "__" is where the server ends.
            assert plain.partition("__")[::2] == (server, tool)


def test_a_program_s_own_files_are_its_package_and_never_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pairs: a package is granted as a whole; a script in a home is granted alone."""
    home = tmp_path / "home"
    package = home / "servers" / "mine"
    deep = package / "src" / "bin"
    deep.mkdir(parents=True)
    (package / "package.json").write_text("{}")
    modules = tmp_path / "x" / "node_modules" / "@a" / "b"
    modules.mkdir(parents=True)
    for script in (home / "lone.py", deep / "run.py", modules / "index.py"):
        script.write_text("")
    monkeypatch.setenv("HOME", str(home))
    config = mcp_config(tmp_path, [], {})

    def files(*args: str) -> tuple[str, ...]:
        server = McpServer("s", command="python3", args=args)
        return find_server_program(config, server, str(home)).files.read

    lone = files(str(home / "lone.py"))
    assert str(home / "lone.py") in lone
    assert str(home) not in lone
    assert str(package) in files("servers/mine/src/bin/run.py", str(home / "lone.py"))
    assert str(tmp_path / "x" / "node_modules") in files("-u", str(modules / "index.py"))
    plain = files("-m", "module")
    assert not any(path.startswith(str(tmp_path)) for path in plain)


def test_the_command_of_a_downloader_gets_a_hint(tmp_path: Path) -> None:
    """npx and uvx need a network and a shell when they start; say what to do instead."""
    servers = {"s": {"command": "uvx", "args": ["some-server"], "start_ms": 2000}}
    config = mcp_config(tmp_path, ["mcp/s/x"], servers)

    async def main() -> Any:
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            return runtime.loaded.missing[0]

    missing = trio.run(main)
    assert "install the server" in missing.hint


def test_the_end_of_standard_error_is_kept_and_cleaned() -> None:
    """The end says why; control characters are escaped and secrets taken out."""
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try:
        tail = ErrorTail(reader, 64)
        os.write(writer, b"x" * 1000 + b"\nkey " + SECRET.encode() + b"\x1b[1m\n\n")
        tail.drain()
        secrets = Secrets()
        secrets.add("KEY", SECRET, literal=True)
        secrets.add("MODE", "true", literal=True)
        text = tail.text(secrets)
        assert SECRET not in text
        assert "earlier bytes not kept" in text
        assert last_line(text) == "key [redacted KEY]\\x1b[1m"
        assert secrets.clean("true") == "true"
        assert secrets.clean_data({"a": [SECRET, 1]}) == {"a": ["[redacted KEY]", 1]}
    finally:
        os.close(reader)
        os.close(writer)


def test_a_secret_is_found_as_servers_print_it() -> None:
    """In JSON, escaped or not, and line by line."""
    secrets = Secrets()
    key = 'begin "quoted" \\ é\nsecond line of it\nend'
    secrets.add("KEY", key, literal=False)
    for ascii_only in (True, False):
        text = json.dumps({"env": {"KEY": key}}, ensure_ascii=ascii_only)
        assert secrets.clean(text) == '{"env": {"KEY": "[redacted KEY]"}}'
    assert secrets.clean("second line of it") == "[redacted KEY]"
    assert secrets.clean("end of it") == "end of it"


@pytest.mark.parametrize("left", [4, 10, len(SECRET) - 1])
def test_a_secret_that_was_cut_is_taken_out_too(left: int) -> None:
    """Attack: print it so that a bound of ours falls into the middle of it."""
    secrets = Secrets()
    secrets.add("KEY", SECRET, literal=True)
    secrets.add("OTHER", "unrelated-thing", literal=True)
    assert secrets.clean_cut(f"{SECRET[-left:]} rest", start=True) == "[redacted KEY] rest"
    assert secrets.clean_cut(f"said {SECRET[:left]}", end=True) == "said [redacted KEY]"
    assert secrets.clean_cut(f"said {SECRET[:left]}") == f"said {SECRET[:left]}"
    assert secrets.clean_cut("nothing of it", start=True, end=True) == "nothing of it"
    stray = StrayLines()
    stray.add(SECRET.encode() * 1000)
    shown = stray.describe(secrets) or ""
    assert SECRET[:8] not in shown
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try:
        tail = ErrorTail(reader, 2 * len(SECRET) + left)
        os.write(writer, SECRET.encode() * 10)
        tail.drain()
        assert tail.text(secrets).endswith("…\n" + "[redacted KEY]" * 3)
    finally:
        os.close(reader)
        os.close(writer)


def test_of_very_many_blocks_only_enough_are_kept_to_refuse_them() -> None:
    """Attack: a million blocks of a few bytes hold up every other call while each is looked at."""
    for blocks, kept in ((MAX_BLOCKS, MAX_BLOCKS), (200_000, MAX_BLOCKS + 1)):
        result = {
            "content": [{"type": "text", "text": "x"}] * blocks,
            "structuredContent": {"a": 1},
        }
        message = _read_large(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())
        assert (message.id, len(message.result["content"])) == (1, kept)
        assert message.result["structuredContent"] == {"a": 1}
    request = _read_large(b'{"jsonrpc": "2.0", "id": "s1", "method": "ping"}')
    assert request.method == "ping"
    for wrong in (b"[]", b"{", b'{"jsonrpc": "1.0", "id": 1, "result": {}}'):
        with pytest.raises(ValueError, match=r"."):
            _read_large(wrong)


def test_what_the_sdk_logs_is_not_printed_by_itself() -> None:
    """Its records may quote a server; Python prints those of loggers without a handler."""
    code = (
        "import logging\n"
        "import raw_exec.mcp_client.connection\n"
        "for name in ('mcp.client.session', 'client', 'httpx2', 'httpcore2.connection', 'other'):\n"
        "    logging.getLogger(name).warning(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "other\n")


def test_stray_lines_are_counted_and_few_are_shown() -> None:
    """A flood of them is one bounded warning."""
    lines = StrayLines()
    assert lines.describe(Secrets()) is None
    for number in range(10_000):
        lines.add(f"line {number} ".encode() * 1000)
    text = lines.describe(Secrets())
    assert text is not None
    assert "10000 lines" in text
    assert len(text) < 600
