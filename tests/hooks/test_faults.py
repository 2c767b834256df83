"""Every way in which a hook goes wrong: a gate then blocks, anything else warns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import raw_exec
from tests.hooks.support import CONTINUE, DENY, ECHO, configure, opened, write_hook
from toolbox import footprint

FAULTS: list[tuple[str, str, dict[str, Any]]] = [
    ("import time\nwhile True: time.sleep(60)", "timeout", {"timeout_ms": 300}),
    (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        'print(\'{"decision":"continue"}\', flush=True)\nwhile True: time.sleep(60)',
        "timeout",
        {"timeout_ms": 300},
    ),
    ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "output_limit", {}),
    ("import sys\nwhile True: sys.stderr.write('x' * 65536)", "output_limit", {}),
    ("""print('{"decision":"continue"}' * 2)""", "extra_output", {}),
    ("""print('{"decision":"continue"}\\n{"decision":"deny","reason":"x"}')""", "extra_output", {}),
    ("print('ok')", "invalid_json", {}),
    ('print(\'{"decision":"allow"}\')', "wrong_decision", {}),
    (f"{CONTINUE}; raise SystemExit(1)", "nonzero_exit", {}),
    (f"{CONTINUE}; raise SystemExit(137)", "nonzero_exit", {}),
    (f"{CONTINUE}; import os, sys; sys.stdout.flush(); os.kill(os.getpid(), 9)", "killed", {}),
    ("raise RuntimeError", "nonzero_exit", {}),
    ("x = bytearray(2 << 30)", "nonzero_exit", {}),
    (CONTINUE, "program_missing", {"command": "no-such-program-here"}),
    (CONTINUE, "interpreter_missing", {"command": "./bad-script", "args": []}),
    (CONTINUE, "program_refused", {"command": "./not-elf", "args": []}),
]


def faulty(root: Path, source: str, event: str, fields: dict[str, Any]) -> raw_exec.Config:
    folder = root / "hooks" / "guard"
    folder.mkdir(parents=True)
    for name, text in (("bad-script", "#!/no/such/shell\n"), ("not-elf", "\x7fELF nonsense")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    ids = [
        write_hook(root, "guard", source, [{"name": event}], **fields),
        write_hook(root, "after", CONTINUE, [{"name": event}]),
    ]
    return configure(root, ids)


@pytest.mark.parametrize(("source", "error", "fields"), FAULTS)
async def test_a_gate_that_fails_stops_the_call(
    tmp_path: Path, source: str, error: str, fields: dict[str, Any]
) -> None:
    """Symptoms: hangs, floods, two objects, exit 137, will not start; anything else blocks."""
    config = faulty(tmp_path, source, "PreToolUse", fields)
    before = footprint()
    with trio.fail_after(60):
        async with opened(config, tmp_path) as hooks:
            refusal = await hooks.pre()
    assert refusal is not None
    assert (refusal.code, refusal.detail["error"]) == ("hook_denied", error)  # type: ignore[attr-defined]
    assert refusal.message.startswith("agent/t was not run: hook agent/guard ")
    assert [(r.hook, r.outcome, r.error) for r in hooks.receipts] == [
        ("agent/guard", "blocked", error)
    ]
    assert footprint() == before


@pytest.mark.parametrize(("source", "error", "fields"), FAULTS)
async def test_a_notification_that_fails_warns_and_the_next_one_is_told(
    tmp_path: Path, source: str, error: str, fields: dict[str, Any]
) -> None:
    """Symptoms: the same hooks where nothing can be stopped; nothing is."""
    config = faulty(tmp_path, source, "PostToolUse", fields)
    with trio.fail_after(60):
        async with opened(config, tmp_path) as hooks:
            await hooks.service.post_tool(hooks.call(), {"content": [], "isError": False})
    assert [(r.hook, r.outcome, r.error) for r in hooks.receipts] == [
        ("agent/guard", "warned", error),
        ("agent/after", "continued", None),
    ]


@pytest.mark.parametrize("printed", [CONTINUE, "print('junk')", "pass"])
async def test_exit_2_denies_although_it_printed_a_continue_decision(
    tmp_path: Path, printed: str
) -> None:
    """Symptom: exit 2 with a continue decision; exit 2 wins."""
    config = configure(tmp_path, [write_hook(tmp_path, "guard", f"{printed}; raise SystemExit(2)")])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            refusal = await hooks.pre()
    assert refusal is not None
    assert refusal.message == "agent/t was denied by hook agent/guard: exited with status 2"
    assert hooks.receipts[0].outcome == "denied"


async def test_exit_2_gives_the_reason_that_it_printed_properly(tmp_path: Path) -> None:
    """Our choice: a proper denial's reason is the reason."""
    config = configure(tmp_path, [write_hook(tmp_path, "guard", f"{DENY}; raise SystemExit(2)")])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            await hooks.pre()
    assert hooks.receipts[0].message == "no"


async def test_an_edit_after_load_changes_nothing(tmp_path: Path) -> None:
    """Symptom: edited after load; code, manifest and folder are those of the load."""
    config = configure(tmp_path, [write_hook(tmp_path, "guard", DENY)])
    folder = tmp_path / "hooks" / "guard"
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            (folder / "hook.py").write_text(CONTINUE)
            (folder / "hook.json").write_text("{}")
            assert await hooks.pre() is not None
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
            assert await hooks.pre() is not None
    assert [receipt.outcome for receipt in hooks.receipts] == ["denied", "denied"]


async def test_an_edit_of_a_big_folder_after_load_changes_nothing_either(tmp_path: Path) -> None:
    """The same for a folder that is copied at load since memory is no place for it."""
    hook = write_hook(tmp_path, "guard", DENY)
    (tmp_path / "hooks" / "guard" / "blob").write_bytes(b"x" * (2 << 20))
    config = configure(tmp_path, [hook])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            (tmp_path / "hooks" / "guard" / "hook.py").write_text(CONTINUE)
            assert await hooks.pre() is not None


async def test_a_hook_that_does_not_read_a_large_event_is_no_fault(tmp_path: Path) -> None:
    """Our choice: a hook need not read its input."""
    config = configure(tmp_path, [write_hook(tmp_path, "guard", CONTINUE)])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            assert await hooks.pre({"text": "x" * (4 << 20)}) is None


async def test_a_large_event_arrives_whole(tmp_path: Path) -> None:
    """The pair of the above."""
    source = (
        "import json, sys; told = sys.stdin.read()\n"
        "print(json.dumps({'decision': 'deny', 'reason': f'{len(told)} {told[-3:]!r}'}))"
    )
    config = configure(tmp_path, [write_hook(tmp_path, "guard", source)])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            await hooks.pre({"text": "x" * (4 << 20)})
    size, tail = (hooks.receipts[0].message or "").split(" ")
    assert (int(size) > 4 << 20, tail) == (True, repr("}}\n"))


async def test_a_working_directory_that_is_not_utf_8_blocks(tmp_path: Path) -> None:
    """Our choice: what can't be told can't be judged."""
    config = configure(tmp_path, [write_hook(tmp_path, "guard", CONTINUE)])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            call = hooks.call()
            call.cwd = f"{tmp_path}/\udcff"
            with pytest.raises(raw_exec.RawExecError):
                await hooks.service.pre_tool(call)
    assert (hooks.receipts[0].outcome, hooks.receipts[0].error) == ("blocked", "request_invalid")


async def test_a_cancelled_call_ends_its_hook(tmp_path: Path) -> None:
    """style §5.8: afterwards no process is alive."""
    fifo = tmp_path / "started"
    os.mkfifo(fifo)
    source = (
        "import os, time\nfd = os.open('started', os.O_WRONLY)\nos.close(fd)\n"
        "while True: time.sleep(60)"
    )
    write = {"sandbox": {"profiles": {"w": {"read": ["$CWD"], "write": ["$CWD"]}}}}
    write["sandbox"]["tools"] = {"hook/agent/guard": "w"}  # type: ignore[assignment]
    config = configure(tmp_path, [write_hook(tmp_path, "guard", source)], **write)
    before = footprint()
    with trio.fail_after(60):
        async with opened(config, tmp_path) as hooks, trio.open_nursery() as nursery:
            nursery.start_soon(hooks.pre)
            fd = await trio.to_thread.run_sync(os.open, fifo, os.O_RDONLY)
            os.close(fd)
            nursery.cancel_scope.cancel()
    assert (hooks.receipts, footprint()) == ([], before)


async def test_many_calls_at_once_share_a_bound_number_of_processes(tmp_path: Path) -> None:
    """Our choice: eight hook processes at any time; the rest wait their turn."""
    config = configure(tmp_path, [write_hook(tmp_path, "guard", CONTINUE)])
    with trio.fail_after(120):
        async with opened(config, tmp_path) as hooks, trio.open_nursery() as nursery:
            for _ in range(24):
                nursery.start_soon(hooks.pre)
            await wait_all_tasks_blocked()
            assert hooks.service.statistics()["running"] <= 8
    assert [receipt.outcome for receipt in hooks.receipts] == ["continued"] * 24


async def test_a_launcher_that_is_gone_blocks(tmp_path: Path) -> None:
    """Failing closed: without a launcher no hook can say yes."""
    config = configure(tmp_path, [write_hook(tmp_path, "guard", CONTINUE)])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            await hooks.service._launcher.aclose()
            assert await hooks.pre() is not None
    assert hooks.receipts[0].outcome == "blocked"


async def test_the_receipt_of_a_failure_does_not_quote_the_hook(tmp_path: Path) -> None:
    """Contract: stdin and stdout are not logged; nor is standard error."""
    source = "import sys; print('tok-secret'); sys.stderr.write('tok-secret'); raise SystemExit(9)"
    config = configure(tmp_path, [write_hook(tmp_path, "guard", source)])
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            refusal = await hooks.pre({"text": "tok-argument"})
    shown = json.dumps([r.as_dict() for r in hooks.receipts]) + str(refusal) + repr(refusal)
    assert "tok-" not in shown


async def test_a_message_with_escapes_is_kept_as_data(tmp_path: Path) -> None:
    """What is shown to a person is escaped where it is shown; the receipt keeps the text."""
    source = "import json; print(json.dumps({'decision': 'continue', 'message': '\\x1b[2J'}))"
    config = configure(
        tmp_path, [write_hook(tmp_path, "guard", source), write_hook(tmp_path, "e", ECHO)]
    )
    with trio.fail_after(30):
        async with opened(config, tmp_path) as hooks:
            await hooks.pre()
    assert hooks.receipts[0].message == "\x1b[2J"
