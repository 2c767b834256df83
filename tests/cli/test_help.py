"""Every command explains itself, quickly, and the reference holds all of it."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from raw_exec.cli.lazy import LazyGroup
from raw_exec.cli.options import COMMON_OPTIONS
from raw_exec.cli.reference import iter_commands, render_reference

COMMANDS = [pytest.param(path, command, id=" ".join(path)) for path, command in iter_commands()]
GROUPS = [
    pytest.param(command, id=" ".join(path))
    for path, command in iter_commands()
    if isinstance(command, LazyGroup)
]
HEAVY = ("trio", "jsonschema", "jsonschema_rs", "wasmtime", "rich", "msgpack", "re2", "psutil")


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_every_command_has_help_and_documents_every_option(path, command):
    """Our choice: nothing a user can type is undocumented."""
    assert command.help
    for param in command.params:
        if isinstance(param, click.Option):
            assert param.help, f"{path}: {param.name}"


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_every_command_takes_the_common_options(path, command):
    """Contract: the common options stand before or after the subcommand."""
    assert set(COMMON_OPTIONS) <= {param.name for param in command.params}


@pytest.mark.parametrize("group", GROUPS)
def test_the_stored_summary_is_the_first_line_of_the_help(group):
    """A group lists its commands without importing them, so it repeats their summaries."""
    stored = {name: summary for name, (_, summary) in group.lazy.items()}
    actual = {
        name: (group.get_command(click.Context(group), name).help or "").split("\n")[0]
        for name in stored
    }
    assert stored == actual


def test_help_imports_nothing_heavy():
    """``raw --help`` must start in a quarter of a second."""
    code = (
        "import sys, contextlib, io\n"
        "from raw_exec.cli.main import cli\n"
        "for args in (['--help'], ['tools', '--help'], ['tools', 'call', '--help']):\n"
        "    with contextlib.redirect_stdout(io.StringIO()):\n"
        "        try: cli.main(args)\n"
        "        except SystemExit as exc: assert exc.code == 0, exc.code\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_reference_names_every_command_and_every_option_of_its_own():
    """The documentation is generated from this."""
    text = render_reference()
    for path, command in iter_commands():
        assert f" `{' '.join(path)}`\n" in text
        for param in command.params:
            if isinstance(param, click.Option) and param.name not in COMMON_OPTIONS:
                assert max(param.opts, key=len) in text


def test_the_reference_lists_the_common_options_once():
    """They are the same everywhere."""
    assert render_reference().count("--config PATH") == 1


@pytest.mark.parametrize("args", [[], ["tools"], ["config"]])
def test_a_group_alone_prints_its_help(invoke, args):
    """Nothing to do is not a mistake."""
    done = invoke(*args)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: {' '.join(['raw', *args])} [OPTIONS]")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_this_command(invoke, shell):
    """The script asks the program itself for completions."""
    done = invoke("completion", shell)
    assert done.exit_code == 0
    assert "_RAW_COMPLETE" in done.stdout


def test_completion_offers_commands(raw):
    """What the script calls when the user presses Tab."""
    env = {"_RAW_COMPLETE": "bash_complete", "COMP_WORDS": "raw tools ", "COMP_CWORD": "2"}
    done = raw(env=env)
    names = [line.split(",")[-1] for line in done.stdout.splitlines()]
    assert names == ["list", "definitions", "new", "check", "call", "verify", "explain"]
