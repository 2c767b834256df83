"""Writes tools with cases, and verifies them in one runtime."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.cli.checking import find_targets, load_target
from raw_exec.verify import CaseReport, ToolReport, find_cases, run_cases
from toolbox import write_config, write_tool

FILE_EFFECTS = {
    "type": "object",
    "properties": {"files": {"type": "array", "items": {"type": "object"}}},
    "required": ["files"],
}
DESCRIBE = """
def describe_effects(args, context):
    import posixpath
    files = [
        {"path": posixpath.normpath(posixpath.join(context["cwd"], path)), "operation": operation}
        for operation, path in args.get("declares", [])
    ]
    return {"files": files}
"""
Verify = Callable[..., Awaitable[dict[str, CaseReport]]]


@pytest.fixture
def verify(tmp_path: Path) -> Verify:
    """Return a function that runs the cases of one Python tool ``t``.

    It takes the handler's body, the cases by name, and ``declares=False`` for a tool without
    effects; other arguments go to ``run_cases`` or, when they are fields of the configuration,
    there.
    """

    async def run(
        body: str,
        cases: Mapping[str, Any],
        *,
        declares: bool = True,
        config: Mapping[str, Any] | None = None,
        before: str = "",
        **options: Any,
    ) -> dict[str, CaseReport]:
        lines = "\n".join("    " + line for line in body.splitlines())
        source = f"import os\n{before}\n{DESCRIBE if declares else ''}\n"
        source += f"def handler(args, context):\n    os.chdir(context.cwd)\n{lines}\n"
        source += "    return {'content': []}\n"
        extra: dict[str, Any] = {}
        if declares:
            extra = {"effects_schema": FILE_EFFECTS, "condition_sources": ["effects"]}
        folder = write_tool(tmp_path, "t", source, language="python", **extra)
        (folder / "cases").mkdir(exist_ok=True)
        for name, case in cases.items():
            (folder / "cases" / f"{name}.json").write_text(json.dumps(case))
        loaded = raw_exec.load_config(write_config(tmp_path, ["t"], **(config or {})))
        report = await verify_target(loaded, "agent/t", **options)
        return {case.name: case for case in report.cases}

    return run


async def verify_target(
    config: raw_exec.Config, target: str, cases: Path | None = None, **options: Any
) -> ToolReport:
    """Run the cases of one target."""
    checked, tool = load_target(config, find_targets(config, [target], served=False)[0])
    assert tool is not None, checked.problems
    report = ToolReport(checked.target, checked.folder)
    with trio.fail_after(60):
        await run_cases(config, [(report, find_cases(tool, cases))], **options)
    return report


def kinds(case: CaseReport) -> tuple[list[str], list[str]]:
    """Return the kinds of a case's failures and of its warnings."""
    return [item.kind for item in case.failures], [item.kind for item in case.warnings]
