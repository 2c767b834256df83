"""What a hook's process may do, in pairs: it cannot by default, and can where it is granted."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import trio

import raw_exec
from raw_exec.hooks import hook_plan
from tests.hooks.support import configure, facts, opened, write_hook

TRY = """import json
def attempt(text):
    try:
        return str(eval(text))[:80]
    except BaseException as exc:
        return type(exc).__name__
print(json.dumps({"decision": "continue", "message": json.dumps([attempt(t) for t in %r])}))
"""
PROFILE: dict[str, Any] = {
    "read": ["$CWD", "$CONFIG"],
    "write": ["$CWD"],
    "network": "loopback",
    "processes": "allowed",
}


async def tried(config: raw_exec.Config, cwd: Path) -> list[str]:
    with trio.fail_after(60):
        async with opened(config, cwd) as hooks:
            await hooks.pre()
    (receipt,) = hooks.receipts
    assert receipt.outcome == "continued", facts(receipt)
    found: list[str] = json.loads(receipt.message or "")
    return found


def probing(root: Path, attempts: list[str], **extra: Any) -> raw_exec.Config:
    return configure(root, [write_hook(root, "probe", TRY % attempts)], **extra)


def granted(glob: str = "hook/agent/probe", **fields: Any) -> dict[str, Any]:
    return {"sandbox": {"profiles": {"wide": {**PROFILE, **fields}}, "tools": {glob: "wide"}}}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A configuration folder, and a working directory elsewhere."""
    config, work = tmp_path / "config", tmp_path / "work"
    config.mkdir()
    work.mkdir()
    (work / "data").write_text("work")
    (tmp_path / "outside").write_text("outside")
    return config, work


async def test_it_reads_its_snapshot_the_working_directory_and_the_configuration(
    places: tuple[Path, Path],
) -> None:
    """Contract: these three read-only; it starts in the working directory."""
    config, work = places
    attempts = [
        "open('data').read()",
        f"open({str(config / 'config.json')!r}).read(1)",
        "len(open(__file__).read()) > 0",
        "__import__('os').getcwd()",
    ]
    assert await tried(probing(config, attempts), work) == ["work", "{", "True", str(work)]


async def test_it_reads_nothing_else_and_writes_nothing_but_scratch(
    places: tuple[Path, Path],
) -> None:
    """Contract: no file outside, no write anywhere, its own snapshot included."""
    config, work = places
    attempts = [
        f"open({str(work.parent / 'outside')!r}).read()",
        "open('/etc/passwd').read()",
        "open('new', 'w')",
        f"open({str(config / 'hooks' / 'probe' / 'hook.py')!r}, 'w')",
        "open(__file__, 'w')",
        "open(__import__('os').environ['TMPDIR'] + '/x', 'w').write('yes')",
    ]
    found = await tried(probing(config, attempts), work)
    # Which of them depends on the tier: hidden, read-only, or not permitted.
    assert set(found[:5]) <= {"PermissionError", "FileNotFoundError", "OSError"}
    assert found[5] == "3"
    assert sorted(path.name for path in work.iterdir()) == ["data"]


async def test_it_has_no_network_and_starts_no_program(places: tuple[Path, Path]) -> None:
    """Contract: no network, no other processes."""
    config, work = places
    attempts = [
        "__import__('socket').socket().bind(('127.0.0.1', 0))",
        "__import__('os').posix_spawn('/bin/true', ['true'], {})",
        "__import__('os').fork()",
    ]
    found = await tried(probing(config, attempts), work)
    assert set(found) <= {"PermissionError", "OSError"}


async def test_its_environment_is_not_that_of_the_host(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contract: nothing is inherited; HOME is its scratch."""
    monkeypatch.setenv("API_KEY", "tok-secret")
    config, work = places
    attempts = [
        "sorted(__import__('os').environ)",
        "'tok-secret' in str(dict(__import__('os').environ))",
    ]
    names, leaked = await tried(probing(config, attempts), work)
    known = {"HOME", "LANG", "LC_CTYPE", "PATH", "TEMP", "TMP", "TMPDIR"}
    assert (set(ast.literal_eval(names)) - known, leaked) == (set(), "False")


@pytest.mark.parametrize("glob", ["hook/agent/probe", "hook/*", "hook/agent/pro?e"])
async def test_a_profile_of_its_own_lets_it_do_more(places: tuple[Path, Path], glob: str) -> None:
    """Contract: an entry hook/<selection ID> in sandbox.tools."""
    config, work = places
    attempts = [
        "open('new', 'w').write('yes')",
        "__import__('socket').socket().bind(('127.0.0.1', 0))",
        "__import__('subprocess').run(['true']).returncode",
    ]
    found = await tried(probing(config, attempts, **granted(glob)), work)
    assert (found, (work / "new").read_text()) == (["3", "None", "0"], "yes")


@pytest.mark.parametrize(
    "glob", ["*", "agent/*", "*/agent/probe", "hook/local/probe", "agent/probe"]
)
async def test_a_profile_for_tools_never_widens_a_hook(
    places: tuple[Path, Path], glob: str
) -> None:
    """Contract: only entries that begin with hook/ are about hooks."""
    config, work = places
    loaded = probing(config, [], **granted(glob))
    plan = hook_plan(loaded, "agent/probe", cwd=str(work))
    assert (plan.profile, plan.write, plan.network, plan.processes, plan.read) == (
        "hook",
        (),
        "none",
        False,
        tuple(sorted((str(config), str(work)))),
    )


async def test_a_hook_that_may_not_enter_the_working_directory_starts_in_its_folder(
    places: tuple[Path, Path],
) -> None:
    """Our choice: a narrower profile is no reason to fail."""
    config, work = places
    attempts = ["open('data').read()", "sorted(__import__('os').listdir('.'))"]
    extra = granted(read=["$CONFIG"], write=[], processes="none")
    found = await tried(probing(config, attempts, **extra), work)
    assert found == ["FileNotFoundError", "['hook.json', 'hook.py']"]


async def test_a_profile_that_can_not_be_enforced_blocks(
    places: tuple[Path, Path],
) -> None:
    """Failing closed: a grant that has no meaning here."""
    config, work = places
    loaded = probing(config, [], **granted(tier="cgroup"))
    with trio.fail_after(60):
        async with opened(loaded, work, simulate=("no-cgroup",)) as hooks:
            assert await hooks.pre() is not None
    (receipt,) = hooks.receipts
    assert (receipt.outcome, receipt.error) == ("blocked", "sandbox_unavailable")
