"""Finding Node: what is taken, what is passed over, what is said when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from raw_exec.errors import WorkerError
from raw_exec.pool import find_node
from raw_exec.pool.runtimes import examine_node, node_environment
from requires import require_node


def _fake_elf(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x7fELF" + b"\0" * 60)
    path.chmod(0o755)
    return path


def test_a_script_on_path_is_passed_over_for_a_program(tmp_path: Path) -> None:
    """Version managers put scripts there; a sandbox grants one executable."""
    script = tmp_path / "shims" / "node"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\nexec /elsewhere/node\n")
    script.chmod(0o755)
    program = _fake_elf(tmp_path / "bin" / "node")
    found = find_node(environ={"PATH": f"{script.parent}:{program.parent}"})
    assert (found.path, found.source) == (program, "PATH")


def test_a_named_program_that_is_none_is_refused(tmp_path: Path) -> None:
    """Never another Node than the one that was asked for."""
    with pytest.raises(WorkerError) as caught:
        find_node(tmp_path / "missing", environ={"PATH": "/usr/bin"})
    assert caught.value.code == "node_missing"


def test_a_link_is_resolved_to_the_program_itself(tmp_path: Path) -> None:
    """Grants are by real path."""
    program = _fake_elf(tmp_path / "real" / "node")
    link = tmp_path / "bin" / "node"
    link.parent.mkdir()
    link.symlink_to(program)
    assert find_node(environ={"PATH": str(link.parent)}).path == program


def test_a_program_that_does_not_run_is_named(tmp_path: Path) -> None:
    """A broken Node is found out before a worker is started with it."""
    with pytest.raises(WorkerError) as caught:
        examine_node(_fake_elf(tmp_path / "node"))
    assert caught.value.code == "node_missing"


@pytest.mark.parametrize(("version", "taken"), [("v19.9.0", False), ("v20.0.0", True)])
def test_a_node_too_old_for_the_bridge_is_refused(
    tmp_path: Path, version: str, taken: bool
) -> None:
    """The bridge needs String.prototype.isWellFormed, which came with Node 20."""
    node = tmp_path / "node"
    node.write_text(f"#!/bin/sh\necho '[\"{version}\", 1]'\n")
    node.chmod(0o755)
    if taken:
        assert examine_node(node).version == version
        return
    with pytest.raises(WorkerError) as caught:
        examine_node(node)
    assert caught.value.code == "node_missing"
    assert "Node 20 or later" in str(caught.value.hint)


def test_what_a_build_reserves_is_measured_once(tmp_path: Path) -> None:
    """Remembered by path, size and time; a broken memory is measured anew."""
    node = Path(require_node()).resolve()
    facts = examine_node(node, tmp_path)
    assert facts.version.startswith("v")
    assert facts.base_data_bytes > 10 * 1024 * 1024
    (tmp_path / "node.json").write_text("not json")
    assert examine_node(node, tmp_path).version == facts.version
    assert str(node) in (tmp_path / "node.json").read_text()


def test_a_worker_inherits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Corpus F09: the environment is built, not copied."""
    monkeypatch.setenv("API_TOKEN", "T2")
    environment = node_environment(Path("/opt/node/bin/node"), processes=True)
    assert "T2" not in environment.values()
    assert set(environment) == {"PATH", "LANG", "OPENSSL_CONF", "NODE_NO_WARNINGS"}
