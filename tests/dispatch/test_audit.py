"""The audit log: one record a call, nothing secret in it, rotated."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from pathlib import Path

import pytest
import trio

import raw_exec
from raw_exec.dispatch.audit import AuditLog
from toolbox import py_config


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_records_are_appended_one_a_line_with_a_private_mode(tmp_path: Path) -> None:
    """A person can filter the file with jq; nobody else can read it."""
    path = tmp_path / "audit.jsonl"
    for text in ("a", "line\nbreak"):
        log = AuditLog(path)
        log.write({"text": text})
        log.close()
    assert _lines(path) == [{"text": "a"}, {"text": "line\nbreak"}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_rotation_keeps_the_newest_files_and_loses_no_record_of_theirs(tmp_path: Path) -> None:
    """Size-bounded: keep + 1 files of at most max_bytes."""
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path, max_bytes=100, keep=2)
    for n in range(40):
        log.write({"n": n})
    log.close()
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    kept = [r["n"] for name in reversed(names) for r in _lines(tmp_path / name)]
    assert kept == list(range(40 - len(kept), 40))
    assert all(p.stat().st_size <= 100 for p in tmp_path.iterdir())


def test_a_record_over_the_limit_is_written_whole(tmp_path: Path) -> None:
    """Nothing is dropped for being long."""
    log = AuditLog(tmp_path / "a", max_bytes=10)
    log.write({"text": "x" * 100})
    log.close()
    assert _lines(tmp_path / "a") == [{"text": "x" * 100}]


def _append(path: str, who: int) -> None:
    log = AuditLog(path, max_bytes=2000, keep=50)
    for n in range(100):
        log.write({"who": who, "n": n})
    log.close()


@pytest.mark.slow
def test_processes_that_share_a_file_lose_nothing(tmp_path: Path) -> None:
    """Race: rotation by one process while another waits for the lock."""
    context = multiprocessing.get_context("spawn")
    path = str(tmp_path / "audit.jsonl")
    writers = [context.Process(target=_append, args=(path, who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    seen = [(r["who"], r["n"]) for p in tmp_path.iterdir() for r in _lines(p)]
    assert sorted(seen) == [(who, n) for who in range(3) for n in range(100)]


def test_a_link_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    """Security: an audit log must not be led to another file."""
    os.symlink(tmp_path / "elsewhere", tmp_path / "audit.jsonl")
    with pytest.raises(raw_exec.ConfigError) as caught:
        AuditLog(tmp_path / "audit.jsonl")
    assert caught.value.code == "audit_unwritable"


@pytest.mark.slow
async def test_every_call_leaves_one_record_without_its_arguments(tmp_path: Path) -> None:
    """Good, failed, refused and cancelled calls alike; secrets in none."""
    body = (
        "if args.get('sleep'):\n    import time; time.sleep(100)\n"
        "if args.get('fail'):\n    raise ValueError('hunter2')\n"
        "return {'content': [{'type': 'text', 'text': args.get('secret', '')}]}"
    )
    config = py_config(tmp_path, body, limits={"grace_ms": 10})
    path = tmp_path / "audit.jsonl"
    with trio.fail_after(60):
        async with raw_exec.open_runtime(config, cwd=tmp_path, audit=path) as runtime:
            call = runtime.registry.dispatch
            await call("t", {"secret": "hunter2"}, tool_call_id="good")
            await call("t", {"fail": True, "secret": "hunter2"}, tool_call_id="failed")
            await call("nobody", {"secret": "hunter2"}, tool_call_id="refused")
            with trio.move_on_after(0.05):
                await call("t", {"sleep": True}, tool_call_id="cancelled")
    records = _lines(path)
    assert [(r["tool_call_id"], r["code"], r["stage"]) for r in records] == [
        ("good", None, "handler"),
        ("failed", "handler_error", "handler"),
        ("refused", "unknown_tool", "exposure"),
        ("cancelled", "aborted", "handler"),
    ]
    assert "hunter2" not in path.read_text()
    assert records[0]["identity"] == "agent/t"
    assert records[1]["detail"] == {"kind": "threw", "error": "ValueError"}
