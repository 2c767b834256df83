"""Tool folders: what may be in them, what their digest covers, where their code runs from."""

from __future__ import annotations

import json
import os
import resource
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from raw_exec.errors import ManifestError
from raw_exec.limits import MAX_MANIFEST_BYTES, MAX_SNAPSHOT_BYTES
from raw_exec.manifest import LoadedTool, Snapshot, load_tool


def write_tool(root: Path, tool_id: str = "t", **changes: Any) -> Path:
    folder = root / tool_id
    folder.mkdir(parents=True)
    manifest = {
        "api_version": 2,
        "id": tool_id,
        "version": "1.0.0",
        "name": "t",
        "description": "d",
        "input_schema": {"type": "object"},
        "entry": "./index.mjs",
        **changes,
    }
    (folder / "tool.json").write_text(json.dumps(manifest))
    (folder / "index.mjs").write_text("export function handler() {}")
    return folder


def load(folder: Path) -> LoadedTool:
    return load_tool(folder.parent, folder.name, source="local")


def snapshot(folder: Path) -> Snapshot:
    return load(folder).snapshot


def refusal(folder: Path) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        load(folder)
    return caught.value


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    return write_tool(tmp_path / "tools")


def test_a_tool_is_loaded_with_its_identity(tool: Path) -> None:
    """spec: the policy identity is ``<source>/<id>``."""
    loaded = load(tool)
    assert (loaded.identity, loaded.manifest.name, loaded.warnings) == ("local/t", "t", ())
    assert loaded.snapshot.in_memory
    assert dict(loaded.snapshot.files) == {
        name: (tool / name).read_bytes() for name in ("tool.json", "index.mjs")
    }


def test_an_id_that_is_not_the_folders_name_is_refused(tmp_path: Path) -> None:
    """spec: a manifest id that differs from its folder fails the load."""
    folder = write_tool(tmp_path / "tools").rename(tmp_path / "tools" / "u")
    assert [p.pointer for p in refusal(folder).problems] == ["/id"]


@pytest.mark.parametrize(
    ("name", "code"), [("tool.json", "manifest_missing"), ("index.mjs", "entry_missing")]
)
def test_a_missing_file_is_named(tool: Path, name: str, code: str) -> None:
    """Check failed loads for ID, entry, exports, schema, containment."""
    (tool / name).unlink()
    error = refusal(tool)
    assert error.code == code
    assert name in str(error)
    (tool / name).mkdir()
    assert refusal(tool).code == code


def test_a_missing_folder_or_root_is_not_found(tmp_path: Path) -> None:
    """The registry turns this into a hint."""
    assert refusal(tmp_path / "none").code == "tool_not_found"
    assert refusal(tmp_path / "none" / "none").code == "tool_not_found"
    (tmp_path / "file").touch()
    assert refusal(tmp_path / "file").code == "tool_unreadable"


# ---------------------------------------------------------------- what may be in a folder


def make_socket(path: Path) -> None:
    # Bound through a relative name, since socket paths are short.
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind(path.name)
    finally:
        os.chdir(here)


@pytest.mark.parametrize("name", ["tool.json", "index.mjs", "other"])
@pytest.mark.parametrize("make", [os.mkfifo, make_socket])
def test_a_fifo_or_socket_is_refused_with_its_path(
    tool: Path, name: str, make: Callable[[Path], None]
) -> None:
    """Attack corpus X10."""
    (tool / name).unlink(missing_ok=True)
    make(tool / name)
    error = refusal(tool)
    assert (error.code, error.where) == ("snapshot_refused", str(tool / name))


@pytest.mark.parametrize("size", [MAX_MANIFEST_BYTES + 1, 100 * 2**20, 2**30])
def test_a_huge_manifest_is_refused_by_its_size(tool: Path, size: int) -> None:
    """Attack corpus X10: sparse files; reading them would be the mistake."""
    os.truncate(tool / "tool.json", size)
    error = refusal(tool)
    assert (error.code, error.where) == ("manifest_invalid", str(tool / "tool.json"))


def test_a_huge_folder_is_refused_by_its_size(tool: Path) -> None:
    """Attack corpus X22."""
    (tool / "big").touch()
    os.truncate(tool / "big", MAX_SNAPSHOT_BYTES + 1)
    assert refusal(tool).code == "snapshot_too_large"


def test_a_bottomless_folder_is_refused(tool: Path) -> None:
    """Each level of the walk holds a descriptor, so levels are limited."""
    here = tool
    for _level in range(60):
        here = here / "d"
        here.mkdir()
    assert refusal(tool).code == "snapshot_too_large"


@pytest.mark.parametrize("name", [b"a\nb", b"a\x1bb", b"\xff"])
def test_a_name_that_can_not_be_shown_is_refused(tool: Path, name: bytes) -> None:
    """Attack corpus X18: one rule for names."""
    Path(os.fsdecode(os.path.join(os.fsencode(tool), name))).touch()
    error = refusal(tool)
    assert error.code == "snapshot_refused"
    assert str(error.message).isprintable()


@pytest.mark.parametrize(
    "target",
    [
        "/etc/passwd",
        "/",
        "..",
        "../../x",
        "lib/../../x",
        "lib/up/../../x",
        "../t/index.mjs",
        "loop",
    ],
)
@pytest.mark.parametrize("name", ["link", "index.mjs", "tool.json"])
def test_a_symlink_that_leads_out_is_refused(tool: Path, name: str, target: str) -> None:
    """spec: symlinks can not escape; ``..`` goes up from where a link led."""
    (tool / "lib").mkdir()
    (tool / "lib" / "up").symlink_to("..")
    (tool / "loop").symlink_to("loop2")
    (tool / "loop2").symlink_to("loop")
    if target != "loop":
        (tool / "loop").unlink()
    (tool / name).unlink(missing_ok=True)
    (tool / name).symlink_to(target)
    assert refusal(tool).code == "snapshot_refused"


def test_symlinks_inside_the_folder_are_kept(tool: Path, tmp_path: Path) -> None:
    """The pair: ``node_modules/.bin`` works, and so does a linked entry."""
    (tool / "lib").mkdir()
    (tool / "index.mjs").rename(tool / "lib" / "main.mjs")
    (tool / "index.mjs").symlink_to("lib/main.mjs")
    (tool / "node_modules" / ".bin").mkdir(parents=True)
    (tool / "node_modules" / ".bin" / "x").symlink_to("../../lib/main.mjs")
    (tool / "lib2").symlink_to("lib")
    (tool / ".#lock").symlink_to("someone@host.1")
    found = snapshot(tool)
    for path in ("index.mjs", "node_modules/.bin/x", "lib2/main.mjs", "./lib/./main.mjs"):
        assert found.read(path) == b"export function handler() {}"
    copy = found.materialise(tmp_path / "store")
    assert os.readlink(copy / "node_modules" / ".bin" / "x") == "../../lib/main.mjs"
    assert (copy / "index.mjs").read_bytes() == b"export function handler() {}"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "lib", "none", "", ".", "index.mjs/x"])
def test_reading_what_is_no_file_of_the_snapshot_is_refused(tool: Path, path: str) -> None:
    """Paths come from plugin code, by way of imports."""
    (tool / "lib").mkdir()
    found = snapshot(tool)
    with pytest.raises(ManifestError):
        found.read(path)
    assert path not in found.files_for_engine()
    assert found.files_for_engine().get(path) is None
    assert sorted(found.files_for_engine()) == ["index.mjs", "tool.json"]


def test_a_folder_that_is_a_symlink_may_lead_anywhere_inside_its_root(tmp_path: Path) -> None:
    """spec: a symlinked folder that resolves outside its root fails the load."""
    root = tmp_path / "tools"
    write_tool(root / "vendor").rename(root / "vendor" / "x")
    (root / "t").symlink_to("vendor/x")
    assert load(root / "t").identity == "local/t"
    write_tool(tmp_path / "outside")
    (root / "t").unlink()
    (root / "t").symlink_to("../outside/t")
    assert refusal(root / "t").code == "tool_outside_root"
    (root / "t").unlink()
    (root / "t").symlink_to(".")
    assert refusal(root / "t").code == "tool_outside_root"


def test_a_root_that_is_a_symlink_is_followed(tmp_path: Path) -> None:
    """The user's own configuration folder may be a link."""
    write_tool(tmp_path / "real")
    (tmp_path / "tools").symlink_to("real")
    assert load(tmp_path / "tools" / "t").identity == "local/t"


# ---------------------------------------------------------------- digest


def change_bytes(tool: Path) -> None:
    (tool / "index.mjs").write_text("export function handler() { }")


def change_mode(tool: Path) -> None:
    (tool / "index.mjs").chmod(0o755)


def add_empty_file(tool: Path) -> None:
    (tool / "node_modules").mkdir()
    (tool / "node_modules" / "x").touch()


def add_folder(tool: Path) -> None:
    (tool / "d").mkdir()


def add_link(tool: Path) -> None:
    (tool / "l").symlink_to("index.mjs")


def rename(tool: Path) -> None:
    (tool / "extra").rename(tool / "extra2")


@pytest.mark.parametrize(
    "change", [change_bytes, change_mode, add_empty_file, add_folder, add_link, rename]
)
def test_every_change_of_content_changes_the_digest(
    tool: Path, change: Callable[[Path], None]
) -> None:
    """spec: content-addressed, ``node_modules`` included."""
    (tool / "extra").touch()
    before = snapshot(tool).digest
    assert before.startswith("sha256:")
    change(tool)
    assert snapshot(tool).digest != before


def test_what_is_not_content_does_not_change_the_digest(tool: Path, tmp_path: Path) -> None:
    """Times, other mode bits, place, ``.git`` and ``__pycache__`` do not count."""
    before = snapshot(tool).digest
    os.utime(tool / "index.mjs", (1, 1))
    (tool / "index.mjs").chmod(0o600)
    for name in (".git", "__pycache__"):
        (tool / name).mkdir()
        os.mkfifo(tool / name / "x")
    (tmp_path / "elsewhere").mkdir()
    moved = tool.rename(tmp_path / "elsewhere" / "t")
    assert snapshot(moved).digest == before


# ---------------------------------------------------------------- materialise


def make_big(tool: Path) -> None:
    (tool / "big.bin").write_bytes(os.urandom(3 * 1024 * 1024))


@pytest.mark.parametrize("big", [False, True])
def test_a_materialised_snapshot_is_the_same_and_read_only(
    tool: Path, tmp_path: Path, big: bool
) -> None:
    """spec: code runs from the snapshot."""
    (tool / "bin").mkdir()
    (tool / "bin" / "run").write_text("#!/bin/sh\n")
    (tool / "bin" / "run").chmod(0o755)
    if big:
        make_big(tool)
    found = snapshot(tool)
    assert found.in_memory is not big
    store = tmp_path / "store"
    copy = found.materialise(store)
    assert copy == store / found.digest.replace(":", "-")
    modes = {
        str(path.relative_to(store)): oct(stat.S_IMODE(path.lstat().st_mode))
        for path in [copy, *copy.rglob("*")]
    }
    wanted = {"": "0o555", "/bin": "0o555", "/bin/run": "0o555"}
    wanted |= {"/tool.json": "0o444", "/index.mjs": "0o444"}
    if big:
        wanted["/big.bin"] = "0o444"
    assert modes == {copy.name + path: mode for path, mode in wanted.items()}
    for path in tool.rglob("*"):
        if path.is_file():
            assert (copy / path.relative_to(tool)).read_bytes() == path.read_bytes()
    assert stat.S_IMODE(store.stat().st_mode) == 0o700


def test_a_copy_that_the_disk_cuts_short_is_not_published(tool: Path, tmp_path: Path) -> None:
    """A first write may take only a part of what it is given."""
    (tool / "data.bin").write_bytes(bytes(200_000))
    found = snapshot(tool)
    assert found.in_memory
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            found.materialise(tmp_path / "store")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path / "store") == []


def test_many_files_are_not_kept_in_memory(tool: Path, tmp_path: Path) -> None:
    """Bounded by count as well as by size."""
    for index in range(300):
        (tool / f"f{index}").write_text(str(index))
    found = snapshot(tool)
    assert not found.in_memory
    assert set(found.files) == {"tool.json"}
    assert found.read("f7") == b"7"
    assert (found.materialise(tmp_path / "store") / "f299").read_text() == "299"


def test_editing_the_source_changes_nothing_after_the_load(tool: Path, tmp_path: Path) -> None:
    """spec: editing a file changes nothing until the next load. Attack corpus X33."""
    found = snapshot(tool)
    (tool / "index.mjs").write_text("evil")
    assert found.read("index.mjs") == b"export function handler() {}"
    copy = found.materialise(tmp_path / "store")
    assert (copy / "index.mjs").read_text() == "export function handler() {}"


def test_a_big_source_that_changed_is_refused_and_leaves_nothing(
    tool: Path, tmp_path: Path
) -> None:
    """It can not be what was validated; attack corpus X33."""
    make_big(tool)
    found = snapshot(tool)
    (tool / "index.mjs").write_text("evil")
    for attempt in (lambda: found.materialise(tmp_path / "store"), lambda: found.read("index.mjs")):
        with pytest.raises(ManifestError) as caught:
            attempt()
        assert caught.value.code == "snapshot_changed"
    assert os.listdir(tmp_path / "store") == []


def test_a_big_snapshot_kept_in_a_store_needs_its_source_no_more(
    tool: Path, tmp_path: Path
) -> None:
    """The pair: materialised at load, later edits do no harm."""
    make_big(tool)
    kept = snapshot(tool).kept_in(tmp_path / "store")
    (tool / "index.mjs").write_text("evil")
    assert kept.read("index.mjs") == b"export function handler() {}"
    assert kept.materialise(tmp_path / "store") == Path(kept.source)


def test_a_damaged_copy_in_the_store_is_replaced(tool: Path, tmp_path: Path) -> None:
    """A power cut may leave empty files behind a rename."""
    found = snapshot(tool)
    copy = found.materialise(tmp_path / "store")
    (copy / "index.mjs").chmod(0o600)
    (copy / "index.mjs").write_text("")
    assert found.materialise(tmp_path / "store") == copy
    assert (copy / "index.mjs").read_text() == "export function handler() {}"
    assert os.listdir(tmp_path / "store") == [copy.name]


def test_materialising_at_the_same_time_gives_one_copy(tool: Path, tmp_path: Path) -> None:
    """Every worker of a pool may ask for it at once."""
    found = snapshot(tool)
    barrier = threading.Barrier(8)
    results: list[Path] = []

    def run() -> None:
        barrier.wait(10)
        results.append(found.materialise(tmp_path / "store"))

    threads = [threading.Thread(target=run) for _index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert results == [found.path_in(tmp_path / "store")] * 8
    assert os.listdir(tmp_path / "store") == [results[0].name]


def test_no_descriptor_is_left_open(tool: Path, tmp_path: Path) -> None:
    """Also when something deep in the folder is refused."""
    (tool / "a" / "b").mkdir(parents=True)
    before = os.listdir("/proc/self/fd")
    snapshot(tool).materialise(tmp_path / "store")
    os.mkfifo(tool / "a" / "b" / "f")
    refusal(tool)
    assert len(os.listdir("/proc/self/fd")) == len(before)
