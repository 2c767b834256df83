"""`raw add`, `install`, `update`, `remove`, `generate`, and which registry they ask."""

from __future__ import annotations

import json
import shutil

import pytest

TOOL, PROMPT = "@acme/fetch-page", "@acme/daily-brief"


@pytest.fixture
def registry(request, run, home) -> str:
    """A registry of its own, with a published prompt that pins a tool; a file unless asked."""
    if getattr(request, "param", "sqlite") == "postgres":
        db = str(request.getfixturevalue("postgres_url"))
    else:
        db = str(home.root / "registry.db")
    run("registry", "user", "add", "ann@example.com", "--db", db)
    run("registry", "workspace", "add", "acme", "--owner", "ann@example.com", "--db", db)
    run("contract", "create", TOOL, "--registry", db)
    run("contract", "version", "publish", TOOL, "1.0.0", "--registry", db)
    run("prompt", "create", PROMPT, "--registry", db)
    run("prompt", "tools", "add", f"{PROMPT}@draft", f"{TOOL}@1.0.0", "--registry", db)
    run("prompt", "version", "publish", PROMPT, "1.0.0", "--registry", db)
    return db


def test_a_project_is_added_to_installed_generated_and_emptied(run, invoke, registry, home) -> None:
    """Contract: add, install, generate; the second time nothing is asked or changed."""
    done = run("add", PROMPT, "--registry", registry, "--output", "gen/prompts.py")
    (added,) = done["prompts"]
    assert (added["name"], added["version"], added["state"]) == (PROMPT, "1.0.0", "fetched")
    project = json.loads((home.work / "raw-contracts.json").read_text())
    assert project == {
        "registry": "../registry.db",
        "prompts": {PROMPT: "*"},
        "outputs": [{"language": "python", "file": "gen/prompts.py"}],
    }
    assert invoke("generate", "--check").exit_code == 8
    assert run("generate")["files"][0]["changed"] is True
    assert run("generate", "--check")["files"][0]["changed"] is False
    assert run("generate", "--output", "gen/prompts.ts")["files"][0]["language"] == "typescript"
    shutil.move(registry, registry + ".away")
    assert run("install", "--frozen")["prompts"][0]["state"] == "cached"
    shutil.move(registry + ".away", registry)
    shutil.rmtree(home.work / ".raw")
    done = invoke("generate")
    assert (done.exit_code, "raw install" in done.stderr) == (8, True)
    done = invoke("install")
    assert done.stdout == f"{PROMPT}@1.0.0 (fetched)\n"
    assert done.stderr == "1 prompt(s) installed\n"
    assert run("update")["prompts"][0]["state"] == "unchanged"
    assert (
        invoke("add", PROMPT, "--as", "@acme/old").stdout
        == f"@acme/old = {PROMPT}@1.0.0 (fetched)\n"
    )
    assert run("remove", "@acme/old") == {"removed": "@acme/old"}
    assert invoke("remove", "@acme/old").exit_code == 2


@pytest.mark.parametrize("registry", ["sqlite", "postgres"], indirect=True)
def test_draft_pins_are_warned_of_on_standard_error_and_in_json(run, invoke, registry) -> None:
    """Contract: `pins draft tool "x"`."""
    run("contract", "version", "draft", TOOL, "--registry", registry)
    run("prompt", "version", "draft", PROMPT, "--registry", registry)
    draft = f"{PROMPT}@draft"
    run("prompt", "tools", "remove", draft, TOOL, "--registry", registry)
    run("prompt", "tools", "add", draft, f"{TOOL}@draft", "--as", "x", "--registry", registry)
    done = invoke("add", draft, "--registry", registry)
    assert f'warning: prompt "{PROMPT}" pins draft tool "x"\n' in done.stderr
    assert 'pins draft tool "x"' in run("install")["prompts"][0]["warnings"][1]
    assert invoke("install", "-q").stderr == ""


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("install",), 2),
        (("generate",), 2),
        (("remove", PROMPT), 2),
        (("add", "daily-brief"), 3),
        (("add", f"{PROMPT}@latest"), 3),
        (("add", PROMPT, "--as", "@acme/+x"), 3),
        (("add", PROMPT, "--output", "x.go"), 2),
        (("add", PROMPT, "--output", "../x.py"), 2),
        (("add", "@acme/unknown"), 8),
        (("add", f"{PROMPT}@^9"), 8),
    ],
)
def test_a_mistake_writes_nothing(invoke, registry, home, monkeypatch, args, status) -> None:
    """Contract: on failure the project is left unchanged."""
    monkeypatch.setenv("RAW_REGISTRY", registry)
    done = invoke(*args, "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["message"] != "") == (status, True)
    assert list(home.work.iterdir()) == []


def test_the_registry_is_the_first_that_is_named(run, invoke, registry, home, monkeypatch) -> None:
    """Option, environment, project, configuration, database of the environment, default."""

    def asked(*args: str) -> str:
        return str(run("registry", "whoami", *args)["registry"])

    def missing(*args: str) -> str:
        done = invoke(*args, "--json")
        return str(json.loads(done.stdout)["error"]["message"]).split(";")[0]

    default = f"{home.root}/.local/share/raw/registry.db"
    assert missing("contract", "get", TOOL) == f"there is no registry at {default}"
    monkeypatch.setenv("RAW_REGISTRY_DB", registry)
    assert asked() == registry
    home.configure(contracts={"store": "kept.db"})
    kept = f"there is no registry at {home.config_dir}/kept.db"
    assert missing("contract", "get", TOOL) == kept
    (home.work / "raw-contracts.json").write_text(
        json.dumps({"registry": "own.db", "prompts": {PROMPT: "*"}})
    )
    assert missing("install") == f"there is no registry at {home.work}/own.db"
    assert missing("contract", "get", TOOL) == kept
    monkeypatch.setenv("RAW_REGISTRY", registry)
    assert asked() == registry
    assert run("install")["prompts"][0]["version"] == "1.0.0"
    assert missing("registry", "whoami", "--registry", "other.db").endswith("other.db")


def test_a_key_goes_only_to_the_registry_that_it_belongs_to(home, monkeypatch) -> None:
    """Security: a project that names its own server gets no key of another."""
    from raw_exec.cli import registry_access
    from raw_exec.contracts.client import Credential

    monkeypatch.setenv("RAW_REGISTRY", "https://mine.test/")
    monkeypatch.setenv("RAW_REGISTRY_KEY", "env-key")
    registry_access.credentials().add("https://other.test", Credential("login-key"))
    token = registry_access._token_for
    assert token("https://mine.test") == "env-key"
    assert token("https://other.test") == "login-key"
    for stranger in ("https://evil.test", "http://mine.test", "https://mine.test:444"):
        assert token(stranger) is None
    monkeypatch.setenv("RAW_REGISTRY", "registry.db")
    assert token("https://mine.test") is None
