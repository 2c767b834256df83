"""One parse for effects and handler, and the effects of every form."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raw_exec.builtin import BUILTIN_DESCRIPTORS, BuiltinDescriptor
from raw_exec.builtin.write_file.changes import request, run
from raw_exec.builtin.write_file.changes.paths import normalise_path
from raw_exec.effects.paths import is_effect_path, normalise_effect_path
from raw_exec.manifest import load_tool
from raw_exec.policy import parse_rules
from raw_exec.values import freeze

BUILTIN = Path(request.__file__).parent.parent.parent
ZEROS = "0" * 64
EVERY_MODE = [
    {"path": "a", "mode": "overwrite", "content": "x"},
    {"path": "./b/../c", "mode": "append", "content": "x"},
    {"path": "/abs//d", "mode": "replace_text", "old_text": "x", "new_text": ""},
    {
        "path": "e",
        "mode": "replace_lines",
        "start_line": 1,
        "end_line": 1,
        "content": "",
        "expected_sha256": ZEROS,
    },
]
PATCH = (
    "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n@@\n-x\n*** Delete File: ../c\n"
    "*** Update File: d\n*** Move to: e\n*** Update File: f\n*** Move to: g\n@@\n-x\n"
    "*** End Patch\n"
)


def test_every_operation_and_every_patch_target_is_in_the_effects() -> None:
    """Seed 1, "Write effects": one entry per operation; a move has two, three with content."""
    describe = BUILTIN_DESCRIPTORS["write_file"].describe_effects
    assert describe is not None
    assert describe(freeze({"operations": EVERY_MODE}), cwd="/w") == {
        "files": [
            {"path": "/w/a", "operation": "write"},
            {"path": "/w/c", "operation": "write"},
            {"path": "/abs/d", "operation": "write"},
            {"path": "/w/e", "operation": "write"},
        ]
    }
    assert describe(freeze({"patch": PATCH}), cwd="/w/x") == {
        "files": [
            {"path": "/w/x/a", "operation": "write"},
            {"path": "/w/x/b", "operation": "write"},
            {"path": "/w/c", "operation": "delete"},
            {"path": "/w/x/d", "operation": "rename_source"},
            {"path": "/w/x/e", "operation": "rename_destination"},
            {"path": "/w/x/f", "operation": "rename_source"},
            {"path": "/w/x/g", "operation": "rename_destination"},
            {"path": "/w/x/g", "operation": "write"},
        ]
    }


def test_the_handler_acts_on_the_parse_that_effects_are_computed_from() -> None:
    """Contract: the same function of the same file, here and as the worker imports it."""
    assert run.parse_request is request.parse_request
    program = (
        "import sys, json; sys.path.insert(0, '.'); import index; from changes import run, request;"
        "print(json.dumps([index.handler is run.handler, run.parse_request is "
        "request.parse_request, request.__file__, sorted(m for m in sys.modules if 'raw_' in m)]))"
    )
    folder = BUILTIN / "write_file"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", program],
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=60,
    )
    same_handler, same_parse, file, ours = json.loads(done.stdout)
    assert (same_handler, same_parse, ours) == (True, True, [])
    assert os.path.samefile(folder / file, request.__file__)


@pytest.mark.parametrize("path", ["a", "/a//b/", "./../..", "a/./b/../c", "../../x", "/", "é/ü"])
def test_paths_are_normalised_as_effects_require(path: str) -> None:
    """The tool's own normalisation is that of the host's check."""
    assert normalise_path(path, "/w/d") == normalise_effect_path(path, "/w/d")
    assert is_effect_path(normalise_path(path, "/w/d"))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"patch": "nonsense"}, "patch line 1: must be exactly '*** Begin Patch'"),
        ({"operations": [{**EVERY_MODE[0], "path": " "}]}, "empty or blank"),
        ({"operations": [{**EVERY_MODE[0], "path": "a\0"}]}, "NUL"),
        ({"operations": [{**EVERY_MODE[0], "path": "a/"}]}, "names a folder"),
        ({"operations": [{**EVERY_MODE[3], "start_line": 2}]}, "end_line 1 is before start_line 2"),
    ],
)
def test_a_wrong_call_is_refused_before_approval_with_one_that_works(
    args: dict[str, Any], text: str
) -> None:
    """Seed 2: semantic preflight names the problem and shows a valid call."""
    find_problem = BUILTIN_DESCRIPTORS["write_file"].validate_args
    assert find_problem is not None
    problem = find_problem(freeze(args)) or ""
    assert text in problem
    example = json.loads(problem.partition("for example ")[2])
    assert find_problem(example) is None


def schema_of(tool: str) -> Any:
    return load_tool(BUILTIN, tool, source="builtin").manifest


TOOLS = sorted(manifest.parent.name for manifest in BUILTIN.glob("*/tool.json"))


def test_trusted_descriptors_belong_to_tools_and_do_something() -> None:
    """A name that no folder has, or an entry without functions, would be dead."""
    assert {"list_vars", "read_var", "view_image", *BUILTIN_DESCRIPTORS} <= set(TOOLS)
    assert BuiltinDescriptor() not in BUILTIN_DESCRIPTORS.values()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_manifest_is_valid_and_its_examples_are_calls_that_fit(tool: str) -> None:
    """Contract: a v2 manifest whose description holds a complete example call."""
    manifest = schema_of(tool)
    decoder = json.JSONDecoder()
    text = manifest.description
    found = [
        decoder.raw_decode(text, at)[0]
        for at in range(len(text))
        if text[at : at + 2] in ('{"', "{}")
    ]
    examples = [value for value in found if manifest.compiled_input.is_valid(freeze(value))]
    assert examples
    descriptor = BUILTIN_DESCRIPTORS.get(tool, BuiltinDescriptor())
    validate = descriptor.validate_args
    assert validate is None or [validate(value) for value in examples] == [None] * len(examples)
    has_effects = descriptor.describe_effects is not None
    assert has_effects == (manifest.compiled_effects is not None)


def test_the_write_schema_accepts_each_mode_and_refuses_the_rest() -> None:
    """Contract: exactly one form, 1 to 16 operations, and the fields of the mode only."""
    schema = schema_of("write_file").compiled_input
    assert schema.is_valid(freeze({"operations": EVERY_MODE * 4}))
    assert schema.is_valid(freeze({"patch": PATCH}))
    wrong: list[Any] = [
        {},
        {"operations": []},
        {"operations": EVERY_MODE * 4 + EVERY_MODE[:1]},
        {"operations": [EVERY_MODE[0]] * 10_000},
        {"operations": EVERY_MODE, "patch": PATCH},
        {"patch": PATCH, "extra": 1},
        *({"operations": [{**item, "extra": 1}]} for item in EVERY_MODE),
        *(
            {"operations": [{k: v for k, v in item.items() if k != gone}]}
            for item in EVERY_MODE
            for gone in item
        ),
        {"operations": [{**EVERY_MODE[3], "expected_sha256": "A" * 64}]},
        {"operations": [{**EVERY_MODE[3], "start_line": 0}]},
        {"operations": [{**EVERY_MODE[2], "old_text": ""}]},
    ]
    assert [args for args in wrong if schema.is_valid(freeze(args))] == []


def test_the_seeds_rule_catches_both_forms() -> None:
    """Seed 1: a rule on files[*].path of the effects covers operations and patch."""
    manifest = schema_of("write_file")
    when = {"source": "effects", "any": "files[*].path", "regex": "/protected/"}
    rules = parse_rules([{"match": "builtin/write_file", "effect": "ask", "when": when}])
    policy = rules.bind(
        "builtin/write_file",
        condition_sources=manifest.condition_sources,
        schemas={"arguments": manifest.compiled_input, "effects": manifest.compiled_effects},
    )
    move = "*** Begin Patch\n*** Update File: a\n*** Move to: protected/x\n*** End Patch"
    for args, verdict in (
        ({"operations": [{"path": "protected/x", "mode": "append", "content": ""}]}, "ASK"),
        ({"operations": [{"path": "q/../protected/x", "mode": "append", "content": ""}]}, "ASK"),
        ({"patch": move}, "ASK"),
        ({"operations": [{"path": "open/x", "mode": "append", "content": ""}]}, "ALLOW"),
    ):
        effects = request.describe_effects(args, cwd="/w")
        evaluation = policy.evaluate({"arguments": freeze(args), "effects": freeze(effects)})
        assert evaluation.verdict.name == verdict


def test_descriptors_import_nothing_that_touches_files() -> None:
    """What runs in the supervisor is the pure part: no os, no handler."""
    for name in ("request", "patch", "paths"):
        module = importlib.import_module(f"raw_exec.builtin.write_file.changes.{name}")
        assert not {"os", "io", "subprocess", "handler"} & set(vars(module))
