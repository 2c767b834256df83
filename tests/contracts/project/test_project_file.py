"""The project's file and its lock, as people and strangers write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from raw_exec.contracts.project import (
    Entry,
    Output,
    generate_bindings,
    language_of,
    load_lock,
    load_project,
)
from raw_exec.errors import ConfigError


def _write(root: Path, value: object, name: str = "raw-contracts.json") -> Path:
    text = value if isinstance(value, str) else json.dumps(value)
    (root / name).write_text(text, encoding="utf-8")
    return root


def test_a_project_is_read_and_written_back_alike(tmp_path) -> None:
    """Nothing of it is lost by `raw add`."""
    value = {
        "registry": "https://registry.test",
        "prompts": {"@acme/brief": "^1.0.0", "@acme/old": "@acme/brief@1.0.0", "@b/c": "draft"},
        "outputs": [{"language": "python", "file": "gen/prompts.py"}],
    }
    project = load_project(_write(tmp_path, value))
    assert project.registry == "https://registry.test"
    assert project.entries["@acme/old"] == Entry(
        "@acme/old", project.entries["@acme/brief"].ref, "1.0.0"
    )
    assert project.outputs == (Output("python", "gen/prompts.py"),)
    project.save()
    assert json.loads((tmp_path / "raw-contracts.json").read_text()) == value


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ("{", ""),
        ([], ""),
        ({}, ""),
        ({"prompts": {}, "more": 1}, "/more"),
        ({"prompts": []}, "/prompts"),
        ({"prompts": {"@acme/x": 5}}, "/prompts/@acme~1x"),
        ({"prompts": {"@acme/x": "latest"}}, "/prompts/@acme~1x"),
        ({"prompts": {"@acme/x": "@acme/y"}}, "/prompts/@acme~1x"),
        ({"prompts": {"@acme/../x": "*"}}, "/prompts/@acme~1..~1x"),
        ({"prompts": {"acme/x": "*"}}, "/prompts/acme~1x"),
        ({"prompts": {}, "registry": "ftp://x"}, "/registry"),
        ({"prompts": {}, "registry": "postgresql://u:p@h/d"}, "/registry"),
        ({"prompts": {}, "outputs": [{"language": "go", "file": "x"}]}, "/outputs/0/language"),
        ({"prompts": {}, "outputs": [{"language": "python"}]}, "/outputs/0"),
        (
            {"prompts": {}, "outputs": [{"language": "python", "file": "../x.py"}]},
            "/outputs/0/file",
        ),
        (
            {"prompts": {}, "outputs": [{"language": "python", "file": "/etc/x.py"}]},
            "/outputs/0/file",
        ),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(tmp_path, value, pointer) -> None:
    """Every problem by JSON Pointer, line and column."""
    with pytest.raises(ConfigError) as caught:
        load_project(_write(tmp_path, value))
    assert caught.value.code == "project_invalid"
    assert [one.pointer for one in caught.value.problems] == [pointer]
    assert all(one.line for one in caught.value.problems)


def test_a_missing_project_says_how_to_begin(tmp_path) -> None:
    """`raw add` makes one."""
    with pytest.raises(ConfigError) as caught:
        load_project(tmp_path)
    assert (caught.value.code, "raw add" in str(caught.value.hint)) == ("project_missing", True)


def test_nothing_is_written_through_a_link_that_leads_out_of_the_project(tmp_path) -> None:
    """Security: a repository may hold links; bindings go nowhere else."""
    root, outside = tmp_path / "project", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "gen").symlink_to(outside)
    _write(root, {"prompts": {}})
    project = load_project(root)
    with pytest.raises(ConfigError) as caught:
        generate_bindings(project, [Output("python", "gen/prompts.py")])
    assert (caught.value.code, list(outside.iterdir())) == ("path_outside", [])
    (root / "inner").mkdir()
    (root / "link").symlink_to("inner")
    generate_bindings(project, [Output("python", "link/prompts.py")])
    assert (root / "inner/prompts.py").exists()


def test_a_linked_output_is_replaced_and_not_followed(tmp_path) -> None:
    """Security: the file at the other end stays as it is."""
    root, victim = tmp_path / "project", tmp_path / "victim.py"
    root.mkdir()
    victim.write_text("mine\n")
    (root / "prompts.py").symlink_to(victim)
    _write(root, {"prompts": {}})
    generate_bindings(load_project(root), [Output("python", "prompts.py")])
    assert victim.read_text() == "mine\n"
    assert not (root / "prompts.py").is_symlink()


@pytest.mark.parametrize(
    "change",
    [
        {"integrity": "sha256-xyz"},
        {"integrity": None},
        {"version": "../../x"},
        {"version": "latest"},
        {"prompt": "acme/x"},
        {"more": 1},
    ],
)
def test_a_lock_that_is_none_is_refused(tmp_path, change) -> None:
    """Security: what it says becomes paths."""
    one = {
        "prompt": "@acme/x",
        "constraint": "*",
        "version": "1.0.0",
        "integrity": "sha256-" + "0" * 64,
    }
    good = {"lock_version": 1, "prompts": {"@acme/x": one}}
    _write(tmp_path, good, "raw-contracts.lock.json")
    assert load_lock(tmp_path)["@acme/x"].version == "1.0.0"
    bad = {"lock_version": 1, "prompts": {"@acme/x": one | change}}
    for value in (bad, good | {"lock_version": 2}, "[]", "{"):
        _write(tmp_path, value, "raw-contracts.lock.json")
        with pytest.raises(ConfigError) as caught:
            load_lock(tmp_path)
        assert caught.value.code == "lock_invalid"


def test_the_language_is_read_from_the_ending() -> None:
    """Two languages are generated."""
    assert (language_of("a/b.py"), language_of("c.ts")) == ("python", "typescript")
    with pytest.raises(ConfigError):
        language_of("c.go")
