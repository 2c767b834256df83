"""Commits of many files, on odd hosts, and all of them once more as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from requires import require
from tests.attacks.table import ordinary_user_command
from tests.transactions.commit_hosts import CASES
from tests.transactions.lab import Lab, has_views

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_host_that_refuses(name: str, tmp_path: Path) -> None:
    """Nested mounts, a full and a read-only disk; each says what it shows."""
    require("userns", not has_views(), has_views())
    command = ["unshare", "-Urm", sys.executable, str(HERE / "commit_hosts.py"), name]
    done = subprocess.run(
        [*command, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_100_000_small_files_are_committed_and_removed_again(memory_folder: Path) -> None:
    """A folder that is new, or goes, is one rename with all that is in it."""
    require("userns", not has_views(), has_views())
    lab = Lab(memory_folder / "lab")
    lab.write("kept/old")
    found = lab.run(
        """
        for folder in range(100):
            os.mkdir(f'{folder}')
            for number in range(1000):
                os.close(os.open(f'{folder}/{number}', os.O_CREAT | os.O_WRONLY))
        """
    )
    assert len(found.changes) == 100_100
    report = lab.commit(found)
    assert (report.changes, report.steps) == (100_100, 100)
    assert sum(len(os.listdir(lab.root / f"{folder}")) for folder in range(100)) == 100_000
    found = lab.run("import shutil\nfor folder in range(100): shutil.rmtree(f'{folder}')")
    assert lab.commit(found).steps == 100
    assert os.listdir(lab.root) == ["kept"]
    assert lab.leftovers() == []
    lab.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_same_commits_for_an_ordinary_user(memory_folder: Path) -> None:
    """A commit takes no privilege, and an ordinary user is held by modes that root is not."""
    require("root", os.geteuid() == 0, "only root can become an ordinary user")
    found = ordinary_user_command([])
    require("ordinary-user", not isinstance(found, str), str(found))
    assert not isinstance(found, str)
    base = memory_folder
    if not _may_enter(base):
        base = Path(tempfile.mkdtemp(prefix="raw-commit-", dir="/tmp"))
    try:
        os.chown(base, found.uid, found.uid)
        python, tests = found.command[0], [str(HERE / "test_commit.py")]
        options = ["-q", "-p", "no:cacheprovider", f"--rootdir={HERE.parent.parent}"]
        config = ["-c", str(HERE.parent.parent / "pyproject.toml")]
        env = {**found.env, "HOME": str(base), "TMPDIR": str(base), "RAW_EXEC_REQUIRE": "userns"}
        done = subprocess.run(
            [python, "-m", "pytest", *options, *config, f"--basetemp={base}/t", *tests],
            env=env, cwd=base, user=found.uid, group=found.uid, extra_groups=[],
            capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        kill = HERE / "kill_points.py"
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
        assert "skipped" not in done.stdout
        done = subprocess.run(
            [python, str(kill), str(base / "kill"), "once"],
            env=env, cwd=base, user=found.uid, group=found.uid, extra_groups=[],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert '"wrong": {}' in done.stdout
    finally:
        if base != memory_folder:
            shutil.rmtree(base)


def _may_enter(folder: Path) -> bool:
    """Whether everything above a folder may be passed through by anybody."""
    return all(above.stat().st_mode & 0o001 for above in folder.parents)
