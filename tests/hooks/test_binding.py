"""Selected hooks against selected tools: order, problems, and what is never opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import raw_exec
from raw_exec.hooks import discover_hooks, load_hooks
from raw_exec.tools import load_registry
from tests.hooks.support import CONTINUE, SCHEMA, configure, write_hook
from toolbox import write_config, write_tool


def on_text(any_: str = "text", source: str = "arguments", match: str | None = "*") -> Any:
    entry: dict[str, Any] = {"name": "PreToolUse"}
    if match is not None:
        entry["match"] = match
    entry["when"] = {"source": source, "any": any_, "regex": "^x"}
    return [entry]


def load(config: raw_exec.Config) -> Any:
    return load_hooks(config, load_registry(config).tools)


def problems(config: raw_exec.Config) -> list[tuple[str, str]]:
    with pytest.raises(raw_exec.ConfigError) as caught:
        load(config)
    assert caught.value.code == "hooks_invalid"
    return [(problem.pointer, problem.message) for problem in caught.value.problems]


def test_hooks_are_loaded_in_the_order_of_the_configuration(tmp_path: Path) -> None:
    """Contract: ``hooks.use`` is the ordered list; other folders are not opened."""
    ids = [write_hook(tmp_path, name, CONTINUE) for name in ("b", "a", "c")]
    write_hook(tmp_path, "broken", CONTINUE, command=7)
    found = load(configure(tmp_path, [ids[2], ids[0], ids[1]]))
    assert [hook.identity for hook in found.hooks] == ["agent/c", "agent/b", "agent/a"]
    assert discover_hooks(tmp_path / "hooks") == ("a", "b", "broken", "c")


def test_local_and_agent_hooks_come_from_their_own_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: beside the configuration, and in the user's own folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    write_hook(tmp_path, "one", CONTINUE)
    write_hook(tmp_path / "xdg" / "raw", "two", CONTINUE)
    found = load(configure(tmp_path, ["local/two", "agent/one"]))
    assert [(hook.identity, Path(hook.snapshot.source)) for hook in found.hooks] == [
        ("local/two", tmp_path / "xdg" / "raw" / "hooks" / "two"),
        ("agent/one", tmp_path / "hooks" / "one"),
    ]
    where, text = problems(configure(tmp_path, ["agent/two"]))[0]
    assert (where, "there is 'local/two'" in text) == ("/agents/a/hooks/use/0", True)


@pytest.mark.parametrize(
    ("events", "tool", "says"),
    [
        (on_text(source="effects"), {}, "source 'effects' cannot be inspected"),
        (on_text(), {"condition_sources": []}, "source 'arguments' cannot be inspected"),
        (on_text("missing"), {}, "path 'missing' of arguments"),
        (on_text("count"), {}, "path 'count' of arguments"),
        (on_text("items"), {}, "path 'items' of arguments"),
        (on_text("missing", match=None), {}, "path 'missing' of arguments"),
    ],
)
def test_a_condition_that_can_not_be_evaluated_is_an_error_at_load(
    tmp_path: Path, events: Any, tool: dict[str, Any], says: str
) -> None:
    """Symptom: a hook that matches an unbindable source; never a silent no-match."""
    config = configure(tmp_path, [write_hook(tmp_path, "guard", CONTINUE, events)], tool=tool)
    ((pointer, text),) = problems(config)
    assert pointer == "/agents/a/hooks/use/0"
    assert text.startswith("'agent/guard': events[0].when for tool 'agent/t': ")
    assert says in text


def test_a_condition_is_bound_to_every_tool_that_its_match_reaches(tmp_path: Path) -> None:
    """Contract: bound to the schema of the tools it can match, and to no other."""
    write_tool(tmp_path, "other", "", language="python", condition_sources=["arguments"])
    write_tool(tmp_path, "third", "", language="python")
    write_tool(tmp_path, "t", "", language="python", schema=SCHEMA, condition_sources=["arguments"])
    write_hook(tmp_path, "wide", CONTINUE, on_text("items[*]"))
    write_hook(tmp_path, "narrow", CONTINUE, on_text("items[*]", match="agent/t"))
    path = write_config(tmp_path, ["t", "other", "third"], agent={"hooks": {"use": ["agent/wide"]}})
    config = raw_exec.load_config(path)
    assert [text.split("'")[3] for _, text in problems(config)] == ["agent/other", "agent/third"]
    path = write_config(
        tmp_path, ["t", "other", "third"], agent={"hooks": {"use": ["agent/narrow"]}}
    )
    (hook,) = load(raw_exec.load_config(path)).hooks
    assert list(hook.predicates) == [(0, "agent/t")]


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    """Our choice: one run finds everything."""
    bad = write_hook(tmp_path, "bad", CONTINUE, on_text("missing"), timeout_ms=0, extra=1)
    unbound = write_hook(tmp_path, "unbound", CONTINUE, on_text("missing"))
    found = problems(configure(tmp_path, ["agent/gone", bad, unbound]))
    assert [pointer.rsplit("/", 1)[1] for pointer, _ in found] == ["0", "1", "1", "2"]
    assert "there is no such hook" in found[0][1]
    assert "hook.json" in found[1][1]


def test_a_match_that_reaches_no_tool_is_a_warning(tmp_path: Path) -> None:
    """Our choice: as for rules; a typing mistake must not go unseen."""
    hook = write_hook(tmp_path, "guard", CONTINUE, [{"name": "PreToolUse", "match": "local/x"}])
    assert load(configure(tmp_path, [hook])).warnings == (
        "hook 'agent/guard': events[0].match 'local/x' matches no selected tool",
    )


def test_a_hook_without_tools_to_match_can_be_about_sessions(tmp_path: Path) -> None:
    """Contract: match and when are for tool events only."""
    hook = write_hook(tmp_path, "guard", CONTINUE, [{"name": "Stop"}, {"name": "SessionStart"}])
    found = load(configure(tmp_path, [hook]))
    assert (found.hooks[0].events, found.warnings) == (("Stop", "SessionStart"), ())
