"""Reading the kernel's own tables of control groups, in the forms hosts have."""

from __future__ import annotations

from pathlib import Path

from workers.launcher.cgroup import CgroupRoot, Leaf, parse_membership, parse_mounts

HYBRID = """\
9:name=systemd:/
8:pids:/
4:memory:/parent/child
1:cpu,cpuacct:/
0::/
"""
MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu\\040acct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /parent /sys/fs/cgroup/memory rw,relatime shared:1 - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
"""


def test_membership_is_read_per_controller() -> None:
    """Version 1 lines may name several controllers; version 2 has an empty name."""
    found = parse_membership(HYBRID)
    assert {k: found[k] for k in ("", "pids", "memory", "cpu", "cpuacct")} == {
        "": "/",
        "pids": "/",
        "memory": "/parent/child",
        "cpu": "/",
        "cpuacct": "/",
    }


def test_mounts_are_read_with_their_roots_and_escapes() -> None:
    """A container sees part of a hierarchy: the root field says which."""
    found = parse_mounts(MOUNTS)
    assert found[""] == ("/", "/sys/fs/cgroup/unified")
    assert found["memory"] == ("/parent", "/sys/fs/cgroup/memory")
    assert found["cpu"] == ("/", "/sys/fs/cgroup/cpu acct")


def fake_host(tmp_path: Path, controllers: str) -> Path:
    """Files that look like a version 2 host with one delegated group."""
    group = tmp_path / "cgroup" / "app.scope"
    group.mkdir(parents=True)
    (group / "cgroup.controllers").write_text(controllers)
    (group / "cgroup.subtree_control").write_text("")
    (group / "cgroup.procs").write_text("")
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text("0::/app.scope\n")
    (proc / "mountinfo").write_text(f"41 31 0:38 / {tmp_path / 'cgroup'} rw - cgroup2 cgroup2 rw\n")
    return proc


def test_version_2_without_the_needed_controllers_is_named(tmp_path: Path) -> None:
    """A user manager often has only some; without memory or pids there is no tier."""
    root = CgroupRoot()
    root.open(enabled=True, proc=str(fake_host(tmp_path, "cpu pids\n")))
    assert root.failure is not None
    assert (root.failure.step, root.version) == ("cgroup", None)


def test_version_2_group_is_made_below_the_delegated_one(tmp_path: Path) -> None:
    """Controllers are enabled on the way down: here on plain files, which take anything."""
    root = CgroupRoot()
    root.open(enabled=True, proc=str(fake_host(tmp_path, "cpu memory pids\n")))
    # The group is a plain directory without the kernel's files: enabling fails there.
    assert root.version == "v2"
    assert root.failure is not None
    assert "cannot use" in root.failure.message
    enabled = (tmp_path / "cgroup" / "app.scope" / "cgroup.subtree_control").read_text()
    assert enabled.startswith("+cpu")


def test_oom_verdict_is_read_from_the_files_of_each_version(tmp_path: Path) -> None:
    """``oom_kill`` counts; being at the limit alone is no verdict."""
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\n")
    (tmp_path / "memory.peak").write_text("4096\n")
    leaf = Leaf("v2", {"memory": str(tmp_path), "pids": str(tmp_path)}, 8192)
    assert leaf.oom() == {
        "source": "cgroup",
        "oom_kills": 2,
        "limit_bytes": 8192,
        "peak_bytes": 4096,
    }
    (tmp_path / "memory.events").write_text("max 9\noom_kill 0\n")
    assert leaf.oom() is None
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    older = Leaf("v1", {"memory": str(tmp_path), "pids": str(tmp_path)}, 8192)
    verdict = older.oom()
    assert verdict is not None
    assert verdict["peak_bytes"] is None
