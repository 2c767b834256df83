"""Where no view can be mounted, and the profile allows it, a copy of the tree takes its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raw_exec.transactions.changes import Change
from raw_exec.transactions.observe_copy import observe_copy, parse_manifest
from tests.transactions.view_cases import CASES
from tests.transactions.world import open_world, tree
from toolbox import footprint
from workers.launcher.copytree import content_sum

ALSO = {"copy_bytes": 4 << 20}
SAME = (
    "what_a_call_changes_is_committed_whole_and_told",
    "what_was_only_touched_is_no_change",
    "a_call_that_fails_commits_nothing",
    "enforced_commits_only_what_is_described",
    "odd_names_arrive_as_they_are",
    "a_tree_that_may_not_be_written_stays_so",
    "what_must_not_be_committed_is_refused_by_name",
    "what_others_change_meanwhile_is_a_conflict",
    "a_waiting_worker_shows_what_is_there_when_it_is_called",
    "a_shell_works_on_the_view",
)
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", SAME)
async def test_a_call_on_a_copy_is_like_one_on_a_view(name: str, tmp_path: Path) -> None:
    """The same cases as on a view."""
    before = footprint()
    limits = {"scratch_bytes": 8 << 20}
    async with open_world(tmp_path, also=ALSO, limits=limits, simulate=("no-overlay",)) as world:
        await CASES[name](world)
    for folder, _names, _files in os.walk(tmp_path):
        os.chmod(folder, 0o700)
    assert footprint() == before


async def test_what_is_too_large_or_no_file_is_not_copied(tmp_path: Path) -> None:
    """Refused with the step before anything runs; a sparse file takes no room."""
    async with open_world(tmp_path, also=ALSO, simulate=("no-overlay",)) as world:
        with (world.ws / "sparse").open("wb") as file:
            file.truncate(64 << 20)
        told = await world.run("observed", "said = os.stat('sparse').st_size")
        assert (told.code, told.text, told.changes) == (None, str(64 << 20), ()), told
        (world.ws / "large").write_bytes(b"x" * (5 << 20))
        before = tree(world.ws)
        told = await world.run("observed", "open('n','w').close()")
        assert (told.code, told.detail["step"]) == ("sandbox_unavailable", "copy"), told
        assert "copy_bytes" in told.text
        (world.ws / "large").unlink()
        os.mkfifo(world.ws / "pipe")
        told = await world.run("observed", "open('n','w').close()")
        assert (told.code, told.detail["step"]) == ("sandbox_unavailable", "copy"), told
        assert "pipe" in told.text
        (world.ws / "pipe").unlink()
        del before["large"]
        assert tree(world.ws) == before


async def test_a_view_is_mounted_where_it_can_be(tmp_path: Path) -> None:
    """``copy_bytes`` is for the hosts that can't: nothing is copied elsewhere."""
    async with open_world(tmp_path, also={"copy_bytes": 1}) as world:
        world.fill(a="more than a byte")
        told = await world.run("observed", "open('a','a').write('!')")
        assert (told.code, told.committed) == (None, True), told


def _sum(path: Path) -> int:
    fd = os.open(path, os.O_RDONLY)
    try:
        return content_sum(fd)
    finally:
        os.close(fd)


async def test_what_is_written_through_a_mapping_is_a_change(tmp_path: Path) -> None:
    """Attack on the truth: read a page of a mapping, then write it; no time tells of it."""
    code = """
import mmap
for name in ('small', 'large', 'only-read'):
    with open(name, 'r+b') as file, mmap.mmap(file.fileno(), 0) as pages:
        seen = [pages[at] for at in range(0, len(pages), 4096)]
        if name != 'only-read':
            pages[-3:] = b'XYZ'
"""
    async with open_world(tmp_path, also=ALSO, simulate=("no-overlay",)) as world:
        world.fill(small="old text", **{"only-read": "kept" * 5000})
        with (world.ws / "large").open("wb") as file:
            file.write(b"begin")
            file.truncate(3_000_000)
        told = await world.run("observed", code)
        assert world.changes(told) == {"small": ("write", "file"), "large": ("write", "file")}
        assert told.committed
        assert (world.ws / "small").read_text() == "old tXYZ"
        assert (world.ws / "large").read_bytes() == b"begin" + bytes(2_999_992) + b"XYZ"


def test_a_copy_is_compared_with_what_was_copied(tmp_path: Path) -> None:
    """Made, gone, replaced by another kind; what came below since is not taken for removed."""
    below, copy = tmp_path / "below", tmp_path / "copy"
    for folder in (below, copy):
        (folder / "d" / "e").mkdir(parents=True)
        for name in ("same", "new-text", "d/x", "kind"):
            (folder / name).write_text("text")
    listed = {}
    for path in sorted(copy.rglob("*")):
        kind, told = ("d", 0) if path.is_dir() else ("f", _sum(path))
        listed[str(path.relative_to(copy))] = f"{kind}{path.stat().st_ctime_ns} {told}"
    data = b"\0".join(f"{head} {path}".encode() for path, head in listed.items())
    (below / "theirs").write_text("made by somebody else")
    (below / "same").write_text("changed by somebody else")
    (copy / "made").touch()
    (copy / "d" / "x").unlink()
    (copy / "d" / "e").rmdir()
    (copy / "d").rmdir()
    (copy / "kind").unlink()
    (copy / "kind").mkdir()
    os.utime(copy / "new-text", (1, 1))
    (copy / "new-text").write_text("TEXT")
    fd = os.open(copy, os.O_RDONLY)
    try:
        assert observe_copy(fd, str(below), parse_manifest(data)) == (
            Change(b"d", "delete", "dir", True),
            Change(b"kind", "write", "dir", True, opaque=True),
            Change(b"made", "create", "file", False),
            Change(b"new-text", "write", "file", True),
        )
    finally:
        os.close(fd)
    assert parse_manifest(b"") == {}
