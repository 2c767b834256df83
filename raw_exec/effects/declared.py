"""Judge what a descriptor says that a call would do."""

from __future__ import annotations

import json
from typing import Any

from ..errors import CallRefused, Problem
from ..schema import CompiledSchema
from ..values import NotJson, freeze
from .paths import is_effect_path

__all__ = ["OPERATIONS", "check_effects"]

OPERATIONS = frozenset(("write", "delete", "rename_source", "rename_destination"))
"""What may happen to a file (seed 1, "Write effects")."""

_STAGE = "effects"
_MAX_PROBLEMS = 10


def check_effects(value: object, effects_schema: CompiledSchema) -> Any:
    """Check a descriptor's result against the tool's ``effects_schema`` and freeze it.

    Each item of a ``files`` array that has both ``path`` and ``operation`` must also have
    an absolute, lexically normalised path and one of ``OPERATIONS``, whatever the tool's
    own schema allows: rules on ``files[*].path`` rely on it.

    Raises:
        CallRefused: ``invalid_effects`` at stage ``effects``, with every problem.
    """
    try:
        frozen = freeze(value)
    except NotJson as error:
        raise _refusal([error.problem]) from error
    found = effects_schema.check(frozen)
    if found:
        raise _refusal([Problem(item.pointer, item.message) for item in found])
    problems = _file_problems(frozen)
    if problems:
        raise _refusal(problems)
    return frozen


def _file_problems(effects: Any) -> list[Problem]:
    files = effects.get("files") if isinstance(effects, dict) else None
    problems: list[Problem] = []
    for index, item in enumerate(files if isinstance(files, list) else ()):
        if not (isinstance(item, dict) and "path" in item and "operation" in item):
            continue
        path, operation = item["path"], item["operation"]
        if not (isinstance(path, str) and is_effect_path(path)):
            problems.append(
                Problem(
                    f"/files/{index}/path",
                    f"must be an absolute, lexically normalised path, got {_show(path)}",
                )
            )
        if not (isinstance(operation, str) and operation in OPERATIONS):
            problems.append(
                Problem(
                    f"/files/{index}/operation",
                    f"must be one of {', '.join(sorted(OPERATIONS))}, got {_show(operation)}",
                )
            )
    return problems


def _refusal(problems: list[Problem]) -> CallRefused:
    shown = problems[:_MAX_PROBLEMS]
    more = len(problems) - len(shown)
    text = "; ".join(str(problem) for problem in shown) + (f"; and {more} more" if more else "")
    return CallRefused(
        "invalid_effects",
        f"the tool's describeEffects gave effects that break its contract: {text}",
        stage=_STAGE,
        detail={"problems": [{"pointer": p.pointer, "message": p.message} for p in shown]},
        hint="fix describeEffects or effects_schema in the tool",
    )


def _show(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "…"
