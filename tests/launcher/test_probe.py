"""The probe: what a host can do is found by doing; each lack has its step, errno and hint."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raw_exec.sandbox import best_tier, derive_findings
from requires import require
from tests.launcher.client import ROOT, Client, Refused

AS_ROOT = os.geteuid() == 0


def shell(script: str, *unshare: str) -> tuple[str, ...]:
    """A prefix that runs ``script`` in new namespaces, then the launcher."""
    return ("unshare", *unshare, "sh", "-c", f'{script}; exec "$@"', "sh")


def requires_unshare(*flags: str) -> None:
    done = subprocess.run(["unshare", *flags, "true"], capture_output=True, check=False)
    require("unshare", done.returncode == 0, f"unshare {' '.join(flags)} does not work here")


@pytest.mark.parametrize(
    ("simulated", "feature", "step", "tier"),
    [
        ("no-landlock", "landlock", "landlock", "none"),
        ("no-seccomp", "seccomp", "seccomp", "none"),
        ("no-userns", "namespaces", "userns", "baseline"),
        ("no-mounts", "namespaces", "mounts", "baseline"),
        ("no-cgroup", "cgroup", "cgroup", "namespaces"),
        ("no-overlay", "overlay", "overlay", "cgroup"),
    ],
)
def test_simulated_lack_is_reported_and_refused(
    simulated: str, feature: str, step: str, tier: str
) -> None:
    """Never less than asked: a plan that needs the feature is refused with its step."""
    with Client(simulate=(simulated,)) as client:
        found = client.capabilities[feature]
        assert (found["works"], found["step"]) == (False, step)
        assert found["message"]
        assert found["hint"]
        needed = {"landlock": "baseline", "seccomp": "baseline"}.get(feature, feature)
        asked = {"view": True} if feature == "overlay" else {"tier": needed}
        with pytest.raises(Refused) as caught:
            client.run(["/bin/true"], **asked)
        assert caught.value.step == step
        if tier != "none" and best_tier(client.capabilities) != "none":
            assert client.run(["/bin/true"], tier="baseline").exited["code"] == 0
        finding = next(f for f in derive_findings(client.capabilities) if f.feature == feature)
        assert (finding.works, finding.hint) == (False, found["hint"])


def test_probe_on_request_runs_again_and_leaves_nothing() -> None:
    """``probe``: real children, both allowed and denied; no group, mount or process is left."""
    with Client() as client:
        client.send({"op": "probe"})
        assert client.wait("probe")["capabilities"] == client.capabilities
        path = client.capabilities["cgroup"]["path"]
        if path is not None:
            assert [p for p in Path(path).iterdir() if p.is_dir()] == []


def test_user_namespaces_switched_off_by_sysctl_are_named() -> None:
    """``user.max_user_namespaces=0``: ENOSPC at step ``userns``."""
    requires_unshare("-Ur")
    prefix = shell("echo 0 > /proc/sys/user/max_user_namespaces", "-Ur")
    with Client(prefix=prefix) as client:
        found = client.capabilities["namespaces"]
        assert (found["works"], found["step"], found["errno"]) == (False, "userns", errno.ENOSPC)
        assert "user.max_user_namespaces" in found["hint"]
        assert best_tier(client.capabilities) == "baseline"
        ended = client.run(["/bin/echo", "ok"], use=["namespaces", "cgroup"])
        assert (ended.out, ended.enforced["namespaces"]) == ("ok\n", [])


def test_filter_of_a_container_that_forbids_unshare_is_named() -> None:
    """A container's default filter: EPERM at step ``userns``; the baseline still works."""
    number = {"x86_64": 272, "aarch64": 97}.get(os.uname().machine)
    require("arch", number is not None, "no system call number for this machine")
    code = (
        f"import sys, os; sys.path.insert(0, {str(ROOT / 'workers')!r})\n"
        "from launcher import bpf, caps, seccomp, syscall_table, syscalls\n"
        "p = bpf.Program(syscall_table.AUDIT_ARCH[syscalls.ARCH])\n"
        f"p.call({number}, bpf.error(1))\n"
        "caps.set_no_new_privs(); seccomp.install(p.finish())\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    with Client(prefix=(sys.executable, "-I", "-S", "-c", code)) as client:
        found = client.capabilities["namespaces"]
        assert (found["works"], found["step"], found["errno"]) == (False, "userns", errno.EPERM)
        assert "seccomp" in found["hint"]
        assert client.run(["/bin/echo", "ok"]).out == "ok\n"


def test_read_only_groups_are_named() -> None:
    """A container's usual ``/sys/fs/cgroup``: EROFS at step ``cgroup``."""
    require("root", AS_ROOT, "only root can remount")
    requires_unshare("-m")
    script = (
        'for m in $(awk \'$9=="cgroup"||$9=="cgroup2"||$10=="cgroup"{print $5}\''
        " /proc/self/mountinfo; ls -d /sys/fs/cgroup/*/ 2>/dev/null); do"
        " mount -o bind,remount,ro $m 2>/dev/null; done"
    )
    with Client(prefix=shell(script, "-m")) as client:
        found = client.capabilities["cgroup"]
        assert (found["works"], found["step"], found["errno"]) == (False, "cgroup", errno.EROFS)
        assert "Delegate=yes" in found["hint"]
        assert best_tier(client.capabilities) in ("baseline", "namespaces")


def test_masked_proc_of_a_container_still_gives_namespaces_without_proc() -> None:
    """A fresh ``/proc`` is refused where the container's own is masked: go on without."""
    require("root", AS_ROOT, "only root can mask /proc")
    requires_unshare("-m")
    script = "mount -t tmpfs none /proc/sys"
    with Client(prefix=shell(script, "-m")) as client:
        if not client.capabilities["namespaces"]["works"]:
            pytest.fail(str(client.capabilities["namespaces"]))
        ended = client.python(
            "import os; print(os.getpid(), os.path.exists('/proc/self/status'))",
            tier="namespaces",
        )
        assert ended.out == "2 False\n", ended


def test_findings_say_what_works_and_what_not() -> None:
    """Data for ``raw doctor``: whole values of a made-up host."""
    capabilities: dict[str, Any] = {
        "landlock": {"works": True, "abi": 7, "step": None, "errno": None},
        "seccomp": {"works": True},
        "namespaces": {
            "works": False,
            "kinds": [],
            "step": "uid_map",
            "errno": errno.EPERM,
            "message": "EPERM: Operation not permitted on '/proc/self/uid_map'",
            "hint": "do this",
        },
        "cgroup": {
            "works": True,
            "version": "v2",
            "path": "/x",
            "controllers": ["cpu", "memory", "pids"],
        },
        "overlay": {
            "works": False,
            "step": "overlay",
            "errno": errno.ENODEV,
            "message": "ENODEV: No such device",
            "hint": "and this",
        },
    }
    found = [(f.feature, f.works, f.message, f.hint) for f in derive_findings(capabilities)]
    assert found == [
        ("landlock", True, "files are confined by Landlock (ABI 7)", None),
        (
            "seccomp",
            True,
            "system calls are filtered by seccomp (this architecture is supported)",
            None,
        ),
        (
            "namespaces",
            False,
            "namespaces is not available: step 'uid_map' failed: "
            "EPERM: Operation not permitted on '/proc/self/uid_map'",
            "do this",
        ),
        (
            "cgroup",
            True,
            "memory and processes are capped by a cgroup (v2: cpu, memory, pids)",
            None,
        ),
        (
            "overlay",
            False,
            "overlay is not available: step 'overlay' failed: ENODEV: No such device",
            "and this",
        ),
    ]
    assert best_tier(capabilities) == "baseline"
