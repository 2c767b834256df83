"""Tool folders and contracts: what fits, what a scaffold holds, and calls through a runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raw_exec.contracts.client.embedded import EmbeddedRegistry
from raw_exec.contracts.errors import Invalid
from raw_exec.contracts.implementation import check_folder, load_folder, scaffold
from raw_exec.contracts.sandboxed import BlockingTools, SandboxedTools, ToolFailed
from raw_exec.dispatch import ToolResult
from raw_exec.errors import ContractError, ManifestError

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"url": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
    "required": ["url"],
    "additionalProperties": False,
}


@pytest.fixture
def version(store, people):
    registry = EmbeddedRegistry(store, "registry.db")
    registry.create_tool("acme", "fetch-page")
    registry.update_tool_version(
        "acme",
        "fetch-page",
        "draft",
        input_schema=SCHEMA,
        output_schema={"type": "object"},
        model_description="Fetch a page.",
    )
    return registry.publish_tool_version("acme", "fetch-page", "1.2.0")


def _write(folder: Path, files: dict[str, str], **changes: Any) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    manifest = json.loads(files["tool.json"]) | changes
    (folder / "tool.json").write_text(json.dumps(manifest))
    return folder


@pytest.mark.parametrize("language", ["esm", "python"])
def test_a_scaffold_fits_its_contract_exactly(version, tmp_path, language) -> None:
    """Contract: export, then check."""
    files = scaffold(version, "fetch", language)
    entry = "index.mjs" if language == "esm" else "index.py"
    assert sorted(files) == sorted(["tool.json", entry, "output-schema.json"])
    manifest = load_folder(_write(tmp_path / "fetch", files))
    assert (manifest.id, manifest.name, manifest.version) == ("fetch", "fetch-page", "1.2.0")
    assert check_folder(manifest, version).verdict == "exact"


def test_a_scaffold_for_a_pin_has_the_pins_name(version, tmp_path) -> None:
    """The model emits the wire name."""
    manifest = load_folder(_write(tmp_path / "fetch", scaffold(version, "fetch", "esm", "Fetch_1")))
    assert manifest.name == "Fetch_1"
    assert check_folder(manifest, version, "Fetch_1").verdict == "exact"
    assert check_folder(manifest, version).verdict == "incompatible"


@pytest.mark.parametrize(
    ("changes", "verdict", "pointer"),
    [
        ({"description": "Another text."}, "compatible", "/description"),
        ({"name": "fetch"}, "incompatible", "/name"),
        (
            {"input_schema": SCHEMA | {"required": []}},
            "compatible",
            "/inputSchema/required",
        ),
        (
            {"input_schema": SCHEMA | {"required": ["url", "limit"]}},
            "incompatible",
            "/inputSchema/required",
        ),
        (
            {
                "input_schema": SCHEMA
                | {"properties": SCHEMA["properties"] | {"limit": {"type": "integer"}}}
            },
            "compatible",
            "/inputSchema/properties/limit",
        ),
        (
            {"input_schema": SCHEMA | {"properties": {"url": {"type": "string"}}}},
            "incompatible",
            "/inputSchema/properties/limit",
        ),
    ],
)
def test_a_folder_that_takes_all_that_the_contract_allows_is_compatible(
    version, tmp_path, changes, verdict, pointer
) -> None:
    """Contract: what changed, breaking or not, by pointer."""
    files = scaffold(version, "fetch", "python")
    fit = check_folder(load_folder(_write(tmp_path / "fetch", files, **changes)), version)
    assert fit.verdict == verdict
    assert any(one.pointer.startswith(pointer) for one in fit.comparison.changes)


def test_a_scaffold_needs_a_description_and_names_that_a_folder_can_have(
    version, store, people
) -> None:
    """Each refusal says what to do."""
    registry = EmbeddedRegistry(store, "registry.db")
    registry.create_tool("acme", "silent")
    silent = registry.get_tool_version("acme", "silent", "draft")
    for code, make in (
        ("no_model_description", lambda: scaffold(silent, "silent", "esm")),
        ("folder_name", lambda: scaffold(version, "Fetch", "esm")),
        ("tool_name", lambda: scaffold(version, "fetch", "esm", "1st")),
    ):
        with pytest.raises(Invalid) as caught:
            make()
        assert caught.value.code == code


def test_what_is_no_tool_folder_is_told(tmp_path) -> None:
    """Nothing of it is run."""
    with pytest.raises(ManifestError):
        load_folder(tmp_path / "missing")
    with pytest.raises(ManifestError):
        load_folder(tmp_path)


# -- calls


class Failure(Exception):
    """Stands for the generated file's ToolExecutionError."""


class Source:
    """Stands for a runtime's registry."""

    names = ("fetch-page", "other")

    def __init__(self, *blocks: dict[str, Any], error: str | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._result = ToolResult(tuple(blocks), error is not None, error, "handler", {}, {}, 0.0)

    async def dispatch(self, name: str, arguments: Any) -> ToolResult:
        self.calls.append((name, arguments))
        return self._result


class Input:
    """Stands for a generated model with an awkward property."""

    def model_dump(self, *, mode: str, by_alias: bool, exclude_unset: bool) -> dict[str, Any]:
        assert (mode, by_alias, exclude_unset) == ("json", True, True)
        return {"class": 1}


async def test_arguments_go_to_the_runtime_under_their_own_names() -> None:
    """Aliases of the model are undone, and what was left out stays out."""
    source = Source({"type": "text", "text": "done"})
    tools = SandboxedTools(source, Failure, names={"web": "other"})
    assert sorted(tools) == ["fetch-page", "other", "web"]
    assert (await tools["web"](Input()), await tools["fetch-page"]({"a": 1})) == ("done", "done")
    assert source.calls == [("other", {"class": 1}), ("fetch-page", {"a": 1})]


@pytest.mark.parametrize(
    "block", [{"type": "json", "value": {"n": [1]}}, {"type": "text", "text": '{"n": [1]}'}]
)
async def test_a_json_result_is_a_value(block) -> None:
    """A contract with an output schema has a value, from a block or from a text."""
    source = Source({"type": "image", "mimeType": "image/png", "data": ""}, block)
    assert await SandboxedTools(source, Failure, results="json")["other"]({}) == {"n": [1]}


async def test_an_error_is_what_the_model_may_read_with_the_whole_result_behind_it() -> None:
    """Contract: only ToolExecutionError is reported to the model."""
    source = Source({"type": "text", "text": "no such page"}, error="not_found")
    with pytest.raises(Failure, match="no such page") as caught:
        await SandboxedTools(source, Failure)["other"]({})
    cause = caught.value.__cause__
    assert isinstance(cause, ToolFailed)
    assert (cause.code, cause.result.code) == ("not_found", "not_found")


async def test_a_result_that_is_no_json_is_a_bug_and_not_told_to_the_model() -> None:
    """The contract promised a value."""
    source = Source({"type": "text", "text": "hello"})
    with pytest.raises(ContractError) as caught:
        await SandboxedTools(source, Failure, results="json")["other"]({})
    assert caught.value.code == "result_not_json"


def test_a_tool_that_the_runtime_lacks_is_missed_before_any_call() -> None:
    """Early, when the bindings are put together."""
    with pytest.raises(ContractError) as caught:
        SandboxedTools(Source(), Failure, names={"web": "nothing"})
    assert caught.value.code == "tool_not_selected"
    with pytest.raises(ContractError):
        SandboxedTools(Source(), Failure)["nothing"]


async def test_calls_may_go_to_a_session() -> None:
    """Tools that ask or draw need one."""
    source, session = Source(), Source({"type": "text", "text": "from a session"})
    tools = SandboxedTools(source, Failure, dispatch=session.dispatch)
    assert (await tools["other"]({}), source.calls) == ("from a session", [])


class BlockingSource:
    """Stands for the registry of a runtime for plain programs."""

    names = Source.names

    def __init__(self, *blocks: dict[str, Any], error: str | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._result = ToolResult(tuple(blocks), error is not None, error, "handler", {}, {}, 0.0)

    def dispatch(self, name: str, arguments: Any) -> ToolResult:
        self.calls.append((name, arguments))
        return self._result


def test_a_program_without_an_event_loop_has_the_same_tools() -> None:
    """Contract: sync and async implementations."""
    source = BlockingSource({"type": "json", "value": [1]})
    tools = BlockingTools(source, Failure, names={"web": "other"}, results="json")
    assert (tools["web"](Input()), source.calls) == ([1], [("other", {"class": 1})])
    assert (list(tools), len(tools)) == (["fetch-page", "other", "web"], 3)
    failing = BlockingSource({"type": "text", "text": "no such page"}, error="not_found")
    with pytest.raises(Failure, match="no such page") as caught:
        BlockingTools(source, Failure, dispatch=failing.dispatch)["other"]({})
    assert isinstance(caught.value.__cause__, ToolFailed)
    with pytest.raises(ContractError):
        BlockingTools(source, Failure)["nothing"]
