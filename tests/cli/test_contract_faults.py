"""What goes wrong around `raw contract`, `raw prompt` and `raw install`, as a user meets it."""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import click
import pytest

from raw_exec.cli.contract import contract
from raw_exec.cli.prompt import prompt
from raw_exec.contracts import store as registry_store

TOOL, PROMPT = "@acme/fetch-page", "@acme/daily-brief"
SCHEMA = {"type": "object", "properties": {"url": {"type": "string"}}}


@pytest.fixture
def refused(invoke):
    """Run a command that is refused, and return its exit status and its error."""

    def refused(*args: str) -> tuple[int, dict[str, Any]]:
        done = invoke(*args, "--json")
        assert done.exit_code != 0, done.output
        error = json.loads(done.stdout)["error"]
        assert error["message"]
        # A look-alike is shown for what it is.
        assert not set("\u0430\u0435") & set(error["message"])
        return done.exit_code, error

    return refused


@pytest.fixture
def registry(run) -> None:
    """This user's file, with a tool in two versions and a prompt."""
    run("registry", "user", "add", "ann@example.com")
    run("registry", "workspace", "add", "acme", "--owner", "ann@example.com")
    run("contract", "create", TOOL)
    run("contract", "version", "publish", TOOL, "1.0.0")
    run("contract", "version", "draft", TOOL)
    run("contract", "version", "publish", TOOL, "1.1.0")
    run("prompt", "create", PROMPT)


def _leaves(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from _leaves(found, *path, name)
        else:
            yield (*path, name), found


def _taking(kind: str) -> list[tuple[tuple[str, ...], list[str], int]]:
    """Return every command, right arguments for it, and where a reference of that kind stands."""
    values = {
        "@WS/NAME": TOOL if kind == "tool" else PROMPT,
        "@WS/NAME@VERSION": f"{TOOL if kind == 'tool' else PROMPT}@1.0.0",
        "@WS/NAME@draft": f"{TOOL if kind == 'tool' else PROMPT}@draft",
        "@WS/PROMPT@VERSION": f"{PROMPT}@draft",
        "@WS/PROMPT@draft": f"{PROMPT}@draft",
        "@WS/TOOL@VERSION": f"{TOOL}@1.0.0",
        "@WS/TOOL": TOOL,
        "X.Y.Z": "1.0.0",
    }
    needed = {
        "folder": ["--to", "out"],
        "alias": ["--as", "name"],
        "description": ["--description", "x"],
        "file": ["--file", "x.json"],
    }
    found = []
    groups = [(contract, "contract")] if kind == "tool" else []
    for group, name in [*groups, (prompt, "prompt")]:
        for path, command in _leaves(group, name):
            arguments = [one for one in command.params if isinstance(one, click.Argument)]
            shown = [str(one.metavar or one.name).removesuffix("...") for one in arguments]
            options = [
                text
                for one in command.params
                if isinstance(one, click.Option) and one.name in needed
                for text in (needed[one.name] if one.required or one.name == "file" else [])
            ]
            args = [values.get(one, "x") for one in shown] + options
            is_wanted = "TOOL" if kind == "tool" and name == "prompt" else "@WS/"
            places = [
                place
                for place, one in enumerate(shown)
                if is_wanted in one and (kind == "tool") == (name == "contract" or "TOOL" in one)
            ]
            found += [(path, args, place) for place in places]
    return found


_BAD = ("acme/x", "@acme", "@acme/", "@/x", "@acme/x@", "@acme/+g", "@", "@Acme/x", "@acme/a b")
MALFORMED = {
    "tool": (*_BAD, "fetch", "@acme/" + "a" * 65, "@acme/a.b", "@acme/Fetch", "@acme/fеtch"),
    "prompt": (*_BAD, "daily", "@acme/" + "a" * 215, "@acme/Daily", "@acme/dаily", "@acme/a/b"),
}
"""References of the wrong form; of two the "e" and the "a" are Cyrillic letters."""


@pytest.mark.parametrize("kind", ["tool", "prompt"])
def test_every_command_refuses_every_malformed_reference_before_anybody_is_asked(
    refused, home, kind
) -> None:
    """Registry wire interface §5.2: all of it is local, also without any registry."""
    (home.work / "x.json").write_text(json.dumps(SCHEMA))
    commands = _taking(kind)
    assert len({path for path, _, _ in commands}) >= 15
    fine = {(3, "bad_ref"), (3, f"{kind}_name"), (3, "workspace_name")}
    others = []
    for path, args, place in commands:
        for text in MALFORMED[kind]:
            wrong = (*path, *args[:place], text, *args[place + 1 :])
            status, error = refused(*wrong)
            if (status, error["code"]) not in fine:
                others.append((wrong, error))
    assert others == []


@pytest.mark.parametrize("number", ["1.0", "v1.0.0", "1.0.0-rc.1", "01.0.0", "1.0.0 ", "", "draft"])
def test_only_plain_numbers_are_published(refused, number) -> None:
    """Registry wire interface §5.2."""
    for group, ref in (("contract", TOOL), ("prompt", PROMPT)):
        status, error = refused(group, "version", "publish", ref, number)
        assert (status, error["code"]) == (3, "version_number")


ACCEPTED = (
    *("*", "x", "1", "1.x", "^1.0.0", "~1.1", "~>1", ">=1.0.0 <2.0.0", ">=1.0.0, <2.0.0"),
    *("^1.0 || ^2", "1.0.0 - 2.0.0", "!=1.0.0", "=1.1.0", "v1.1.0", "=>1.0", "1.1.0"),
)
REFUSED = ("latest", "Draft", ">=", "^a", "bogus!", "1.2.3.4", "^1 ||", "' OR 1=1", "1" * 300)


def test_every_constraint_of_the_public_cli_is_taken_and_every_other_text_is_not(
    run, refused, registry
) -> None:
    """Registry wire interface §5.3: in reads, in pins and in a project."""
    draft = f"{PROMPT}@draft"
    for text in ACCEPTED:
        assert run("contract", "version", "get", f"{TOOL}@{text}")["version"] == "1.1.0"
        (pin,) = run("prompt", "tools", "add", draft, f"{TOOL}@{text}")["tools"]
        assert (pin["version"], pin["status"]) == ("1.1.0", "PUBLISHED"), text
        run("prompt", "tools", "remove", draft, TOOL)
    for text in REFUSED:
        for args in (
            ("contract", "version", "get", f"{TOOL}@{text}"),
            ("prompt", "version", "get", f"{PROMPT}@{text}"),
            ("prompt", "tools", "add", draft, f"{TOOL}@{text}"),
            ("add", f"{PROMPT}@{text}"),
        ):
            status, error = refused(*args)
            assert (status, error["code"]) == (3, "bad_constraint"), (args, error)


def test_schemas_that_are_too_big_or_without_end_are_told_and_not_sent(run, refused, home) -> None:
    """Fault: there is no registry here, so nothing can have been sent."""
    whole = {"type": "object", "properties": {"a": {"type": "string", "description": "x"}}}
    deep = '{"items":' * 5_000 + "{}" + "}" * 5_000
    texts = {
        "5 MB": json.dumps(whole | {"description": "x" * 5_000_000}),
        "recursive": json.dumps({"type": "object", "properties": {"child": {"$ref": "#"}}}),
        "defs": json.dumps({"type": "object", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
        "bottomless": f'{{"type": "object", "properties": {{"a": {deep}}}}}',
        "twice": '{"type": "object", "type": "object"}',
        "wide": json.dumps(
            {"type": "object", "properties": {f"p{i}": {"not": {}} for i in range(2_000)}}
        ),
    }
    told = {}
    for name, text in texts.items():
        (home.work / "s.json").write_text(text)
        status, error = refused("contract", "schema", "set", f"{TOOL}@draft", "--file", "s.json")
        told[name] = (status, error["code"])
    assert told == {
        "5 MB": (2, "input_unreadable"),
        "recursive": (3, "schema_outside_subset"),
        "defs": (3, "schema_outside_subset"),
        "bottomless": (3, "schema_not_json"),
        "twice": (3, "schema_not_json"),
        "wide": (3, "schema_outside_subset"),
    }


def test_metacharacters_of_sql_are_texts_like_any_other(run, registry, home) -> None:
    """Fault: they go in, are searched for, and come out as they were."""
    text = "Robert'); DROP TABLE tools; -- % _ \\ \" ` ${x} {{y}} \u202e é\n"
    (home.work / "t").write_text(text)
    run("contract", "version", "draft", TOOL)
    draft = f"{TOOL}@draft"
    run("contract", "version", "set-description", draft, "--file", "t")
    run("contract", "version", "set-readme", draft, "--file", "t")
    run("contract", "version", "set-metadata", draft, "--string", f"a'b=\"{text}")
    seen = run("contract", "version", "get", draft)
    assert (seen["model_description"], seen["readme"]) == (text, text)
    assert seen["metadata"] == {"a'b": f'"{text}'}
    run("contract", "update", TOOL, "--description", "100% 'quoted'_", "--tag", "x'; --")
    for search, count in (("100%", 1), ("0%_", 0), ("d'_", 1), ("' OR '1'='1", 0), ("%", 1)):
        assert run("contract", "list", "@acme", "--search", search)["total"] == count
    assert run("contract", "get", TOOL)["tags"] == ["x'; --"]


def test_a_locked_file_is_told_and_reading_goes_on(
    run, refused, registry, home, monkeypatch
) -> None:
    """Fault: somebody else writes for longer than anybody waits."""
    hasty = partial(registry_store.open_store, busy_seconds=0.05)
    monkeypatch.setattr(registry_store, "open_store", hasty)
    other = sqlite3.connect(home.root / ".local/share/raw/registry.db", isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        status, error = refused("contract", "create", "@acme/late")
        assert (status, error["code"]) == (8, "database_locked")
        assert "try again" in error["message"]
        assert run("contract", "list", "@acme")["total"] == 1
    finally:
        other.close()
    run("contract", "create", "@acme/late")


def _with_small_files(home: Any, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose files can not grow beyond 128 KiB, as if the disk were full."""
    limit = 128 * 1024
    return subprocess.run(
        [sys.executable, "-m", "raw_exec", *args, "--json"],
        cwd=home.work,
        env=home.env | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )


@pytest.mark.slow
def test_a_disk_without_room_is_told_and_leaves_registry_and_project_as_they_were(
    run, registry, home
) -> None:
    """Fault, by the kernel: what can not be written whole is not there at all."""
    draft = f"{PROMPT}@draft"
    (home.work / "big").write_text("text " * 50_000)
    full = _with_small_files(home, "prompt", "version", "set-readme", draft, "--file", "big")
    error = json.loads(full.stdout)["error"]
    assert (full.returncode, error["code"]) == (8, "database_full"), full.stderr
    assert "space" in error["message"]
    assert run("prompt", "version", "get", draft)["readme"] == ""

    run("prompt", "version", "publish", PROMPT, "1.0.0")
    run("add", f"{PROMPT}@*")
    before = {path: path.read_bytes() for path in home.work.rglob("*") if path.is_file()}
    run("prompt", "version", "draft", PROMPT)
    run("prompt", "version", "set-readme", draft, "--file", "big")
    run("prompt", "file", "update", draft, "userPrompt", "--file", "big")
    run("prompt", "version", "publish", PROMPT, "1.1.0")
    full = _with_small_files(home, "update")
    error = json.loads(full.stdout)["error"]
    assert (full.returncode, error["code"]) == (2, "project_unwritable"), full.stderr
    after = {path: path.read_bytes() for path in home.work.rglob("*") if path.is_file()}
    assert after == before
    assert run("update")["prompts"][0]["version"] == "1.1.0"


def test_dumping_over_an_earlier_dump_leaves_nothing_that_the_version_lacks(
    run, refused, registry, home
) -> None:
    """Our choice: a stale schema would go back with the next `schema set`."""
    (home.work / "s.json").write_text(json.dumps(SCHEMA))
    run("contract", "version", "draft", TOOL)
    run("contract", "schema", "set", f"{TOOL}@draft", "--output", "--file", "s.json")
    assert "output-schema.json" in run("contract", "dump", f"{TOOL}@draft", "--to", "d")["files"]
    (home.work / "d/notes.txt").write_text("mine")
    assert refused("contract", "dump", f"{TOOL}@1.0.0", "--to", "d")[0] == 2
    assert (home.work / "d/output-schema.json").exists()
    run("contract", "dump", f"{TOOL}@1.0.0", "--to", "d", "--force")
    assert not (home.work / "d/output-schema.json").exists()
    assert (home.work / "d/notes.txt").read_text() == "mine"
    draft = f"{PROMPT}@draft"
    run("prompt", "file", "create", draft, "extra", "--content", "x")
    run("prompt", "version", "dump", draft, "--to", "p")
    run("prompt", "file", "delete", draft, "extra")
    run("prompt", "version", "dump", draft, "--to", "p", "--force")
    left = sorted(path.name for path in (home.work / "p/files").iterdir())
    assert left == ["systemPrompt.mustache", "userPrompt.mustache"]


def test_every_change_of_pins_is_said_in_a_sentence(invoke, registry) -> None:
    """A table alone does not say what was done."""
    draft = f"{PROMPT}@draft"
    label = f"{PROMPT}@0.0.1-draft.0"
    said = [
        invoke("prompt", "tools", "add", draft, f"{TOOL}@^1.0.0").stderr,
        invoke("prompt", "tools", "rename", draft, TOOL, "--as", "get").stderr,
        invoke("prompt", "tools", "remove", draft, TOOL).stderr,
    ]
    assert said == [
        f"pinned {TOOL}@1.1.0 to {label}\n",
        f"renamed {TOOL} to get on {label}\n",
        f"removed {TOOL} from {label}\nno tools pinned\n",
    ]


def test_visibility_and_the_deletion_of_tools_have_no_command() -> None:
    """Seed 3, "What stays in the web app": deliberately absent from the command line."""
    commands = {path for group in (contract, prompt) for path, _ in _leaves(group)}
    assert ("version", "delete") in commands
    assert not {path for path in commands if path in {("delete",), ("remove",)}}
    options = {
        option
        for group in (contract, prompt)
        for _, command in _leaves(group)
        for one in command.params
        for option in one.opts
    }
    assert not {option for option in options if "visib" in option or "public" in option}
