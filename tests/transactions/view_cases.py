"""What a call on a view can and cannot do. Run by pytest, and by another user as a program."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from tests.transactions.world import World, open_world, tree

CASES: dict[str, Callable[[World], Awaitable[None]]] = {}


def case(work: Callable[[World], Awaitable[None]]) -> Callable[[World], Awaitable[None]]:
    """Add a case; its name is the function's."""
    CASES[work.__name__] = work
    return work


@case
async def what_a_call_changes_is_committed_whole_and_told(world: World) -> None:
    """Every operation on files, against the same script run without a view."""
    script = (
        "open('kept','a').write('more')\n"
        "open('new','w').write('n'); os.makedirs('deep/er'); open('deep/er/f','w').write('f')\n"
        "os.mkdir('hollow'); os.symlink('new', 'link'); os.unlink('gone')\n"
        "shutil.rmtree('all'); os.mkdir('all'); open('all/fresh','w').write('x')\n"
        "shutil.rmtree('tree'); shutil.move('from', 'to'); os.chmod('mode', 0o640)\n"
        "os.rename('a', 'b'); os.link('new', 'second')\n"
        "os.unlink('kind'); os.mkdir('kind'); os.rename('over', 'kept2')\n"
    )
    world.fill(
        kept="k", gone="g", all__old="o", tree__a__b="b", from__x="x", mode="m", a="a",
        kind="k", over="new", kept2="old", untouched="u",
    )  # fmt: skip
    before = tree(world.ws)
    twin = world.base / "twin"
    shutil.copytree(world.ws, twin)
    told = await world.run("observed", script)
    assert (told.code, told.committed, told.usage["changes"]) == (None, True, 21), told
    after = tree(world.ws)
    shutil.rmtree(world.ws)
    shutil.copytree(twin, world.ws, symlinks=True)
    assert tree(world.ws) == before
    plain = await world.run("declared", script)
    assert plain.code is None
    assert after == tree(world.ws)
    found = world.changes(told)
    if "all/old" in found:
        # A copy has no mark for a folder that was made anew: what is gone from it is told.
        assert found.pop("all/old") == ("delete", "file")
        found["all"] = ("write", "dir")
    assert found == {
        "a": ("delete", "file"),
        "all": ("write", "dir"),
        "all/fresh": ("create", "file"),
        "b": ("create", "file"),
        "deep": ("create", "dir"),
        "deep/er": ("create", "dir"),
        "deep/er/f": ("create", "file"),
        "from": ("delete", "dir"),
        "gone": ("delete", "file"),
        "hollow": ("create", "dir"),
        "kept": ("write", "file"),
        "kept2": ("write", "file"),
        "kind": ("write", "dir"),
        "link": ("create", "link"),
        "mode": ("metadata", "file"),
        "new": ("create", "file"),
        "over": ("delete", "file"),
        "second": ("create", "file"),
        "to": ("create", "dir"),
        "to/x": ("create", "file"),
        "tree": ("delete", "dir"),
    }
    assert not any(change["declared"] for change in told.changes)


@case
async def what_was_only_touched_is_no_change(world: World) -> None:
    """Copied up by opening for append, by new times, by the same bytes or the same mode."""
    world.fill(a="a", d__b="b", c="same")
    before = tree(world.ws)
    told = await world.run(
        "enforced",
        "open('a','a').close(); os.utime('a', (1, 1)); open('c','w').write('same')\n"
        "os.chmod('d/b', os.stat('d/b').st_mode); open('d/t','w').close(); os.unlink('d/t')",
    )
    assert (told.code, told.changes, told.committed) == (None, (), True), told
    assert tree(world.ws) == before


@case
async def a_call_that_fails_commits_nothing(world: World) -> None:
    """Thrown, crashed, timed out, and an error result; only the last has an opt-out."""
    world.fill(a="a", d__b="b")
    before = tree(world.ws)
    harm = "open('a','w').write('X'); open('n','w').write('n'); shutil.rmtree('d')\n"
    error = "result = {'content': [], 'isError': True, 'code': 'mine'}\n"
    codes = []
    for profile in ("observed", "always"):
        for end in ("raise KeyError('x')", "os._exit(3)", "os.kill(os.getpid(), 9)"):
            told = await world.run(profile, harm + end)
            codes.append((told.code, told.committed))
        told = await world.run(profile, harm + "while True: pass", timeout_seconds=0.5)
        codes.append((told.code, told.committed))
    wanted = [("handler_error", False), *[("worker_crashed", False)] * 2, ("timeout", False)]
    assert codes == wanted * 2
    told = await world.run("observed", harm + error)
    assert (told.code, told.committed) == ("mine", False)
    assert len(told.changes) == 3
    assert tree(world.ws) == before
    told = await world.run("always", harm + error)
    assert (told.code, told.committed) == ("mine", True)
    assert sorted(os.listdir(world.ws)) == ["a", "n"]


@case
async def a_call_that_is_given_up_commits_nothing(world: World) -> None:
    """Cancelled while the handler waits: nothing it wrote is left."""
    world.fill(a="a")
    before = tree(world.ws)
    gate = world.base / "gate" / "p"
    os.mkfifo(gate)
    async with trio.open_nursery() as nursery:
        code = f"open('a','w').write('X'); open({str(gate)!r}).read()"
        nursery.start_soon(world.run, "observed", code)
        # Opens when the handler waits at the other end.
        fd = await trio.to_thread.run_sync(os.open, gate, os.O_WRONLY)
        nursery.cancel_scope.cancel()
    os.close(fd)
    assert tree(world.ws) == before


@case
async def enforced_commits_only_what_is_described(world: World) -> None:
    """The exact effects commit; one fewer withholds all and names what was not described."""
    world.fill(a="a", gone="g", x="x")
    before = tree(world.ws)
    code = "open('a','w').write('A'); os.unlink('gone'); os.rename('x','y')"
    writes, deletes = world.writes("a"), world.writes("gone", operation="delete")
    moves = [*world.writes("x", operation="rename_source"),
             *world.writes("y", operation="rename_destination")]  # fmt: skip
    for missing in (*writes, *deletes, *moves):
        effects = [item for item in (*writes, *deletes, *moves) if item is not missing]
        told = await world.run("enforced", code, effects)
        assert (told.code, told.stage, told.committed) == ("undeclared_effects", "settle", False)
        assert missing["path"] in told.text
        assert told.detail["undeclared_count"] == 1
        assert [c["path"] for c in told.changes if not c["declared"]] == [missing["path"]]
        assert tree(world.ws) == before
    told = await world.run("enforced", code, [*writes, *deletes, *moves])
    assert (told.code, told.committed) == (None, True), told
    assert all(change["declared"] for change in told.changes)
    assert sorted(os.listdir(world.ws)) == ["a", "y"]
    told = await world.run("enforced", "open('a','w').write('AA'); said = open('y').read()")
    assert (told.code, told.committed) == ("undeclared_effects", False)
    told = await world.run("enforced", "said = open('y').read()")
    assert (told.text, told.committed) == ('"x"', True)


@case
async def drift_from_the_description_is_told(world: World) -> None:
    """``observed``: committed all the same; undeclared and not done are listed."""
    told = await world.run(
        "observed", "open('b','w').write('b')", world.writes("a"), tool_call_id="c"
    )
    assert (told.code, told.committed) == (None, True)
    assert told.detail["drift"] == {
        "undeclared": [
            {"path": str(world.ws / "b"), "action": "create", "kind": "file", "declared": False}
        ],
        "not_done": world.writes("a"),
        "undeclared_count": 1,
        "not_done_count": 1,
    }


@case
async def links_and_mounts_do_not_lead_out(world: World) -> None:
    """Hard links, symbolic links, mounts, devices and whiteouts of one's own."""
    world.fill(a="a")
    outside = world.base / "outside"
    outside.write_text("o")
    (world.ws / "ln").symlink_to(outside)
    before, secret = tree(world.ws), outside.stat().st_mtime_ns
    told = await world.run(
        "observed",
        f"out = {str(outside)!r}\n"
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        "home = os.environ['HOME']\n"
        "said = [attempt(os.link, 'a', home + '/a'), attempt(os.link, out, 'o'),\n"
        "  attempt(open, 'ln', 'a'), attempt(os.chmod, out, 0o777),\n"
        "  attempt(os.mknod, 'w', stat.S_IFCHR, 0), attempt(os.listdir, '/scratch/view-0'),\n"
        "  attempt(os.listdir, '/scratch/view-0/upper'), attempt(os.listdir, '/.stage'),\n"
        "  attempt(os.chroot, '/'),\n"
        "  libc.mount(b'/', home.encode(), None, 4096, None), libc.umount2(b'.', 2),\n"
        "  libc.syscall(428, -100, b'.', 1), libc.unshare(0x10000000)]\n"
        "os.link('a', 'b')",
    )
    said = json.loads(told.text)
    assert said[0] == "EXDEV", said
    assert "ok" not in said[:9]
    assert said[9:] == [-1, -1, -1, -1]
    assert (told.code, world.changes(told)) == (None, {"b": ("create", "file")})
    (world.ws / "b").unlink()
    assert tree(world.ws) == before
    assert outside.stat().st_mtime_ns == secret


@case
async def what_must_not_be_committed_is_refused_by_name(world: World) -> None:
    """A pipe, and the granted folder's own mode; set-id bits can't even be set in a view."""
    world.fill(a="a")
    told = await world.run("observed", "said = attempt(os.chmod, 'a', 0o4755)")
    assert (told.text, told.changes) == ('"EPERM"', ())
    before, mode = tree(world.ws), world.ws.stat().st_mode
    for code, name in (
        ("os.mkfifo('pipe')", "pipe"),
        ("os.setxattr('a', 'user.overlay.opaque', b'y')", "a"),
        ("open('n','w').close(); os.chmod('.', 0o700 if os.stat('.').st_mode & 7 else 0o755)", "."),
    ):
        told = await world.run("observed", code)
        assert (told.code, told.stage, told.committed) == ("commit_refused", "settle", False), told
        assert f": {name}: " in told.text, told.text
    assert (tree(world.ws), world.ws.stat().st_mode) == (before, mode)


@case
async def folders_are_replaced_and_moved(world: World) -> None:
    """A rename over a directory; one that was there before can't be renamed, only copied."""
    world.fill(old__x="x", empty__y="y", gone__deep__z="z")
    told = await world.run(
        "observed",
        "os.unlink('empty/y'); os.mkdir('n'); open('n/f','w').write('f')\n"
        "os.rename('n', 'empty')\n"
        "said = [attempt(os.rename, 'old', 'moved'), attempt(shutil.move, 'old', 'moved')]\n"
        "shutil.rmtree('gone'); open('gone','w').write('a file now')",
    )
    assert json.loads(told.text) == ["EXDEV", "ok"]
    assert world.changes(told) == {
        "empty": ("write", "dir"),
        "empty/f": ("create", "file"),
        "gone": ("write", "file"),
        "moved": ("create", "dir"),
        "moved/x": ("create", "file"),
        "old": ("delete", "dir"),
    }
    assert told.committed
    assert sorted(map(str, tree(world.ws))) == ["empty", "empty/f", "gone", "moved", "moved/x"]


@case
async def odd_names_arrive_as_they_are(world: World) -> None:
    """New lines, terminal escapes and bytes that are no text, in files, folders and links."""
    told = await world.run(
        "observed",
        "os.mkdir(b'\\xff\\xfe'); open(b'\\xff\\xfe/a\\nb','w').write('1')\n"
        "open('\\x1b[2J','w').write('2'); os.symlink(b'\\xfe\\n', b'l\\xff')\n"
        "open('x' * 255, 'w').write('3')",
    )
    assert (told.code, told.committed) == (None, True), told
    names = sorted(os.listdir(os.fsencode(world.ws)))
    assert names == [b"\x1b[2J", b"l\xff", b"x" * 255, b"\xff\xfe"]
    assert os.listdir(os.fsencode(world.ws) + b"/\xff\xfe") == [b"a\nb"]
    assert os.readlink(os.fsencode(world.ws) + b"/l\xff") == b"\xfe\n"
    shown = json.dumps(told.as_dict(), ensure_ascii=False)
    assert "\x1b" not in shown
    assert shown.isprintable()


@case
async def a_deep_path_is_followed(world: World) -> None:
    """Longer than the kernel takes at once, on both sides."""
    told = await world.run(
        "observed",
        "for _ in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)\nopen('f','w').write('f')",
    )
    assert (told.code, told.committed, told.usage["changes"]) == (None, True, 31), told
    fd = os.open(world.ws, os.O_RDONLY)
    for _ in range(30):
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    assert os.listdir(fd) == ["f"]
    os.close(fd)


@case
async def a_tree_that_may_not_be_written_stays_so(world: World) -> None:
    """Read-only folders below: refused inside the view, as without one; the rest is committed."""
    world.fill(locked__a="a", open__b="b")
    (world.ws / "locked").chmod(0o555)
    (world.ws / "open" / "b").chmod(0o444)
    told = await world.run(
        "observed",
        "said = [attempt(open, 'locked/n', 'w'), attempt(open, 'open/b', 'a')]\n"
        "open('open/c','w').write('c')",
    )
    # Nobody is above the mode: a worker of root has no capabilities either.
    assert json.loads(told.text) == ["EACCES", "EACCES"]
    assert told.committed
    assert world.changes(told) == {"open/c": ("create", "file")}


@case
async def the_quota_is_named_when_it_is_hit(world: World) -> None:
    """Too many bytes, and a large file below that can't be copied up."""
    (world.ws / "big").write_bytes(b"x" * (9 << 20))
    before = tree(world.ws)
    for code in (
        "for i in range(64): open(f'f{i}','wb').write(b'x' * (1 << 18))",
        "open('big','r+b').write(b'y')",
    ):
        told = await world.run("observed", code)
        assert (told.code, told.committed) == ("output_limit", False), told
        assert told.detail["limit"] == "scratch_bytes"
        assert "limits.scratch_bytes" in told.text
    assert tree(world.ws) == before


@case
async def what_others_change_meanwhile_is_a_conflict(world: World) -> None:
    """Written, removed or made below while the call ran: nothing of it is committed."""

    def write() -> None:
        (world.ws / "a").write_text("theirs")

    def remove() -> None:
        (world.ws / "d" / "b").unlink()
        (world.ws / "d").rmdir()

    def make() -> None:
        (world.ws / "n").write_text("theirs")

    def replace() -> None:
        world.ws.rename(world.base / "former")
        world.ws.mkdir()

    world.fill(a="a", d__b="b", far="f")
    for number, (code, meddle) in enumerate(
        (
            ("open('a','w').write('mine')", write),
            ("open('d/b','w').write('mine'); open('d/c','w').write('mine')", remove),
            ("open('n','w').write('mine')", make),
            ("open('m','w').write('mine')", replace),
        )
    ):
        gate = str(world.base / "gate" / f"g{number}")
        os.mkfifo(gate)
        results = []

        async def call(code: str = f"{code}; open({gate!r}).read()", out: list = results) -> None:
            out.append(await world.run("observed", code))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            fd = await trio.to_thread.run_sync(os.open, gate, os.O_WRONLY)
            meddle()
            os.close(fd)
        told = results[0]
        assert (told.code, told.committed) == ("commit_conflict", False), (number, told)
    assert (world.base / "former" / "a").read_text() == "theirs"
    assert sorted(os.listdir(world.base / "former")) == ["a", "far", "n"]
    assert os.listdir(world.ws) == []


@case
async def two_calls_at_once_keep_out_of_each_others_way(world: World) -> None:
    """Disjoint changes are both committed; of two that write one file, one is."""
    world.fill(same="s")
    gates = [str(world.base / "gate" / name) for name in "pq"]
    for gate in gates:
        os.mkfifo(gate)
    for names, codes in ((("a", "b"), [None, None]), (("same", "same"), [None, "commit_conflict"])):
        results = []

        async def call(name: str, gate: str, out: list = results) -> None:
            out.append(
                await world.run(
                    "observed", f"open({name!r},'w').write({gate!r}); open({gate!r}).read()"
                )
            )

        async with trio.open_nursery() as nursery:
            for name, gate in zip(names, gates, strict=True):
                nursery.start_soon(call, name, gate)
            fds = [await trio.to_thread.run_sync(os.open, gate, os.O_WRONLY) for gate in gates]
            for fd in fds:
                os.close(fd)
        assert sorted((told.code for told in results), key=str) == codes, results
    assert {(world.ws / name).read_text() for name in ("a", "b", "same")} <= set(gates)


@case
async def a_waiting_worker_shows_what_is_there_when_it_is_called(world: World) -> None:
    """A spare has its view before the call; the tree below is read when the call reads it."""
    world.fill(a="old", d__x="x")
    spec = world.runtime.spec_for(world.runtime.loaded.get("observed"), str(world.ws))
    read = "said = {n: open(n).read() for n in sorted(os.listdir('.')) if os.path.isfile(n)}"
    await world.runtime.pool.warm(spec)
    (world.ws / "a").write_text("new")
    (world.ws / "b").write_text("made")
    shutil.rmtree(world.ws / "d")
    told = await world.run("observed", read + "; open('c','w').write('c')")
    assert json.loads(told.text) == {"a": "new", "b": "made"}
    assert told.committed
    await world.runtime.pool.warm(spec)
    world.ws.rename(world.base / "away")
    world.ws.mkdir()
    world.fill(z="other")
    told = await world.run("observed", read)
    assert json.loads(told.text) == {"z": "other"}
    assert world.runtime.statistics().pool.retired["unusable while idle"] >= 1


@case
async def a_shell_works_on_the_view(world: World) -> None:
    """``builtin/bash`` and its processes; one that would outlive the call is refused."""
    world.fill(a="a")
    shell = world.runtime.registry.dispatch
    script = "echo hi > b; mv a c; sh -c 'echo deep >> b'; cat b"
    told = await shell("bash", {"commands": [{"command": script}]})
    assert (told.code, told.committed) == (None, True), told
    assert world.changes(told) == {
        "a": ("delete", "file"),
        "b": ("create", "file"),
        "c": ("create", "file"),
    }
    assert (world.ws / "b").read_text() == "hi\ndeep\n"
    told = await shell("process", {"action": "start", "command": "echo x > job"})
    assert told.is_error
    assert "effects 'observed'" in json.dumps(told.content), told
    assert not (world.ws / "job").exists()


@case
async def a_dry_run_shows_everything_and_commits_nothing(world: World) -> None:
    """Under every profile, with changes and a diff of the text files."""
    world.fill(a="one\ntwo\n", gone="g\n")
    before = tree(world.ws)
    code = "open('a','w').write('one\\n2\\n'); os.unlink('gone'); said = os.listdir('.')"
    for profile in ("declared", "observed", "always", "enforced"):
        told = await world.run(profile, code, dry_run=True)
        assert (told.code, told.committed, told.text) == (None, False, '["a"]'), told
        assert world.changes(told) == {"a": ("write", "file"), "gone": ("delete", "file")}
        assert told.diff is not None
        assert "-two" in told.diff
        assert "+2" in told.diff
        assert told.as_dict()["diff"] == told.diff
    assert tree(world.ws) == before
    told = await world.runtime.registry.dispatch(
        "process", {"action": "start", "command": "true"}, dry_run=True
    )
    assert told.is_error
    assert "dry run" in json.dumps(told.content), told


async def run_cases(names: list[str]) -> dict[str, str]:
    """Run cases, each in a world of its own; return what went wrong in which."""
    wrong = {}
    for name in names:
        base = Path(tempfile.mkdtemp(prefix="raw-view-", dir="/tmp"))
        try:
            async with open_world(base, limits={"scratch_bytes": 8 << 20}) as world:
                await CASES[name](world)
        except BaseException:
            wrong[name] = traceback.format_exc()
        finally:
            for folder, _names, _files in os.walk(base):
                os.chmod(folder, 0o700)
            shutil.rmtree(base)
    return wrong


if __name__ == "__main__":
    print(json.dumps(trio.run(run_cases, sys.argv[1:] or list(CASES))))
