"""Cases through the whole dispatch, in real sandboxed workers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.cli.checking import find_targets, load_target
from raw_exec.verify import CaseReport, ToolReport, find_cases, run_cases
from requires import require, require_node
from tests.transactions.lab import has_views
from toolbox import footprint, write_config, write_tool

from .conftest import Verify, kinds, verify_target

HERE = Path(__file__).parent
EXAMPLES = HERE.parent.parent / "examples" / "tools"
OK: dict[str, Any] = {"args": {}, "expect": {}}


async def test_an_honest_tool_passes_and_its_changes_are_listed(verify: Verify) -> None:
    """What it declared is what it did."""
    cases = await verify(
        "open('a.txt', 'a').write('2')\nos.rename('b.txt', 'c.txt')",
        {
            "ok": {
                "args": {
                    "declares": [
                        ["write", "a.txt"],
                        ["rename_source", "b.txt"],
                        ["rename_destination", "c.txt"],
                    ]
                },
                "files": {"a.txt": "1", "b.txt": "b"},
                "expect": {
                    "content": [],
                    "files": {"a.txt": "12", "b.txt": None, "c.txt": "b"},
                    "effects": {
                        "files": [
                            {"path": "$CWD/a.txt", "operation": "write"},
                            {"path": "$CWD/b.txt", "operation": "rename_source"},
                            {"path": "$CWD/c.txt", "operation": "rename_destination"},
                        ]
                    },
                },
            }
        },
    )
    assert cases["ok"].failures == ()
    assert cases["ok"].warnings == ()
    assert [str(change) for change in cases["ok"].changes] == [
        "write a.txt (content, 1 to 2 bytes)",
        "rename_source b.txt (to c.txt)",
        "rename_destination c.txt (from b.txt)",
    ]
    assert cases["ok"].outcome["tier"] in ("baseline", "namespaces", "cgroup")


async def test_a_write_that_was_not_declared_fails_the_case(verify: Verify) -> None:
    """Effects are checked, not only believed."""
    cases = await verify(
        "open('a.txt', 'w').write('x')\nopen('.hidden', 'w').write('x')",
        {"lies": {"args": {"declares": [["write", "a.txt"]]}, "expect": {}}},
    )
    (finding,) = cases["lies"].failures
    assert finding.kind == "undeclared"
    assert finding.message.startswith("undeclared write .hidden (file created)")


async def test_an_effect_that_did_not_happen_is_only_a_warning(verify: Verify) -> None:
    """And none when the call failed, where nothing need have happened."""
    cases = await verify(
        "if args.get('fail'):\n    return {'isError': True, 'code': 'no', 'content': []}",
        {
            "lazy": {"args": {"declares": [["delete", "a"]]}, "expect": {}},
            "failing": {
                "args": {"declares": [["delete", "a"]], "fail": True},
                "expect": {"code": "no"},
            },
        },
    )
    assert {name: kinds(case) for name, case in cases.items()} == {
        "lazy": ([], ["undone"]),
        "failing": ([], []),
    }


async def test_a_tool_without_effects_is_only_watched_unless_strict(verify: Verify) -> None:
    """Our choice: silence about files is no lie where nothing is declared."""
    body, case = "open('a', 'w')", {"c": OK}
    relaxed = await verify(body, case, declares=False)
    strict = await verify(body, case, declares=False, strict_effects=True)
    assert kinds(relaxed["c"]) == ([], [])
    assert [str(change) for change in relaxed["c"].changes] == ["write a (file created)"]
    assert kinds(strict["c"]) == (["undeclared"], [])


async def test_what_a_handler_does_after_it_returned_is_seen(verify: Verify) -> None:
    """The process is dead before the folder is looked at: nothing is missed, or comes later."""
    body = (
        "import threading\n"
        "def later():\n"
        "    open('late', 'w').close()\n"
        "    while True:\n"
        "        open('late', 'a').write('x')\n"
        "started = threading.Thread(target=later, daemon=True)\n"
        "started.start()\n"
        "while not os.path.exists('late'):\n"
        "    pass"
    )
    cases = await verify(body, {"c": OK})
    assert kinds(cases["c"]) == (["undeclared"], [])


async def test_a_call_the_host_ended_passes_only_where_its_code_is_named(verify: Verify) -> None:
    """A crash must not pass as the error that a case expects."""
    cases = await verify(
        "os._exit(3)",
        {
            "any": {"args": {}, "expect": {"isError": True}},
            "named": {"args": {}, "expect": {"code": "worker_crashed"}},
            "other": {"args": {}, "expect": {"code": "timeout"}},
        },
    )
    assert {name: kinds(case)[0] for name, case in cases.items()} == {
        "any": ["host"],
        "named": [],
        "other": ["host"],
    }


async def test_a_timeout_of_a_case_bounds_the_handler(verify: Verify) -> None:
    """``timeout_ms`` shortens the configured limit."""
    cases = await verify(
        "while True: pass",
        {"c": {"args": {}, "timeout_ms": 50, "expect": {"code": "timeout"}}},
        config={"limits": {"grace_ms": 50}},
    )
    assert kinds(cases["c"]) == ([], [])


async def test_answers_to_an_approval_come_from_the_case(verify: Verify) -> None:
    """The agent's rules apply, and a case says what the person answers."""
    cases = await verify(
        "pass",
        {
            "default": OK,
            "deny": {"args": {}, "approve": "deny", "expect": {"code": "approval_denied"}},
            "nobody": {"args": {}, "approve": "none", "expect": {"code": "approval_required"}},
        },
        config={"rules": [{"match": "agent/t", "effect": "ask"}]},
    )
    assert {name: case.status for name, case in cases.items()} == {
        "default": "passed",
        "deny": "passed",
        "nobody": "passed",
    }


async def test_results_name_the_folder_as_cwd(verify: Verify) -> None:
    """``$CWD`` stands for a path that differs in every run, in arguments as well."""
    cases = await verify(
        "return {'content': [{'type': 'text', 'text': args['path'] + ' of ' + context.cwd}]}",
        {
            "c": {
                "args": {"path": "$CWD/a"},
                "expect": {"content": [{"type": "text", "text": "$CWD/a of $CWD"}]},
            }
        },
    )
    assert cases["c"].failures == ()


async def test_every_mismatch_is_reported_with_its_line(verify: Verify, tmp_path: Path) -> None:
    """One run shows all that is wrong."""
    cases = await verify(
        "return {'isError': True, 'code': 'x', 'content': [{'type': 'text', 'text': 'no'}]}",
        {
            "c": {
                "args": {},
                "files": {"a": "1"},
                "expect": {
                    "isError": False,
                    "code": "y",
                    "content": [{"type": "text", "text": "yes"}],
                    "files": {"a": "2", "b": ""},
                    "effects": {},
                },
            }
        },
    )
    case = cases["c"]
    assert [(item.kind, item.pointer) for item in case.failures] == [
        ("result", "/expect/isError"),
        ("code", "/expect/code"),
        ("content", "/expect/content/0"),
        ("effects", "/expect/effects"),
        ("files", "/expect/files/a"),
        ("files", "/expect/files/b"),
    ]
    assert {item.line for item in case.failures} == {1}


def grants(elsewhere: Path) -> dict[str, Any]:
    """Return a configuration whose profile also grants writing elsewhere."""
    profile = {"read": ["$CWD"], "write": ["$CWD", str(elsewhere)]}
    return {"sandbox": {"default": "wide", "profiles": {"wide": profile}}}


async def test_write_grants_elsewhere_are_withheld_without_a_view(
    verify: Verify, tmp_path: Path
) -> None:
    """Verifying changes nothing that is not thrown away, whatever the profile grants."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cases = await verify(
        "open('here', 'w').close()\n"
        f"try:\n    open({str(elsewhere / 'x')!r}, 'w')\n"
        "except OSError as exc:\n"
        "    return {'isError': True, 'code': 'kept_out', 'content': []}",
        {"c": {"args": {"declares": [["write", "here"]]}, "expect": {"code": "kept_out"}}},
        config=grants(elsewhere),
        simulate=["no-userns"],
    )
    assert kinds(cases["c"]) == ([], ["grants"])
    assert "withheld" in cases["c"].warnings[0].message
    assert cases["c"].outcome["looked_at"] == "folder"
    assert os.listdir(elsewhere) == []


async def test_a_tool_with_grants_elsewhere_runs_on_a_view_of_all(
    verify: Verify, tmp_path: Path
) -> None:
    """It may do what it may do, all of it is seen, and nothing stays."""
    require("userns", not has_views(), has_views())
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("old")
    cases = await verify(
        "import shutil\n"
        "os.rename('a', 'moved')\nos.unlink('gone')\nopen('same', 'w').write('same')\n"
        "shutil.rmtree('d')\nos.mkdir('d')\nopen('d/new', 'w').write('n')\nos.chmod('m', 0o600)\n"
        f"os.symlink({str(tmp_path)!r}, 'out')\n"
        f"open({str(elsewhere / 'x')!r}, 'w').close()\n"
        f"open({str(elsewhere / 'kept')!r}, 'w').write('new')\n"
        "if args.get('crash'):\n    os._exit(3)",
        {
            name: {
                "args": {
                    "crash": crash,
                    "declares": [
                        ["rename_source", "a"],
                        ["rename_destination", "moved"],
                        ["delete", "gone"],
                        ["write", "same"],
                        ["delete", "d/x"],
                        ["write", "d/new"],
                        ["write", "m"],
                        ["write", "out"],
                        ["write", str(elsewhere / "x")],
                        ["delete", str(elsewhere / "not")],
                    ],
                },
                "files": {"a": "a", "gone": "g", "same": "same", "d/x": "x", "m": {
                    "text": "m", "mode": "644"}},
                "expect": {
                    **({"code": "worker_crashed"} if crash else {}),
                    "files": {"moved": "a", "a": None, "gone": None, "d/x": None, "d/new": "n",
                              "m": {"mode": "600"}, "out": {"symlink": str(tmp_path)}},
                },
            }
            for name, crash in (("ends", False), ("crashes", True))
        },
        config=grants(elsewhere),
    )  # fmt: skip
    ends, crashes = cases["ends"], cases["crashes"]
    assert [item.message for item in ends.failures] == [
        f"undeclared write {elsewhere}/kept (file changed): no declared effect covers it"
    ]
    assert kinds(ends)[1] == ["grants", "undone"]
    assert f"delete of '{elsewhere}/not'" in ends.warnings[1].message
    assert kinds(crashes) == (["undeclared"], ["grants"])
    assert ends.outcome["looked_at"] == crashes.outcome["looked_at"] == "view"
    assert [str(change) for change in ends.changes if change.visible] == [
        "rename_source a (to moved)",
        "write d/new (file created)",
        "delete d/x (file removed)",
        "delete gone (file removed)",
        "write m (mode 644 to 600)",
        "rename_destination moved (from a)",
        "write out (symlink created)",
        f"write {elsewhere}/kept (file changed)",
        f"write {elsewhere}/x (file created)",
    ]
    assert {p.name: p.read_text() for p in elsewhere.iterdir()} == {"kept": "old"}


async def test_a_grant_that_no_view_can_lie_over_is_withheld(
    verify: Verify, tmp_path: Path
) -> None:
    """A single file, for one: the case still runs, without it."""
    require("userns", not has_views(), has_views())
    single = tmp_path / "single"
    single.write_text("old")
    cases = await verify(
        "open('here', 'w').close()\n"
        f"try:\n    open({str(single)!r}, 'w')\n"
        "except OSError as exc:\n"
        "    return {'isError': True, 'code': 'kept_out', 'content': []}",
        {"c": {"args": {"declares": [["write", "here"]]}, "expect": {"code": "kept_out"}}},
        config=grants(single),
    )
    assert kinds(cases["c"]) == ([], ["grants"])
    assert "withheld" in cases["c"].warnings[0].message
    assert single.read_text() == "old"


async def test_a_folder_full_of_tricks_fails_the_case_and_is_removed(
    verify: Verify, tmp_path: Path
) -> None:
    """Links out of the folder, no permissions, a huge file: nothing is followed or left."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    cases = await verify(
        f"os.symlink({str(secret)!r}, 'l')\nos.mkdir('d')\nopen('d/f', 'w').close()\n"
        "os.chmod('d/f', 0)\nos.chmod('d', 0)\n"
        "if args.get('huge'):\n"
        "    with open('h', 'wb') as file:\n        file.truncate(1 << 29)\n"
        "    with open('i', 'wb') as file:\n        file.truncate(1)",
        {
            "tricks": {"args": {}, "expect": {"files": {"l": {"symlink": str(secret)}}}},
            "huge": {
                "args": {"huge": True},
                "expect": {},
            },
        },
        config={"limits": {"scratch_bytes": 1 << 30}},
    )
    assert kinds(cases["tricks"]) == (["undeclared"] * 3, [])
    assert kinds(cases["huge"]) == (["folder"], [])
    assert footprint().roots == 0
    assert secret.read_text() == "s"


async def test_an_invalid_case_is_reported_and_the_others_run(verify: Verify) -> None:
    """One typing mistake does not hide what the rest says."""
    cases = await verify("pass", {"bad": {"args": {}}, "ok": OK})
    assert {name: case.status for name, case in cases.items()} == {
        "bad": "invalid",
        "ok": "passed",
    }
    assert [item.message for item in cases["bad"].failures] == ["missing required field 'expect'"]


async def test_the_report_is_in_order_of_name_however_many_run_at_once(verify: Verify) -> None:
    """Deterministic output, overlapping work."""
    names = [f"c{index}" for index in range(6)]
    cases = await verify("pass", dict.fromkeys(reversed(names), OK), jobs=4)
    assert list(cases) == names
    assert {case.status for case in cases.values()} == {"passed"}


async def test_nothing_is_left_when_a_run_is_cancelled(tmp_path: Path) -> None:
    """Workers are reaped and folders removed."""
    before = footprint()
    folder = write_tool(
        tmp_path, "t", "def handler(args, context):\n    while True: pass\n", language="python"
    )
    (folder / "cases").mkdir()
    (folder / "cases" / "c.json").write_text(json.dumps(OK))
    config = raw_exec.load_config(write_config(tmp_path, ["t"], limits={"grace_ms": 50}))
    checked, tool = load_target(config, find_targets(config, ["agent/t"], served=False)[0])
    assert tool is not None
    report = ToolReport(checked.target, checked.folder)
    with trio.fail_after(60):
        with trio.move_on_after(0.3) as scope:
            await run_cases(config, [(report, find_cases(tool))])
    assert scope.cancelled_caught
    assert footprint() == before


@pytest.mark.parametrize("name", ["append_notes", "line_count"])
async def test_the_examples_pass_their_own_cases(tmp_path: Path, name: str) -> None:
    """The examples are what authors copy, in both languages."""
    if name == "append_notes":
        require_node()
    config = raw_exec.load_config(write_config(tmp_path, []))
    report = await verify_target(config, str(EXAMPLES / name), jobs=2)
    assert len(report.cases) >= 2
    assert [item for case in report.cases for item in (*case.failures, *case.warnings)] == []


@pytest.mark.parametrize("name", ["read_file", "write_file"])
async def test_the_builtin_tools_do_what_they_declare(tmp_path: Path, name: str) -> None:
    """Tools of this package are verified like anybody's, with cases kept elsewhere."""
    config = raw_exec.load_config(write_config(tmp_path, []))
    report = await verify_target(config, f"builtin/{name}", HERE / "builtin" / name, jobs=2)
    assert len(report.cases) >= 2
    assert [item for case in report.cases for item in (*case.failures, *case.warnings)] == []


def statuses(report: ToolReport) -> dict[str, str]:
    """Return the status of every case."""
    return {case.name: case.status for case in report.cases}


async def test_an_esm_tool_that_lies_is_caught(tmp_path: Path) -> None:
    """The same for ES modules, whose effects are computed in process."""
    require_node()
    folder = write_tool(
        tmp_path,
        "t",
        "import fs from 'node:fs';\n"
        "export function describeEffects(args, { cwd }) {\n"
        "  return { files: [{ path: cwd + '/a', operation: 'write' }] };\n}\n"
        "export function handler(args, { cwd }) {\n"
        "  fs.writeFileSync(cwd + '/a', '1');\n"
        "  if (args.lie) fs.writeFileSync(cwd + '/b', '1');\n"
        "  return { content: [] };\n}\n",
        effects_schema={"type": "object", "properties": {"files": {"type": "array"}}},
        condition_sources=["effects"],
    )
    (folder / "cases").mkdir()
    for name, lie in (("honest", False), ("lying", True)):
        case = {"args": {"lie": lie}, "expect": {}}
        (folder / "cases" / f"{name}.json").write_text(json.dumps(case))
    config = raw_exec.load_config(write_config(tmp_path, ["t"]))
    report = await verify_target(config, "agent/t", jobs=2)
    assert statuses(report) == {"honest": "passed", "lying": "failed"}
    lying: CaseReport = report.cases[1]
    assert kinds(lying) == (["undeclared"], [])
