"""Where a view can't be had nothing runs: the refusal names the step and the path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raw_exec
from raw_exec.errors import ConfigError, SandboxError
from raw_exec.sandbox import host_plan, in_view
from raw_exec.sandbox.runtime_files import RuntimeFiles
from requires import require
from tests.launcher.client import Client, Refused
from tests.transactions.world import open_world, tree
from toolbox import plan_of, py_config

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client() as client:
        require("overlay", client.capabilities["overlay"]["works"], "no views here")
        yield client


@pytest.mark.slow
@pytest.mark.parametrize(("missing", "step"), [("no-overlay", "overlay"), ("no-userns", "userns")])
async def test_a_host_without_views_runs_nothing_under_them(
    missing: str, step: str, tmp_path: Path
) -> None:
    """Never less than asked, and what asks for no view still runs."""
    async with open_world(tmp_path, simulate=(missing,)) as world:
        before = tree(world.ws)
        for profile, options in (
            ("observed", {}),
            ("enforced", {}),
            ("declared", {"dry_run": True}),
        ):
            told = await world.run(profile, "open('n','w').close()", **options)
            assert (told.code, told.stage) == ("sandbox_unavailable", "sandbox"), told
            assert told.detail["step"] == step
            assert told.committed is None
        assert tree(world.ws) == before
        told = await world.run("declared", "open('n','w').close()")
        assert (told.code, told.committed) == (None, None)
        assert (world.ws / "n").exists()


def test_a_single_file_has_no_view(client: Client, tmp_path: Path) -> None:
    """The folder it lies in would have to be the lower layer."""
    file = tmp_path / "f"
    file.write_text("x")
    with pytest.raises(Refused) as caught:
        client.python("pass", write=[str(file)], view=True)
    assert caught.value.step == "view"
    assert repr(str(file)) in caught.value.message
    ended = client.python(
        f"open({str(file)!r}, 'a').write('y')", write=[str(file)], tier="namespaces"
    )
    assert (ended.exited["code"], file.read_text()) == (0, "xy")


MOUNTS = """
import json, os, sys
sys.path[:0] = [{root!r}, {tests!r}]
from tests.launcher.client import Client, Refused
base = sys.argv[1]
out = {{}}
with Client() as client:
    for name in sys.argv[2:]:
        work = base + "/" + name
        try:
            ended = client.python(
                "try: open('n', 'w').close(); print('wrote')\\n"
                "except OSError as e: print(e.errno)",
                write=[work], cwd=work, view=True)
            out[name] = ended.out + ended.err
        except Refused as exc:
            out[name] = [exc.step, exc.errno, exc.message]
        out[name + ":n"] = os.path.exists(work + "/n")
print(json.dumps(out))
"""


def test_nested_mounts_and_unfit_file_systems_are_named(tmp_path: Path) -> None:
    """A mount inside would be bared or hidden; too deep a stack of overlays is no lower layer."""
    require("root", os.geteuid() == 0, "only root can mount")
    for name in ("nest/in", "plain", "ro", "l", "u1", "w1", "m1", "u2", "w2", "m2"):
        (tmp_path / name).mkdir(parents=True)
    script = (
        "set -e\nmount -t tmpfs none nest/in\nmount --bind ro ro\nmount -o remount,bind,ro ro\n"
        "mount -t tmpfs none m1\nmkdir m1/u m1/w m1/u2 m1/w2\n"
        "mount -t overlay o -o lowerdir=l,upperdir=m1/u,workdir=m1/w m2\n"
        "mount -t overlay o -o lowerdir=m2,upperdir=m1/u2,workdir=m1/w2 l\n"
        'exec "$@"'
    )
    code = MOUNTS.format(root=str(ROOT), tests=str(ROOT / "tests"))
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-c", code, str(tmp_path),
         "nest", "plain", "ro", "m2", "l"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    require("mounts", "mount" not in done.stderr, done.stderr[-300:])
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    step, _number, message = found["nest"]
    assert step == "view"
    assert repr(str(tmp_path / "nest" / "in")) in message
    assert found["plain"] == "wrote\n"
    # A read-only mount stays one, inside of the view too.
    assert found["ro"] == "30\n"
    assert found["m2"] == "wrote\n"
    step, _number, message = found["l"]
    assert step == "overlay"
    assert repr(str(tmp_path / "l")) in message
    assert not any(found[name] for name in found if name.endswith(":n"))


def test_only_calls_can_have_a_view(tmp_path: Path) -> None:
    """Anything else would lose its changes without a word."""
    plan = plan_of(tmp_path, effects="observed")
    runtime = RuntimeFiles("none", (), (), 0)
    with pytest.raises(SandboxError, match="only the calls of a tool can have"):
        host_plan(plan, runtime=runtime, snapshot_dir=None)
    assert host_plan(plan, runtime=runtime, snapshot_dir=None, settles=True)["view"] is True
    assert in_view(plan) is plan
    bare = plan_of(tmp_path)
    assert (in_view(bare).view, in_view(bare).tier) == (True, "namespaces")
    assert in_view(bare).key != bare.key
    with pytest.raises(SandboxError, match="without any confinement"):
        in_view(plan_of(tmp_path, sandbox=False))


@pytest.mark.slow
@pytest.mark.parametrize("scratch_bytes", [8 << 20, 5 << 30])
async def test_a_sparse_file_keeps_its_holes_or_names_the_quota(
    scratch_bytes: int, tmp_path: Path
) -> None:
    """4 GiB that take no room: copied up and committed as holes, where the quota is larger."""
    async with open_world(tmp_path, limits={"scratch_bytes": scratch_bytes}) as world:
        big = world.ws / "big"
        with big.open("wb") as file:
            file.truncate(4 << 30)
        told = await world.run("observed", "f = open('big','r+b'); f.seek(1 << 31); f.write(b'x')")
        if scratch_bytes < 4 << 30:
            assert (told.code, told.committed) == ("output_limit", False), told
            assert told.detail["limit"] == "scratch_bytes"
            assert big.stat().st_blocks == 0
        else:
            assert (told.code, told.committed) == (None, True), told
            assert big.stat().st_size == 4 << 30
            assert big.stat().st_blocks * 512 < 1 << 20
            with big.open("rb") as file:
                assert os.pread(file.fileno(), 3, (1 << 31) - 1) == b"\0x\0"


@pytest.mark.slow
async def test_more_files_than_the_quota_has_room_for(tmp_path: Path) -> None:
    """100,000 small files: refused cleanly, nothing committed, nothing left."""
    async with open_world(tmp_path) as world:
        told = await world.run(
            "observed", "for i in range(100_000): os.close(os.open(f'f{i}', os.O_CREAT))"
        )
        assert (told.code, told.committed) == ("output_limit", False), told
        assert told.detail["limit"] == "scratch_bytes"
        assert os.listdir(world.ws) == []


def test_review_needs_a_view_without_network(tmp_path: Path) -> None:
    """Else there is nothing left to withhold when the answer is no."""
    rule = {"match": "agent/*", "effect": "ask", "review": True}
    body = "return {'content': []}"
    view = {"extends": "workspace", "effects": "observed"}
    for profile, reason in (
        ({"extends": "workspace"}, "effects 'declared'"),
        ({**view, "network": "host"}, "network 'host'"),
        ({**view, "network": "loopback"}, "network 'loopback'"),
    ):
        config = py_config(
            tmp_path, body, rules=[rule], sandbox={"profiles": {"p": profile}, "default": "p"}
        )
        with pytest.raises(ConfigError) as caught:
            raw_exec.tools.load_registry(config)
        (problem,) = caught.value.problems
        assert problem.pointer == "/agents/a/tools/rules/0"
        assert reason in problem.message
    # A rule that can't decide any more asks nothing of the tool.
    later = {"match": "agent/t", "effect": "allow"}
    config = py_config(
        tmp_path, body, rules=[rule, later], sandbox={"profiles": {"p": {}}, "default": "p"}
    )
    assert raw_exec.tools.load_registry(config).names == ("t",)
