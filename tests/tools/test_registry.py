"""The tool registry: roots, selection, names, binding, cache key, one report of everything."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from raw_exec.config import Config, ToolUse, load_config
from raw_exec.errors import ConfigError
from raw_exec.tools import ToolRegistry, discover, load_registry, tool_roots


class World:
    """A configuration folder, the user's folder and a built-in root, all temporary."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.environ = {"XDG_CONFIG_HOME": str(base / "xdg")}
        self.roots = {
            "agent": base / "project" / "tools",
            "local": base / "xdg" / "raw" / "tools",
            "builtin": base / "builtin",
        }
        for root in self.roots.values():
            root.mkdir(parents=True)

    def tool(self, ref: str, **changes: Any) -> Path:
        source, tool_id = ref.split("/")
        folder = self.roots[source] / tool_id
        folder.mkdir(exist_ok=True)
        manifest = {
            "api_version": 2,
            "id": tool_id,
            "version": "1.0.0",
            "name": tool_id,
            "description": f"About {tool_id}.",
            "input_schema": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "n": {"type": "number"}},
            },
            "entry": "./index.mjs",
            **changes,
        }
        (folder / "tool.json").write_text(json.dumps(manifest))
        (folder / "index.mjs").write_text("export function handler() {}")
        return folder

    def config(self, use: list[Any], rules: list[Any] | None = None, **root: Any) -> Config:
        document = {"agents": {"a": {"tools": {"use": use, "rules": rules or []}}}, **root}
        path = self.base / "project" / "config.json"
        path.write_text(json.dumps(document))
        path.chmod(0o600)
        return load_config(path, environ=self.environ)

    def load(self, *args: Any, store: Path | None = None, **kwargs: Any) -> ToolRegistry:
        return load_registry(
            self.config(*args, **kwargs),
            builtin_root=self.roots["builtin"],
            environ=self.environ,
            store=store,
        )

    def refusal(self, *args: Any, **kwargs: Any) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            self.load(*args, **kwargs)
        return caught.value


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_tools_come_from_three_roots_in_the_order_of_selection(world: World) -> None:
    """spec, "Identities and selection"."""
    for ref in ("builtin/read", "local/notes", "agent/mine"):
        world.tool(ref)
    registry = world.load(["local/notes", "agent/mine", "builtin/read"])
    assert registry.names == ("notes", "mine", "read")
    assert [t.identity for t in registry.tools] == ["local/notes", "agent/mine", "builtin/read"]
    assert [t.source for t in registry.tools] == ["local", "agent", "builtin"]
    assert [d["name"] for d in registry.definitions()] == ["notes", "mine", "read"]
    assert registry.definitions()[0] == {
        "name": "notes",
        "description": "About notes.",
        "input_schema": registry.tools[0].manifest.input_schema,
    }
    assert registry.get("mine") is registry.tools[1]
    assert registry.by_identity("builtin/read") is registry.tools[2]
    assert registry.get("local/notes") is None
    assert registry.warnings == ()


def test_without_tools_the_registry_is_empty(world: World) -> None:
    """A new installation."""
    registry = world.load([])
    assert (registry.names, registry.definitions(), registry.tools) == ((), [], ())


def test_an_unselected_folder_is_never_read(world: World) -> None:
    """spec: unselected folders are never read, whatever is in them."""
    world.tool("local/good")
    os.mkfifo(world.roots["local"] / "other")
    bad = world.tool("local/bad")
    (bad / "tool.json").write_text("{")
    assert world.load(["local/good"]).names == ("good",)


def test_an_alias_renames_for_the_model_only(world: World) -> None:
    """spec: ``as`` renames the model-visible name only."""
    world.tool("local/notes")
    tool = world.load([{"ref": "local/notes", "as": "Write-It"}]).get("Write-It")
    assert tool is not None
    assert (tool.identity, tool.manifest.name) == ("local/notes", "notes")


def test_two_tools_with_one_name_are_an_error_that_names_both(world: World) -> None:
    """seed 2: names are unique among selected tools. Attack corpus X21."""
    world.tool("local/x", name="same")
    world.tool("agent/y", name="same")
    error = world.refusal(["local/x", "agent/y"])
    assert error.code == "tool_conflict"
    assert '"local/x" and "agent/y"' in error.message
    renamed = world.load(["local/x", {"ref": "agent/y", "as": "other"}])
    assert renamed.names == ("same", "other")


def test_hidden_tools_conflict_too(world: World) -> None:
    """A later rule may bring one back, so names are unique among all selected."""
    world.tool("local/x", name="same")
    world.tool("agent/y", name="same")
    rules = [{"match": "agent/*", "effect": "deny"}]
    assert world.refusal(["local/x", "agent/y"], rules).code == "tool_conflict"


def test_everything_wrong_in_all_tools_is_reported_at_once(world: World) -> None:
    """All selected manifests are validated before any is used."""
    world.tool("local/notes")
    world.tool("local/bad", entry="../x", version="1")
    world.tool("agent/typo")
    error = world.refusal(
        ["local/note", "agent/notes", "local/bad", "mcp/server/tool", "builtin/none", "local/notes"]
    )
    assert error.code == "tools_invalid"
    assert [problem.pointer for problem in error.problems] == [
        f"/agents/a/tools/use/{index}" for index in (0, 1, 2, 2, 3, 4)
    ]
    messages = [problem.message for problem in error.problems]
    assert "did you mean 'notes'?" in messages[0]
    assert "there is 'local/notes'" in messages[1]
    assert "/entry" in messages[2] + messages[3]
    assert "/version" in messages[2] + messages[3]
    assert "mcp.servers has no 'server'" in messages[4]
    assert "has no tools" in messages[5]


@pytest.mark.parametrize("ref", ["", "x", "other/x", "local/", "local/../../etc", "local/a/b"])
def test_a_ref_that_no_file_named_is_checked_like_a_configured_one(world: World, ref: str) -> None:
    """Hosts may make a configuration themselves; a path is not a tool ID."""
    config = world.config([])
    agent = dataclasses.replace(config.agent, tools_use=(ToolUse(ref),))
    with pytest.raises(ConfigError) as caught:
        load_registry(
            dataclasses.replace(config, agent=agent),
            builtin_root=world.roots["builtin"],
            environ=world.environ,
        )
    assert caught.value.code == "tools_invalid"


# ---------------------------------------------------------------- rules


def test_an_unconditional_deny_hides_a_tool_until_a_later_allow(world: World) -> None:
    """spec: last matching rule wins."""
    world.tool("local/x")
    world.tool("local/y")
    deny = {"match": "local/*", "effect": "deny"}
    allow = {"match": "local/y", "effect": "allow"}
    registry = world.load(["local/x", "local/y"], [deny, allow])
    assert registry.names == ("y",)
    assert [d["name"] for d in registry.definitions()] == ["y"]
    hidden = registry.get("x")
    assert hidden is not None
    assert hidden.hidden


@pytest.mark.parametrize(
    "when",
    [
        {"source": "effects", "any": "files[*].path", "regex": "x"},
        {"source": "arguments", "any": "nothing", "regex": "x"},
        {"source": "arguments", "any": "n", "regex": "x"},
    ],
)
def test_a_rule_that_can_not_be_bound_is_an_error_at_its_place(
    world: World, when: dict[str, str]
) -> None:
    """seed 1: a path that does not exist in the schema is a validation error."""
    world.tool("local/x", condition_sources=["arguments"])
    rules = [
        {"match": "*", "effect": "allow"},
        {"match": "local/x", "effect": "ask", "when": when},
    ]
    error = world.refusal(["local/x"], rules)
    assert [problem.pointer for problem in error.problems] == ["/agents/a/tools/rules/1"]
    assert "'local/x'" in error.message


def test_a_rule_that_binds_is_kept(world: World) -> None:
    """The pair of the refusal."""
    world.tool("local/x", condition_sources=["arguments"])
    when = {"source": "arguments", "any": "path", "regex": "secret"}
    rules = [{"match": "local/x", "effect": "ask", "when": when}]
    assert world.load(["local/x"], rules).warnings == ()


def test_a_rule_without_a_tool_is_warned_about(world: World) -> None:
    """A typo in ``match`` would otherwise do nothing, silently."""
    world.tool("local/x")
    registry = world.load(["local/x"], [{"match": "locl/x", "effect": "deny"}])
    assert registry.warnings == ("/agents/a/tools/rules/0: 'locl/x' matches no selected tool",)


def test_each_tool_knows_its_sandbox_profile(world: World) -> None:
    """design: built-in defaults, overridden by configuration."""
    world.tool("builtin/bash")
    world.tool("local/x")
    registry = world.load(["builtin/bash", "local/x"], sandbox={"tools": {"local/*": "readonly"}})
    assert [tool.profile for tool in registry.tools] == ["shell", "readonly"]


# ---------------------------------------------------------------- cache key, changes


def test_the_cache_key_follows_selected_content_only(world: World) -> None:
    """seed 2: selected edits rotate it; unselected ones do not."""
    selected = world.tool("local/x")
    other = world.tool("local/y")
    first = world.load(["local/x"]).cache_key
    (other / "index.mjs").write_text("changed")
    assert world.load(["local/x"]).cache_key == first
    (selected / "index.mjs").write_text("changed")
    second = world.load(["local/x"]).cache_key
    assert second != first
    world.tool("local/x", description="Changed.")
    assert world.load(["local/x"]).cache_key not in (first, second)


def test_the_cache_key_follows_what_the_model_sees(world: World) -> None:
    """spec: a digest over the ordered model-visible definitions."""
    world.tool("local/x")
    world.tool("local/y")
    deny = [{"match": "local/y", "effect": "deny"}]
    ask = [{"match": "local/y", "effect": "ask"}]
    keys = [
        world.load(["local/x", "local/y"]).cache_key,
        world.load(["local/y", "local/x"]).cache_key,
        world.load([{"ref": "local/x", "as": "z"}, "local/y"]).cache_key,
        world.load(["local/x", "local/y"], deny).cache_key,
        world.load(["local/x"]).cache_key,
    ]
    assert len(set(keys)) == len(keys)
    assert world.load(["local/x", "local/y"], ask).cache_key == keys[0]


def test_a_registry_with_more_tools_is_a_new_one(world: World) -> None:
    """style §2: a conflict is an error, and a call in flight keeps what it started with."""
    world.tool("local/x")
    world.tool("local/y")
    one = world.load(["local/x"])
    extra = world.load(["local/y"]).tools[0]
    both = one.with_tool(extra)
    assert (one.names, both.names) == (("x",), ("x", "y"))
    for clash in (extra, dataclasses.replace(extra, identity="mcp/s/y")):
        with pytest.raises(ConfigError) as caught:
            both.with_tools([clash])
        assert caught.value.code == "tool_conflict"
    with pytest.raises(dataclasses.FrozenInstanceError):
        both.names = ()  # type: ignore[misc]


def test_a_big_tool_is_materialised_at_load_when_there_is_a_store(
    world: World, tmp_path: Path
) -> None:
    """Its source may change at any time after the load."""
    folder = world.tool("local/x")
    (folder / "big").write_bytes(bytes(2 * 1024 * 1024))
    tool = world.load(["local/x"], store=tmp_path / "store").tools[0]
    (folder / "index.mjs").write_text("evil")
    assert tool.snapshot.read("index.mjs") == b"export function handler() {}"


def test_a_store_that_cannot_be_written_is_told_with_the_other_problems(
    world: World, tmp_path: Path
) -> None:
    """It is the host's trouble, and still no traceback."""
    folder = world.tool("local/x")
    (folder / "big").write_bytes(bytes(2 * 1024 * 1024))
    (tmp_path / "store").touch()
    with pytest.raises(ConfigError) as caught:
        world.load(["local/x", "local/none"], store=tmp_path / "store")
    assert caught.value.code == "tools_invalid"
    kept, missing = [problem.message for problem in caught.value.problems]
    assert "can not be kept" in kept
    assert "Not a directory" in kept
    assert "there is no such tool" in missing


def test_discovery_lists_names_and_opens_nothing(world: World) -> None:
    """``raw tools list --all``."""
    world.tool("local/b")
    world.tool("local/a")
    (world.roots["local"] / "empty").mkdir()
    (world.roots["local"] / "Bad Name").mkdir()
    (world.roots["local"] / "file").touch()
    os.mkfifo(world.roots["local"] / "b" / "fifo")
    roots = tool_roots(world.config([]), environ=world.environ)
    assert (roots.path("agent"), roots.path("local")) == (
        world.roots["agent"],
        world.roots["local"],
    )
    assert roots.builtin.is_dir()
    assert discover(roots.local) == ("a", "b")
    assert discover(world.base / "none") == ()
