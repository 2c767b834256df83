"""Host plans: what the launcher is told, and what a runtime needs on this machine."""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.limits import Limits
from raw_exec.sandbox import (
    RuntimeFiles,
    SandboxPlan,
    descriptor_plan,
    host_plan,
    program_files,
    python_files,
)
from raw_exec.sandbox.runtime_files import read_interpreter
from workers.launcher.plan import parse_plan

RUNTIME = RuntimeFiles("node", ("/opt/node/bin/node", "/lib64"), ("/opt/node/bin/node", "/ld.so"))


def closed(**changes: object) -> SandboxPlan:
    return replace(
        descriptor_plan(Limits()), write=("/w",), read=("/r", "/w"), **changes  # type: ignore[arg-type]
    )  # fmt: skip


def test_plan_without_processes_executes_the_runtime_and_its_loader_only() -> None:
    """Design §4: minimal execution; the snapshot is read-only."""
    plan = host_plan(closed(), runtime=RUNTIME, snapshot_dir="/snap", use=())
    assert plan["exec"] == ["/ld.so", "/opt/node/bin/node"]
    assert plan["write"] == ["/w"]
    assert {"/r", "/w", "/snap", "/lib64", "/opt/node/bin/node"} <= set(plan["read"])
    assert not any(path in plan["read"] for path in ("/", "/usr", "/etc", "/proc", "/bin"))
    assert {k: plan[k] for k in ("network", "processes", "tier", "use", "sandbox")} == {
        "network": "none",
        "processes": False,
        "tier": "baseline",
        "use": [],
        "sandbox": True,
    }
    assert plan["rlimits"] == {
        "data": Limits().memory_bytes,
        "fsize": 1024 * 1024,
        "nofile": 256,
        "core": 0,
    }


def test_plan_with_processes_grants_programs_but_never_all_settings() -> None:
    """Run as uid 0, ``/etc/shadow`` would be readable."""
    plan = host_plan(closed(processes=True), runtime=RUNTIME, snapshot_dir="/snap")
    assert {"/usr", "/bin", "/w", "/snap"} <= set(plan["exec"])
    forbidden = ("/etc/shadow", "/etc/ssh", "/root", "/proc/1", "/home", "/var", "/run")
    for path in plan["read"]:
        assert path != "/etc"
        assert not path.startswith(forbidden)


def test_network_grant_adds_what_lookups_and_tls_need() -> None:
    """Names and certificates, public ones only."""
    plan = host_plan(closed(network="host"), runtime=RUNTIME, snapshot_dir=None)
    assert {"/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs"} <= set(plan["read"])
    assert not any("private" in path for path in plan["read"])


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("network", ["none", "loopback", "host"])
def test_launcher_accepts_every_host_plan(processes: bool, network: str) -> None:
    """The two sides of the wire agree on every key and type."""
    plan = host_plan(
        closed(processes=processes, network=network), runtime=python_files(), snapshot_dir="/s"
    )
    assert parse_plan(plan).processes is processes


def test_python_files_hold_the_standard_library_and_no_installed_packages() -> None:
    """A worker imports the standard library, the bridge and msgpack."""
    files = python_files()
    assert str(Path(os.__file__).parent) in files.read
    assert files.execute == ()
    venv = Path(sys.prefix) / "lib"
    if sys.prefix != sys.base_prefix:
        assert [p for p in files.read if p.startswith(str(venv)) and "msgpack" not in p] == []


def test_interpreter_of_a_program_is_read_from_its_header() -> None:
    """No ``ldd``: that would run the program's own loader."""
    assert read_interpreter(Path("/bin/sh").resolve()) is not None
    assert read_interpreter(Path(__file__)) is None
    assert read_interpreter(Path("/absent")) is None


def test_script_brings_its_interpreter(tmp_path: Path) -> None:
    """R10: providers are often scripts."""
    script = tmp_path / "provider"
    script.write_text("#!/bin/sh -e\necho x\n")
    files = program_files(script)
    assert {str(script), "/bin/sh", str(Path("/bin/sh").resolve())} <= set(files.execute)


@given(st.binary(max_size=200), st.binary(max_size=64))
def test_malformed_programs_have_no_interpreter_and_raise_nothing(
    tmp_path_factory: pytest.TempPathFactory, body: bytes, tail: bytes
) -> None:
    """Any bytes, also behind a plausible ELF header with far offsets."""
    path = tmp_path_factory.getbasetemp() / "elf"
    path.write_bytes(body)
    assert read_interpreter(path) is None or body.startswith(b"\x7fELF")
    head = b"\x7fELF\x02\x01" + bytes(26) + struct.pack("<Q", 2**64 - 1) + bytes(14)
    path.write_bytes(head + struct.pack("<HH", 56, 65535) + tail)
    assert read_interpreter(path) is None
