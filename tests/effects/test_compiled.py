"""The compiled engine on disk."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import wasmtime

from raw_exec.effects import compiled
from raw_exec.effects.compiled import default_cache_dir, load_guest
from raw_exec.effects.guest import Guest, bind_run


@pytest.fixture(scope="module")
def good_file(engine, engine_cache: Path) -> bytes:
    """Return the content of the cache file that a real engine wrote."""
    (file,) = engine_cache.iterdir()
    return file.read_bytes()


@pytest.fixture
def cached(tmp_path: Path, good_file: bytes, engine_cache: Path) -> Path:
    """Return a good cache file in a folder of this test."""
    (name,) = os.listdir(engine_cache)
    file = tmp_path / "cache" / name
    file.parent.mkdir(mode=0o700)
    file.write_bytes(good_file)
    file.chmod(0o600)
    return file


def is_compiled_again(monkeypatch: pytest.MonkeyPatch, cache_dir: Path) -> bool:
    """Load with a compiler that only notes that it was asked."""

    class Asked(Exception):
        pass

    def refuse(*_: object) -> None:
        raise Asked

    monkeypatch.setattr(compiled, "open_guest", refuse)
    try:
        assert isinstance(load_guest(cache_dir), Guest)
    except Asked:
        return True
    return False


def test_the_file_is_private_and_holds_its_own_digest(good_file: bytes, engine_cache: Path) -> None:
    """Ours: reading it runs native code."""
    (file,) = engine_cache.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert hashlib.sha256(good_file[32:]).digest() == good_file[:32]


def test_a_good_file_is_used(monkeypatch: pytest.MonkeyPatch, cached: Path) -> None:
    """Ours: the pair of every test below."""
    assert not is_compiled_again(monkeypatch, cached.parent)


def flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    "content",
    [
        lambda good: b"",
        lambda good: good[:1000],
        flip,
        lambda good: hashlib.sha256(b"junk").digest() + b"junk",
    ],
)
def test_a_corrupt_file_is_compiled_again(monkeypatch, cached: Path, good_file, content) -> None:
    """Ours: no byte of it is trusted before its digest fits."""
    cached.write_bytes(content(good_file))
    assert is_compiled_again(monkeypatch, cached.parent)


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602])
def test_a_file_others_may_touch_is_not_used(monkeypatch, cached: Path, mode: int) -> None:
    """Ours: owner-only."""
    cached.chmod(mode)
    assert is_compiled_again(monkeypatch, cached.parent)


def test_a_folder_others_may_write_is_not_used(monkeypatch, cached: Path) -> None:
    """Ours: somebody could swap the file."""
    cached.parent.chmod(0o777)
    assert is_compiled_again(monkeypatch, cached.parent)


def test_links_pipes_and_other_peoples_files_are_not_used(monkeypatch, cached: Path) -> None:
    """Ours: a regular file of the effective user, nothing else."""
    elsewhere = cached.with_name("elsewhere")
    cached.rename(elsewhere)
    cached.symlink_to(elsewhere)
    assert is_compiled_again(monkeypatch, cached.parent)
    cached.unlink()
    os.mkfifo(cached, 0o600)
    assert is_compiled_again(monkeypatch, cached.parent)
    cached.unlink()
    elsewhere.rename(cached)
    monkeypatch.setattr(os, "geteuid", lambda: cached.stat().st_uid + 1)
    assert is_compiled_again(monkeypatch, cached.parent)


def test_a_cache_that_cannot_be_written_only_costs_time(monkeypatch, tmp_path: Path) -> None:
    """Ours: a read-only home is no reason to fail."""
    tiny = wasmtime.wat2wasm("(module)")
    monkeypatch.setattr(compiled, "open_guest", lambda wasm: tiny)
    monkeypatch.setattr(compiled, "Guest", lambda engine, module: module)
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert load_guest(blocked / "below")
    assert blocked.read_text() == ""


def test_the_default_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG: a relative value is ignored."""
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert default_cache_dir() == Path("/caches/raw/engine")
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert default_cache_dir() == Path("/home/someone/.cache/raw/engine")


def test_importing_the_package_does_not_import_the_runtime() -> None:
    """Ours: 60 ms that a runtime without descriptors never pays."""
    program = "import sys, raw_exec.effects; sys.exit('wasmtime' in sys.modules)"
    root = Path(__file__).parents[2]
    assert subprocess.run([sys.executable, "-c", program], cwd=root, check=False).returncode == 0


def test_the_public_way_to_call_gives_the_same_answer(load) -> None:
    """Ours: used where wasmtime's C names are not reachable."""
    module = load("export function validateArgs(a) { return 'got ' + a.x }")
    instance = module._instance
    function = wasmtime.Func(
        instance.store,
        wasmtime.FuncType(
            [wasmtime.ValType.i32(), wasmtime.ValType.i64()], [wasmtime.ValType.i32()]
        ),
        lambda frame, time_ns: frame + time_ns,
    )
    for fast in (True, False):
        assert bind_run(instance.store, function, fast=fast)(40, 2) == 42
