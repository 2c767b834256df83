"""`raw contract` and `raw prompt`, on the file of this machine."""

from __future__ import annotations

import json
import sys

import pytest

TOOL, PROMPT = "@acme/fetch-page", "@acme/daily-brief"
on_both = pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
_CONFIG = ("prompt", "version", "set-model-config", f"{PROMPT}@draft")
SCHEMA = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}


@pytest.fixture
def database(request, monkeypatch) -> str:
    """Which database the commands use: this user's file, unless a test asks for the other."""
    kind = getattr(request, "param", "sqlite")
    if kind == "postgres":
        monkeypatch.setenv("RAW_REGISTRY_DB", request.getfixturevalue("postgres_url"))
    return str(kind)


@pytest.fixture
def run(run, database):
    """Run a command that works, in a registry with a workspace."""
    run("registry", "user", "add", "ann@example.com")
    run("registry", "workspace", "add", "acme", "--owner", "ann@example.com")
    return run


@pytest.fixture
def refused(invoke):
    """Run a command that is refused, and return its exit status and code."""

    def refused(*args: str, stdin: str | None = None) -> tuple[int, str]:
        done = invoke(*args, "--json", stdin=stdin)
        assert done.exit_code != 0, done.output
        error = json.loads(done.stdout)["error"]
        assert error["message"]
        return done.exit_code, error["code"]

    return refused


@on_both
def test_a_contract_is_authored_from_its_creation_to_its_publication(run, home) -> None:
    """Contract: the operations of the command tables."""
    made = run("contract", "create", TOOL, "--description", "Fetches pages")
    assert (made["name"], made["workspace"], made["visibility"]) == (
        "fetch-page",
        "acme",
        "PRIVATE",
    )
    draft = f"{TOOL}@draft"
    (home.work / "s.json").write_text(json.dumps(SCHEMA))
    assert run("contract", "schema", "set", draft, "--file", "s.json")["input_schema"] == SCHEMA
    text = json.dumps({"type": "string"})
    changed = run("contract", "schema", "set", draft, "--output", "--file", "-", stdin=text)
    assert changed["output_schema"] == {"type": "string"}
    cleared = run("contract", "schema", "set", draft, "--output", "--clear")
    assert cleared["output_schema"] is None
    (home.work / "d.md").write_text("Fetch a page.\n")
    done = run("contract", "version", "set-description", draft, "--file", "d.md")
    assert done["model_description"] == "Fetch a page.\n"
    assert run("contract", "version", "set-readme", draft, "--content", "")["readme"] == ""
    keys = ("--string", "a=b=c", "--integer", "n=-5", "--float", "f=.5", "--boolean", "t=TRUE")
    done = run("contract", "version", "set-metadata", draft, *keys)
    assert done["metadata"] == {"a": "b=c", "n": -5, "f": 0.5, "t": True}
    done = run("contract", "version", "set-metadata", draft, "--string", "a=x", "--delete", "a")
    assert done["metadata"] == {"n": -5, "f": 0.5, "t": True}
    args = ("contract", "version", "set-metadata", draft, "--from-file", "-")
    assert run(*args, stdin="a:\n  - b: yes\n")["metadata"] == {"a": [{"b": "yes"}]}
    assert run("contract", "version", "publish", TOOL, "1.0.0")["version"] == "1.0.0"
    assert run("contract", "version", "draft", TOOL)["version"] == "1.0.1-draft.0"
    assert [one["version"] for one in run("contract", "version", "list", TOOL)["data"]] == [
        "1.0.1-draft.0",
        "1.0.0",
    ]
    drafts = run("contract", "version", "list", TOOL, "--status", "draft")
    assert (drafts["total"], drafts["data"][0]["status"]) == (1, "DRAFT")
    assert run("contract", "version", "get", f"{TOOL}@^1")["version"] == "1.0.0"
    assert run("contract", "schema", "get", f"{TOOL}@1.0.0") == SCHEMA
    run("contract", "schema", "get", f"{TOOL}@1.0.0", "--file", "got.json")
    assert json.loads((home.work / "got.json").read_text()) == SCHEMA
    assert run("contract", "version", "delete", draft) == {"deleted": True, "ref": draft}
    assert run("contract", "update", TOOL, "--description", "", "--tag", "web")["tags"] == ["web"]
    got = run("contract", "get", TOOL)
    assert (got["description"], got["dependent_count"], got["versions"]["total"]) == (None, 0, 1)
    listed = run("contract", "list", "@acme", "--search", "FETCH")
    assert (listed["total"], listed["data"][0]["name"]) == (1, "fetch-page")


def test_dump_writes_the_six_files_and_they_go_back(run, refused, home) -> None:
    """Contract: dump; edit; push each piece back."""
    run("contract", "create", TOOL, "--description", "Fetches pages")
    draft = f"{TOOL}@draft"
    (home.work / "s.json").write_text(json.dumps(SCHEMA))
    run("contract", "schema", "set", draft, "--file", "s.json")
    run("contract", "schema", "set", draft, "--output", "--file", "s.json")
    run("contract", "version", "set-description", draft, "--content", "Fetch.")
    run("contract", "version", "set-metadata", draft, "--integer", "n=3", "--string", "o=me")
    done = run("contract", "dump", draft, "--to", "d")
    names = ["README.md", "description.md", "input-schema.json", "metadata.yaml"]
    names += ["output-schema.json", "tool.yaml"]
    assert done["files"] == names
    folder = home.work / "d"
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert (folder / "description.md").read_text() == "Fetch."
    assert (folder / "README.md").read_text() == ""
    assert (folder / "metadata.yaml").read_text() == "'n': 3\no: me\n"
    assert (folder / "tool.yaml").read_text() == (
        "description: Fetches pages\nname: fetch-page\nstatus: DRAFT\ntags: []\n"
        "version: 0.0.1-draft.0\nvisibility: PRIVATE\n"
    )
    before = run("contract", "version", "get", draft)
    run("contract", "schema", "set", draft, "--file", "d/input-schema.json")
    run("contract", "schema", "set", draft, "--output", "--file", "d/output-schema.json")
    run("contract", "version", "set-description", draft, "--file", "d/description.md")
    run("contract", "version", "set-readme", draft, "--file", "d/README.md")
    run("contract", "version", "set-metadata", draft, "--from-file", "d/metadata.yaml")
    after = run("contract", "version", "get", draft)
    moving = ("revision", "updated_at")
    assert {k: v for k, v in after.items() if k not in moving} == {
        k: v for k, v in before.items() if k not in moving
    }
    assert refused("contract", "dump", draft, "--to", "d") == (2, "folder_not_empty")
    run("contract", "schema", "set", draft, "--output", "--clear")
    run("contract", "dump", draft, "--to", "e")
    assert not (home.work / "e" / "output-schema.json").exists()
    run("contract", "dump", draft, "--to", "d", "--force")


def test_a_schema_outside_the_subset_is_refused_before_any_registry_is_opened(
    invoke, refused, home
) -> None:
    """Contract: the check is local, with a pointer to each place."""
    schema = {"type": "object", "properties": {"a": {"$ref": "#/x"}, "b/c": {"not": {}}}}
    (home.work / "s.json").write_text(json.dumps(schema))
    args = ("contract", "schema", "set", f"{TOOL}@draft", "--file", "s.json")
    assert refused(*args) == (3, "schema_outside_subset")
    error = json.loads(invoke(*args, "--json").stdout)["error"]
    assert [one["pointer"] for one in error["problems"]] == ["/properties/a", "/properties/b~1c"]
    shown = invoke(*args)
    assert "s.json: 2 problems\n  /properties/a: " in shown.stderr


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (("contract", "get", TOOL), (8, "registry_missing")),
        (("contract", "create", "fetch"), (3, "bad_ref")),
        (("contract", "create", "@acme/Fetch"), (3, "tool_name")),
        (("contract", "create", f"{TOOL}@1.0.0"), (3, "bad_ref")),
        (("contract", "list", "acme"), (3, "bad_ref")),
        (("contract", "list", "@acme", "--limit", "0"), (2, "usage")),
        (("contract", "version", "get", TOOL), (3, "bad_ref")),
        (("contract", "version", "list", TOOL, "--status", "x"), (2, "usage")),
        (("contract", "version", "publish", TOOL, "1.0"), (3, "version_number")),
        (("contract", "version", "publish", TOOL, "v1.0.0"), (3, "version_number")),
        (("contract", "version", "set-readme", f"{TOOL}@draft"), (2, "usage")),
        (
            ("contract", "version", "set-readme", f"{TOOL}@draft", "--content", "", "--file", ""),
            (2, "usage"),
        ),
        (
            ("contract", "version", "set-readme", f"{TOOL}@draft", "--file", "no"),
            (2, "input_unreadable"),
        ),
        (("contract", "version", "set-metadata", f"{TOOL}@draft"), (2, "usage")),
        (
            ("contract", "version", "set-metadata", f"{TOOL}@draft", "--integer", "i=x"),
            (2, "usage"),
        ),
        (("contract", "version", "set-metadata", f"{TOOL}@draft", "--string", "x"), (2, "usage")),
        (("contract", "schema", "set", f"{TOOL}@draft"), (2, "usage")),
        (("contract", "schema", "set", f"{TOOL}@draft", "--clear"), (2, "usage")),
        (("contract", "update", TOOL), (2, "usage")),
        (("contract", "get", TOOL, "--registry", "http://u:p@x"), (3, "registry_url")),
        (("prompt", "tools", "add", PROMPT, f"{TOOL}@^1"), (3, "bad_ref")),
        (("prompt", "tools", "add", f"{PROMPT}@draft", TOOL), (3, "bad_ref")),
        (
            ("prompt", "tools", "add", f"{PROMPT}@draft", f"{TOOL}@latest"),
            (3, "bad_constraint"),
        ),
        (
            ("prompt", "tools", "add", f"{PROMPT}@draft", f"{TOOL}@*", "--as", "a b"),
            (3, "wire_name"),
        ),
        (("prompt", "file", "update", f"{PROMPT}@draft", "x"), (2, "usage")),
        (("prompt", "version", "set-output-schema", f"{PROMPT}@draft"), (2, "usage")),
        (
            (*_CONFIG, "--provider", "nobody", "--model", "m"),
            (3, "provider"),
        ),
        (("prompt", "version", "publish", f"{PROMPT}@draft", "1.0.0"), (3, "bad_ref")),
    ],
    ids=range(28),
)
def test_a_mistake_is_told_before_any_registry_is_opened(refused, args, expected) -> None:
    """Contract: references and versions are checked here; there is no registry to ask."""
    assert refused(*args) == expected


@on_both
def test_a_prompt_is_authored_with_files_pins_and_all(run, refused, home) -> None:
    """Contract: the operations of the command tables."""
    run("contract", "create", TOOL)
    run("contract", "version", "publish", TOOL, "1.2.0")
    run("contract", "create", "@acme/wip")
    assert run("prompt", "create", PROMPT, "--kind", "system-one")["kind"] == "SYSTEM_ONE"
    draft = f"{PROMPT}@draft"
    files = run("prompt", "file", "list", draft)["files"]
    assert [(one["name"], one["is_entrypoint"]) for one in files] == [
        ("systemPrompt", True),
        ("userPrompt", True),
    ]
    run("prompt", "file", "create", draft, "part", "--content", "Hi {{name}}", "--format", "yaml")
    run("prompt", "file", "update", draft, "part", "--content", "Ho {{name}}", "--format", "text")
    run("prompt", "file", "update", draft, "part", "--rename", "piece")
    run("prompt", "file", "set-entrypoint", draft, "piece")
    run("prompt", "file", "set-entrypoint", draft, "piece", "--clear")
    piece = run("prompt", "file", "get", draft, "piece")
    assert (piece["content"], piece["is_entrypoint"], piece["format"]) == (
        "Ho {{name}}",
        False,
        "TEXT",
    )
    assert run("prompt", "file", "delete", draft, "piece")["deleted"] is True
    assert refused("prompt", "file", "get", draft, "piece") == (8, "file_unknown")

    pinned = run("prompt", "tools", "add", draft, f"{TOOL}@^1", "--as", "web_search")
    assert [(one["wire_name"], one["tool"], one["version"]) for one in pinned["tools"]] == [
        ("web_search", TOOL, "1.2.0")
    ]
    assert refused("prompt", "tools", "add", draft, f"{TOOL}@*") == (8, "one_version_per_tool")
    run("prompt", "tools", "add", draft, "@acme/wip@draft")
    assert refused("prompt", "tools", "rename", draft, TOOL, "--as", "wip") == (
        8,
        "wire_name_taken",
    )
    renamed = run("prompt", "tools", "rename", draft, TOOL, "--as", "Fetch")
    assert [one["wire_name"] for one in renamed["tools"]] == ["Fetch", "wip"]
    assert refused("prompt", "version", "publish", PROMPT, "1.0.0") == (
        8,
        "pinned_tools_published",
    )
    assert len(run("prompt", "tools", "remove", draft, "@acme/wip")["tools"]) == 1

    done = run("prompt", "version", "set-metadata", draft, "--string", "a=1", "--integer", "b=2")
    assert done["metadata"] == {"a": "1", "b": 2}
    assert run("prompt", "version", "delete-metadata", draft, "a", "x")["metadata"] == {"b": 2}
    args = ("prompt", "version", "set-metadata", draft, "--from-file", "-")
    assert run(*args, stdin="{}")["metadata"] == {}
    assert refused(*args, stdin="a: [1]") == (3, "metadata_flat")
    args = ("prompt", "version", "set-output-schema", draft)
    assert run(*args, "--file", "-", stdin='{"type": "array"}')["output_schema"] == {
        "type": "array"
    }
    assert run(*args, "--clear")["output_schema"] is None
    run("prompt", "version", "set-readme", draft, "--content", "# Hi")
    assert run("prompt", "version", "get-readme", draft)["readme"] == "# Hi"
    args = ("prompt", "version", "set-model-config", draft)
    chosen = ("--provider", "anthropic", "--model", "m", "--parameters")
    assert refused(*args, *chosen, "{t: 1}") == (2, "arguments_invalid")
    assert refused(*args, *chosen, "@no") == (2, "arguments_unreadable")
    done = run(*args, *chosen, "-", stdin='{"t": 0.5}')
    assert done["model_config"] == {
        "provider": "ANTHROPIC",
        "model": "m",
        "parameters": {"t": 0.5},
    }
    run("prompt", "version", "dump", draft, "--to", "p")
    assert sorted(
        str(path.relative_to(home.work / "p"))
        for path in (home.work / "p").rglob("*")
        if path.is_file()
    ) == [
        "README.md",
        "files/systemPrompt.mustache",
        "files/userPrompt.mustache",
        "metadata.yaml",
        "model-config.yaml",
        "tools.yaml",
    ]
    assert (home.work / "p" / "tools.yaml").read_text() == (
        "tools:\n  - alias: Fetch\n    ref: '@acme/fetch-page'\n"
        "    status: PUBLISHED\n    version: 1.2.0\n"
    )
    assert run(*args, "--from-file", "p/model-config.yaml")["model_config"]["model"] == "m"

    assert run("prompt", "version", "publish", PROMPT, "1.0.0")["version"] == "1.0.0"
    assert refused("prompt", "tools", "remove", f"{PROMPT}@1.0.0", TOOL) == (8, "pins_draft_only")
    assert run("prompt", "version", "draft", PROMPT)["pins"][0]["alias"] == "Fetch"
    assert run("prompt", "version", "list", PROMPT, "--status", "PUBLISHED")["total"] == 1
    assert run("prompt", "version", "get", f"{PROMPT}@^1")["version"] == "1.0.0"
    assert run("prompt", "tools", "list", f"{PROMPT}@1.0.0")["tools"][0]["status"] == "PUBLISHED"
    assert run("prompt", "version", "delete", draft)["deleted"] is True
    assert run("prompt", "update", PROMPT, "--description", "Daily")["description"] == "Daily"
    assert run("prompt", "get", PROMPT)["versions"]["total"] == 1
    assert run("prompt", "list", "@acme")["total"] == 1
    assert run("contract", "get", TOOL)["dependent_count"] == 1


def test_people_read_tables_and_lines(run, invoke) -> None:
    """Data on standard output, remarks on standard error."""
    run("contract", "create", TOOL, "--description", "Fetches pages")
    run("contract", "version", "set-description", f"{TOOL}@draft", "--content", "a\x1b[31mb")
    run("prompt", "create", PROMPT)
    done = invoke("prompt", "tools", "add", f"{PROMPT}@draft", f"{TOOL}@draft")
    assert done.stderr == f"pinned {TOOL}@0.0.1-draft.0 to {PROMPT}@0.0.1-draft.0\n"
    assert done.stdout.splitlines() == [
        "WIRE NAME   TOOL              VERSION        STATUS",
        "fetch-page  @acme/fetch-page  0.0.1-draft.0  DRAFT",
    ]
    shown = invoke("contract", "version", "get", f"{TOOL}@draft").stdout
    assert "output schema:\n  (not set)\n" in shown
    assert "\x1b" not in shown
    assert "versions:    1\n" in invoke("contract", "get", TOOL).stdout
    assert invoke("contract", "list", "@acme", "--search", "zzz").stderr == "no tools found\n"
    for args in (
        ("prompt", "get", PROMPT),
        ("prompt", "list", "@acme"),
        ("prompt", "file", "list", f"{PROMPT}@draft"),
        ("prompt", "version", "get", f"{PROMPT}@draft"),
        ("prompt", "version", "list", PROMPT),
        ("contract", "version", "list", TOOL),
        ("registry", "whoami"),
    ):
        done = invoke(*args)
        assert (done.exit_code, bool(done.stdout)) == (0, True), args


@on_both
def test_check_and_diff_say_what_breaks(run, invoke, home) -> None:
    """Contract: exact or compatible, and changes by pointer; exit 3 for what does not fit."""
    run("contract", "create", TOOL)
    draft = f"{TOOL}@draft"
    (home.work / "s.json").write_text(json.dumps(SCHEMA))
    run("contract", "schema", "set", draft, "--file", "s.json")
    run("contract", "version", "set-description", draft, "--content", "Fetch.")
    run("contract", "version", "publish", TOOL, "1.0.0")
    done = run("contract", "export", f"{TOOL}@1.0.0", "--to", "fetch", "--lang", "python")
    assert done["files"] == ["index.py", "tool.json"]
    assert run("contract", "check", "fetch", f"{TOOL}@1.0.0")["verdict"] == "exact"

    run("contract", "version", "draft", TOOL)
    wider = SCHEMA | {"properties": {"url": {"type": "string"}, "n": {"type": "integer"}}}
    (home.work / "s.json").write_text(json.dumps(wider))
    run("contract", "schema", "set", draft, "--file", "s.json")
    run("contract", "version", "set-description", draft, "--content", "Fetch more.")
    done = run("contract", "diff", f"{TOOL}@1.0.0", draft)
    assert (done["equal"], done["breaking"]) == (False, False)
    assert [one["pointer"] for one in done["changes"]] == [
        "/description",
        "/inputSchema/properties/n",
    ]
    backwards = ("contract", "diff", draft, f"{TOOL}@1.0.0")
    assert run(*backwards)["breaking"] is True
    assert invoke(*backwards, "--fail-on-breaking").exit_code == 3
    checked = invoke("contract", "check", "fetch", draft, "--json")
    assert (checked.exit_code, json.loads(checked.stdout)["verdict"]) == (3, "incompatible")
    assert invoke("contract", "check", "fetch", draft).stdout.startswith("incompatible: fetch and")
    manifest = json.loads((home.work / "fetch" / "tool.json").read_text())
    manifest["description"] = "Fetch it."
    (home.work / "fetch" / "tool.json").write_text(json.dumps(manifest))
    assert run("contract", "check", "fetch", f"{TOOL}@1.0.0")["verdict"] == "compatible"
    assert invoke("contract", "check", "fetch", f"{TOOL}@1.0.0", "--exact").exit_code == 3


@pytest.mark.parametrize("package", ["nodesemver", "yaml"])
def test_without_the_extras_packages_the_command_says_what_to_install(
    run, refused, invoke, monkeypatch, package
) -> None:
    """The registry is an extra; the rest of `raw` works without it."""
    run("contract", "create", TOOL)
    for name in (package, "raw_exec.contracts.versions", "raw_exec.contracts.yamltext"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    args = {
        "nodesemver": ("contract", "version", "publish", TOOL, "1.0.0"),
        "yaml": ("contract", "dump", f"{TOOL}@draft", "--to", "d"),
    }[package]
    assert refused(*args) == (2, "extra_missing")
    assert "pip install 'raw-exec[contracts]'" in invoke(*args).stderr
