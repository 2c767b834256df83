"""Hostile folders and broken callbacks: each is one refusal, and never an exception."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
import wasmtime

import raw_exec
from raw_exec.approval import Answer
from toolbox import js_config, py_config, write_config, write_tool

OK = "return { content: [] };"
ASK = [{"match": "*", "effect": "ask"}]


@pytest.mark.slow
async def test_a_cancelled_group_of_an_approver_is_recorded_as_an_abort(tmp_path: Path) -> None:
    """An approver with a nursery of its own is cancelled as a group, not as one exception."""
    config = py_config(tmp_path, "return {'content': []}", rules=ASK)
    log = tmp_path / "audit.jsonl"
    asked = trio.Event()

    async def approve(_request: raw_exec.ApprovalRequest) -> bool:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            asked.set()
            await trio.sleep_forever()
        return True

    with trio.fail_after(60):
        async with (
            raw_exec.open_runtime(config, cwd=tmp_path, approve=approve, audit=log) as runtime,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(runtime.registry.dispatch, "t", {})
            await asked.wait()
            nursery.cancel_scope.cancel()
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(record["code"], record["stage"]) for record in records] == [("aborted", "approval")]


@pytest.mark.slow
@pytest.mark.parametrize("reason", [5, {"a": 1}, b"x"])
async def test_a_reason_that_is_no_text_still_denies(tmp_path: Path, reason: Any) -> None:
    """A mistake in a callback must neither approve nor break the call."""
    config = py_config(tmp_path, "return {'content': []}", rules=ASK)
    with trio.fail_after(60):
        async with raw_exec.open_runtime(
            config, cwd=tmp_path, approve=lambda _request: Answer(False, reason)
        ) as runtime:
            result = await runtime.registry.dispatch("t", {})
    assert (result.code, result.text) == ("approval_denied", "agent/t was not approved")


def _nested(depth: int) -> Any:
    value: Any = "./a.js"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.slow
@pytest.mark.parametrize(
    "package",
    [
        {"main": "../../../x"},
        {"main": "../../../../../../etc/passwd"},
        {"module": "/etc/passwd"},
        {"exports": _nested(900)},
    ],
    ids=["main outside", "main far outside", "module outside", "exports nested"],
)
async def test_a_package_that_leads_astray_is_answered_by_the_worker(
    tmp_path: Path, package: dict[str, Any]
) -> None:
    """What the engine can't follow, Node refuses in its sandbox; nothing is raised."""
    write_tool(
        tmp_path,
        "t",
        "import p from 'p';\nexport function validateArgs() {}\n"
        f"export async function handler() {{ {OK} }}\n",
    )
    folder = tmp_path / "tools" / "t" / "node_modules" / "p"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps(package))
    config = raw_exec.load_config(write_config(tmp_path, ["t"]))
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.registry.dispatch("t", {})
    assert (result.code, result.stage) == ("effects_failed", "validate_args"), result


@pytest.mark.slow
async def test_a_fallback_without_a_reason_is_still_a_fallback(tmp_path: Path) -> None:
    """An empty message must not turn ``validateArgs`` off."""
    config = js_config(tmp_path, OK, before="export function validateArgs() { return 'refused'; }")
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            tool = runtime.loaded.get("t")
            assert tool is not None
            known = await runtime.descriptors._known(tool, "validate_args")
            assert known is not None
            known.exports, known.fallback = None, ""
            result = await runtime.registry.dispatch("t", {})
    assert (result.code, result.text) == ("invalid_arguments", "refused")


@pytest.mark.slow
async def test_a_host_without_memory_for_another_engine_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second caller needs an instance of its own; that it can't be had is no crash."""
    config = js_config(tmp_path, OK, before="export function validateArgs() {}")

    def full(*_arguments: object) -> None:
        raise wasmtime.WasmtimeError("mmap failed to reserve")

    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            assert not (await runtime.registry.dispatch("t", {})).is_error
            tool = runtime.loaded.get("t")
            assert tool is not None
            known = runtime.descriptors._tools[tool.snapshot.digest]
            known.idle.clear()
            monkeypatch.setattr("raw_exec.effects.engine.instantiate", full)
            result = await runtime.registry.dispatch("t", {})
    assert (result.code, result.stage) == ("effects_failed", "validate_args")
    assert result.detail == {"kind": "memory"}
