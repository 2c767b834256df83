"""``hook.json`` and its folder: every field, every limit, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from raw_exec.errors import ManifestError
from raw_exec.manifest import HookManifest, Subscription, load_hook, parse_hook_manifest
from raw_exec.manifest.hook import MAX_HOOK_BYTES, MAX_HOOK_FILES
from raw_exec.policy import Predicate, compile_glob

MINIMAL: dict[str, Any] = {
    "protocol_version": 2,
    "name": "guard",
    "events": [{"name": "PreToolUse"}],
    "command": "node",
}
WHEN = {"source": "arguments", "any": "text", "regex": "x"}


def parsed(**fields: Any) -> HookManifest:
    return parse_hook_manifest(json.dumps({**MINIMAL, **fields}), folder_name="guard")


def pointers(document: Any) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse_hook_manifest(json.dumps(document), folder_name="guard")
    assert caught.value.code == "manifest_invalid"
    return [problem.pointer for problem in caught.value.problems]


def test_a_minimal_manifest_has_the_documented_defaults() -> None:
    """Contract: no args, 5000 ms, and an event without match is about every tool."""
    assert parsed() == HookManifest(
        name="guard", events=(Subscription(0, "PreToolUse"),), command="node", timeout_ms=5000
    )


def test_every_field_is_read() -> None:
    """Contract: the fields of ``raw.hook/2``, whole values compared."""
    manifest = parsed(
        events=[
            {"name": "PreToolUse", "match": "local/*", "when": WHEN},
            {"name": "PreToolUse", "match": "agent/?"},
            {"name": "SessionEnd"},
        ],
        command="./run.sh",
        args=["./data.json", "--flag=./x", "../up"],
        timeout_ms=30000,
    )
    assert manifest == HookManifest(
        name="guard",
        events=(
            Subscription(
                0, "PreToolUse", compile_glob("local/*"), Predicate("arguments", "text", "x")
            ),
            Subscription(1, "PreToolUse", compile_glob("agent/?")),
            Subscription(2, "SessionEnd"),
        ),
        command="./run.sh",
        args=("./data.json", "--flag=./x", "../up"),
        timeout_ms=30000,
    )
    assert [entry.reaches("agent/t") for entry in manifest.events[:2]] == [False, True]


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"protocol_version": 1}, ["/protocol_version"]),
    ({"protocol_version": True}, ["/protocol_version"]),
    ({"protocol_version": "2"}, ["/protocol_version"]),
    ({"name": "other"}, ["/name"]),
    ({"name": "Guard"}, ["/name"]),
    ({"name": 1}, ["/name"]),
    ({"extra": 1}, ["/extra"]),
    ({"matcher": "*"}, ["/matcher"]),
    ({"events": []}, ["/events"]),
    ({"events": {}}, ["/events"]),
    ({"events": [{"name": "PreToolUse"}] * 65}, ["/events"]),
    ({"events": ["PreToolUse"]}, ["/events/0"]),
    ({"events": [{}]}, ["/events/0"]),
    ({"events": [{"name": "pretooluse"}]}, ["/events/0/name"]),
    ({"events": [{"name": "PreCompact"}]}, ["/events/0/name"]),
    ({"events": [{"name": "Stop", "match": "*"}]}, ["/events/0/match"]),
    ({"events": [{"name": "UserPromptSubmit", "when": WHEN}]}, ["/events/0/when"]),
    ({"events": [{"name": "PreToolUse", "match": ""}]}, ["/events/0/match"]),
    ({"events": [{"name": "PreToolUse", "match": 1}]}, ["/events/0/match"]),
    ({"events": [{"name": "PreToolUse", "if": 1}]}, ["/events/0/if"]),
    ({"events": [{"name": "PreToolUse", "when": {}}]}, ["/events/0/when"]),
    ({"events": [{"name": "PreToolUse", "when": {**WHEN, "source": "env"}}]}, ["/events/0/when"]),
    ({"events": [{"name": "PreToolUse", "when": {**WHEN, "regex": "("}}]}, ["/events/0/when"]),
    ({"events": [{"name": "PreToolUse", "when": {**WHEN, "any": "a..b"}}]}, ["/events/0/when"]),
    ({"command": ""}, ["/command"]),
    ({"command": "/usr/bin/node"}, ["/command"]),
    ({"command": "../node"}, ["/command"]),
    ({"command": "bin/node"}, ["/command"]),
    ({"command": "./../node"}, ["/command"]),
    ({"command": "node --flag"}, ["/command"]),
    ({"command": ".."}, ["/command"]),
    ({"command": ["node"]}, ["/command"]),
    ({"args": "x"}, ["/args"]),
    ({"args": ["./a/../../b"]}, ["/args/0"]),
    ({"args": ["a\0b", 1]}, ["/args/0", "/args/1"]),
    ({"args": ["x"] * 257}, ["/args"]),
    ({"timeout_ms": 0}, ["/timeout_ms"]),
    ({"timeout_ms": 30001}, ["/timeout_ms"]),
    ({"timeout_ms": 1.5}, ["/timeout_ms"]),
]


@pytest.mark.parametrize(("change", "where"), WRONG, ids=lambda v: json.dumps(v)[:60])
def test_what_is_wrong_is_refused_where_it_is(change: dict[str, Any], where: list[str]) -> None:
    """Contract: strict, unknown fields included; each problem has its pointer."""
    assert pointers({**MINIMAL, **change}) == where


@pytest.mark.parametrize("field", list(MINIMAL))
def test_every_required_field_is_missed(field: str) -> None:
    """Contract: version, name, events and command are required."""
    assert pointers({k: v for k, v in MINIMAL.items() if k != field}) == [""]


@pytest.mark.parametrize(
    "text", ["[]", "null", "", "{", '{"name":"a","name":"b"}', '{"name":NaN}', "\ufeff{}"]
)
def test_what_is_not_one_strict_object_is_refused(text: str) -> None:
    """Our choice: the same strict JSON as everywhere."""
    with pytest.raises(ManifestError) as caught:
        parse_hook_manifest(text)
    assert caught.value.code == "manifest_invalid"


# ---------------------------------------------------------------- folders


def write(root: Path, **fields: Any) -> Path:
    folder = root / "guard"
    folder.mkdir()
    (folder / "hook.json").write_text(json.dumps({**MINIMAL, **fields}))
    return folder


def refusal(root: Path) -> tuple[str, str]:
    with pytest.raises(ManifestError) as caught:
        load_hook(root, "guard", source="agent")
    return caught.value.code, str(caught.value)


def test_a_folder_is_frozen_as_it_is(tmp_path: Path) -> None:
    """Contract: an edit after load changes nothing."""
    folder = write(tmp_path, args=["./lib/a.mjs"])
    (folder / "lib").mkdir()
    (folder / "lib" / "a.mjs").write_text("first")
    loaded = load_hook(tmp_path, "guard", source="agent")
    (folder / "lib" / "a.mjs").write_text("second")
    assert (loaded.identity, loaded.snapshot.in_memory) == ("agent/guard", True)
    assert loaded.snapshot.read("lib/a.mjs") == b"first"
    copy = loaded.snapshot.materialise(tmp_path / "store")
    assert (copy / "lib" / "a.mjs").read_bytes() == b"first"


def test_256_files_are_accepted_and_257_are_not(tmp_path: Path) -> None:
    """Contract: at most 256 regular files, hook.json among them; folders do not count."""
    folder = write(tmp_path)
    (folder / "below").mkdir()
    for number in range(MAX_HOOK_FILES - 1):
        (folder / "below" / f"{number}").touch()
    assert len(load_hook(tmp_path, "guard", source="local").snapshot.entries) == 257
    (folder / "one_more").touch()
    assert refusal(tmp_path)[0] == "snapshot_too_large"


def test_16_mib_are_accepted_and_a_byte_more_is_not(tmp_path: Path) -> None:
    """Contract: at most 16 MiB in all files together."""
    folder = write(tmp_path)
    room = MAX_HOOK_BYTES - (folder / "hook.json").stat().st_size
    with open(folder / "blob", "wb") as blob:
        blob.truncate(room)
    assert load_hook(tmp_path, "guard", source="agent").snapshot.in_memory is False
    with open(folder / "blob", "ab") as blob:
        blob.write(b"x")
    assert refusal(tmp_path)[0] == "snapshot_too_large"


@pytest.mark.parametrize("target", ["hook.json", "/etc/passwd", "../guard", "missing"])
def test_links_are_refused_wherever_they_lead(tmp_path: Path, target: str) -> None:
    """Contract: links refused, unlike in tool folders."""
    folder = write(tmp_path)
    (folder / "link").symlink_to(target)
    code, text = refusal(tmp_path)
    assert (code, "link" in text) == ("snapshot_refused", True)


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Contract: the same for the folder itself, even inside its root."""
    write(tmp_path).rename(tmp_path / "real")
    (tmp_path / "guard").symlink_to("real")
    assert refusal(tmp_path)[0] == "hook_unreadable"


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """Our choice: as in tool folders."""
    os.mkfifo(write(tmp_path) / "pipe")
    assert refusal(tmp_path)[0] == "snapshot_refused"


def test_missing_things_are_named(tmp_path: Path) -> None:
    """Our choice: a typing mistake is found at load, not when the gate should hold."""
    assert refusal(tmp_path)[0] == "hook_not_found"
    folder = write(tmp_path, command="./run", args=["./no.mjs", "./", "plain"])
    with pytest.raises(ManifestError) as caught:
        load_hook(tmp_path, "guard", source="agent")
    assert caught.value.code == "entry_missing"
    assert [p.pointer for p in caught.value.problems] == ["/command", "/args/0"]
    (folder / "no.mjs").touch()
    (folder / "run").touch()
    assert "not executable" in refusal(tmp_path)[1]
    (folder / "run").chmod(0o755)
    load_hook(tmp_path, "guard", source="agent")
    (folder / "hook.json").unlink()
    assert refusal(tmp_path)[0] == "manifest_missing"
