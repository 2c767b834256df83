"""The file tools through an open runtime: schema, effects, rules, and a sandboxed worker."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from toolbox import footprint, write_config

from .test_view_image import PNG

TOOLS = ["builtin/read_file", "builtin/write_file", "builtin/view_image"]


@asynccontextmanager
async def opened(root: Path, **options: Any) -> AsyncIterator[tuple[raw_exec.Runtime, Path]]:
    """Open a runtime with the file tools whose working directory is ``root/work``."""
    work = root / "work"
    work.mkdir()
    approve = options.pop("approve", None)
    config = raw_exec.load_config(write_config(root, TOOLS, **options))
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=work, approve=approve) as runtime:
            yield runtime, work


def rows_of(result: raw_exec.ToolResult, key: str) -> list[dict[str, Any]]:
    (block,) = result.content
    assert block["type"] == "json"
    rows: list[dict[str, Any]] = block["value"][key]
    return rows


async def test_the_file_tools_work_together_and_leave_nothing(tmp_path: Path) -> None:
    """Read, edit by the digest that was read, patch, read again; the worker is reused."""
    before = footprint()
    async with opened(tmp_path) as (runtime, work):
        call = runtime.registry.dispatch
        make = [{"path": "d/f.txt", "mode": "overwrite", "content": "one\ntwo\nthree\n"}]
        made = await call("write_file", {"operations": make})
        assert (made.is_error, rows_of(made, "rows")[0]["status"]) == (False, "applied")
        assert made.enforced["landlock"] > 0

        read = await call("read_file", {"files": [{"path": "d/f.txt", "end_line": 2}]})
        (row,) = rows_of(read, "files")
        assert (row["text"], row["eof"]) == ("one\ntwo\n", False)
        edit = {
            "path": "d/f.txt",
            "mode": "replace_lines",
            "start_line": 1,
            "end_line": 2,
            "content": "1\n2\n",
            "expected_sha256": row["sha256"],
        }
        edited = await call("write_file", {"operations": [edit]})
        assert (edited.is_error, edited.usage["worker"]) == (False, "warm")

        patch = (
            "*** Begin Patch\n*** Update File: d/f.txt\n*** Move to: e/g.txt\n@@\n 2\n-three\n+3\n"
            "*** Add File: new/n\n+x\n*** Update File: e.sh\n*** Move to: bin/e.sh\n"
            "*** End Patch\n"
        )
        refused = await call("write_file", {"patch": patch})
        assert (refused.is_error, refused.code) == (True, "write_conflict")
        assert (work / "d" / "f.txt").read_text() == "1\n2\nthree\n"
        (work / "e.sh").write_text("#!/bin/sh\n")
        (work / "e.sh").chmod(0o755)
        patched = await call("write_file", {"patch": patch})
        assert [row["status"] for row in rows_of(patched, "rows")] == ["applied"] * 3
        files = {str(p.relative_to(work)): p.read_text() for p in work.rglob("*") if p.is_file()}
        assert files == {"e/g.txt": "1\n2\n3\n", "new/n": "x\n", "bin/e.sh": "#!/bin/sh\n"}
        assert (work / "bin" / "e.sh").stat().st_mode & 0o777 == 0o755
        assert patched.usage["worker"] == "warm"
    assert footprint() == before


async def test_paths_outside_of_the_grants_are_row_errors(tmp_path: Path) -> None:
    """Security: cannot read or write outside of the working directory; can still inside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s3cret\n")
    async with opened(tmp_path) as (runtime, work):
        call = runtime.registry.dispatch
        (work / "link").symlink_to(outside / "secret")
        (work / "inside").write_text("a\n")
        names = [str(outside / "secret"), "../outside/secret", "link", "inside"]
        read = await call("read_file", {"files": [{"path": name} for name in names]})
        *denied, inside = rows_of(read, "files")
        codes = {row["error"]["code"] for row in denied}
        assert codes <= {"permission_denied", "not_found"}
        assert (read.is_error, inside["text"], "s3cret" in read.text) == (False, "a\n", False)

        operations = [
            {"path": str(outside / "new"), "mode": "overwrite", "content": "x"},
            {"path": "link", "mode": "append", "content": "x"},
            {"path": "inside", "mode": "append", "content": "b\n"},
        ]
        wrote = await call("write_file", {"operations": operations})
        assert [row["status"] for row in rows_of(wrote, "rows")] == ["failed", "failed", "applied"]
        assert (work / "inside").read_text() == "a\nb\n"

        for section in (
            f"*** Add File: {outside}/new\n+x\n",
            "*** Update File: inside\n@@\n-a\n+A\n*** Delete File: ../outside/secret\n",
            "*** Update File: inside\n*** Move to: ../outside/moved\n",
        ):
            patch = f"*** Begin Patch\n{section}*** End Patch\n"
            refused = await call("write_file", {"patch": patch})
            assert (refused.code, section) == ("write_conflict", section)
        assert (work / "inside").read_text() == "a\nb\n"

        (outside / "x.png").write_bytes(PNG)
        (work / "x.png").write_bytes(PNG)
        hidden = await call("view_image", {"path": "../outside/x.png"})
        assert (hidden.is_error, [b["type"] for b in hidden.content]) == (True, ["json"])
        shown = await call("view_image", {"path": "x.png"})
        assert [b["type"] for b in shown.content] == ["image"]
    assert sorted(p.name for p in outside.iterdir()) == ["secret", "x.png"]
    assert (outside / "secret").read_text() == "s3cret\n"


async def test_the_seeds_rule_sends_both_forms_to_approval(tmp_path: Path) -> None:
    """Seed 1: /protected/ in the effects asks, and approval sees effects beside arguments."""
    when = {"source": "effects", "any": "files[*].path", "regex": "/protected/"}
    rules = [{"match": "builtin/write_file", "effect": "ask", "when": when}]
    asked: list[Any] = []

    async def approve(request: raw_exec.ApprovalRequest) -> str:
        asked.append(request.as_dict()["effects"])
        return "deny"

    async with opened(tmp_path, rules=rules, approve=approve) as (runtime, work):
        call = runtime.registry.dispatch
        by_operation = [{"path": "protected/x", "mode": "append", "content": "x"}]
        patch = (
            "*** Begin Patch\n*** Add File: ok\n+x\n*** Add File: protected/x\n+x\n*** End Patch\n"
        )
        for args in ({"operations": by_operation}, {"patch": patch}):
            denied = await call("write_file", args)
            assert (denied.code, denied.stage) == ("approval_denied", "approval")
        free = [{"path": "ok", "mode": "append", "content": "x"}]
        assert not (await call("write_file", {"operations": free})).is_error
        assert [p.name for p in work.iterdir()] == ["ok"]
    target = {"path": str(tmp_path / "work" / "protected" / "x"), "operation": "write"}
    assert [effects["files"][-1] for effects in asked] == [target, target]


@pytest.mark.parametrize("stage", ["schema", "validate_args"])
async def test_a_wrong_call_is_refused_before_anything_runs(tmp_path: Path, stage: str) -> None:
    """Contract: 10,000 tiny operations fail the schema; a Git patch fails validation."""
    wrong: dict[str, Any] = {
        "schema": {"operations": [{"path": "a", "mode": "append", "content": "x"}] * 10_000},
        "validate_args": {
            "patch": "*** Begin Patch\n*** Update File: a\n@@ -1 +1 @@\n-a\n+b\n*** End Patch\n"
        },
    }
    async with opened(tmp_path) as (runtime, work):
        result = await runtime.registry.dispatch("write_file", wrong[stage])
        assert (result.code, result.stage) == ("invalid_arguments", stage)
        assert runtime.launcher.pid is None
        assert list(work.iterdir()) == []
    if stage == "validate_args":
        assert "numeric Git hunk header" in result.text


async def test_sixteen_files_come_back_within_the_budget(tmp_path: Path) -> None:
    """Contract: the JSON block is never cut by the host, at any budget that holds rows."""
    async with opened(tmp_path) as (runtime, work):
        for n in range(16):
            (work / f"f{n}").write_text("line é \t\n" * 2000)
        files = {"files": [{"path": f"f{n}"} for n in range(16)]}
        for budget in (4096, 8192, 1_000_000):
            result = await runtime.registry.dispatch("read_file", files, max_output_bytes=budget)
            rows = rows_of(result, "files")
            assert "truncated_bytes" not in result.usage
            digests = [hashlib.sha256(row["text"].encode()).hexdigest() for row in rows]
            assert digests == [row["sha256"] for row in rows]
        assert len(rows) == 16
        assert all(row["eof"] for row in rows)
