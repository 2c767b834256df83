"""The host plan: a sandbox plan with this machine's runtime files, for the launcher.

Without processes a worker may execute its own runtime and that runtime's loader,
nothing else. With processes it may execute and read the system's programs, and what
lies in its grants, since a shell that can run no script of the project is of no use;
everything it starts stays under the same Landlock domain and filter. ``/etc`` is never
granted as a whole: run as uid 0, ``/etc/shadow`` would be readable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import SandboxError
from .plan import SandboxPlan
from .runtime_files import RuntimeFiles

__all__ = ["host_plan"]

_PROGRAMS = (
    "/bin",
    "/gnu/store",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/sbin",
    "/usr",
)
_SETTINGS = tuple(
    f"/etc/{name}"
    for name in (
        "alternatives",
        "bash.bashrc",
        "debian_version",
        "default/locale",
        "environment",
        "fonts",
        "gai.conf",
        "gitattributes",
        "gitconfig",
        "group",
        "host.conf",
        "hostname",
        "hosts",
        "inputrc",
        "java",
        "ld.so.cache",
        "ld.so.conf",
        "ld.so.conf.d",
        "locale.alias",
        "localtime",
        "lsb-release",
        "magic",
        "mime.types",
        "nsswitch.conf",
        "os-release",
        "passwd",
        "perl",
        "profile",
        "profile.d",
        "protocols",
        "python3",
        "services",
        "shells",
        # Node exits with 13 when this exists but may not be read, npm when the bundle does.
        "ssl/certs",
        "ssl/openssl.cnf",
        "terminfo",
        "timezone",
        "vim",
    )
)
_NETWORK = (
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/usr/share/ca-certificates",
)
# Facts about the machine that runtimes ask for; none names a process.
_MACHINE = (
    "/proc/cpuinfo",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/overcommit_memory",
    "/proc/uptime",
    "/proc/version",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
)
_FILES = 256
_FILES_WITH_PROCESSES = 1024
_TASKS = 64
_TASKS_WITH_PROCESSES = 512


def host_plan(
    plan: SandboxPlan,
    *,
    runtime: RuntimeFiles,
    snapshot_dir: str | Path | None,
    use: tuple[str, ...] = ("namespaces", "cgroup"),
    settles: bool = False,
) -> dict[str, Any]:
    """Return HOSTPLAN, as the launcher protocol spells it.

    Args:
        plan: What is granted.
        runtime: Files the worker needs to run at all.
        snapshot_dir: The frozen tool folder; read-only. ``None`` for programs without one.
        use: Optional mechanisms that may be used where the host has them.
        settles: The caller takes up what the process changes on a view when it has ended.

    Raises:
        SandboxError: The plan wants a view and nobody would settle it: its changes would be
            lost without a word.
    """
    if plan.view and not settles:
        raise SandboxError(
            "sandbox_unavailable",
            f"profile {plan.profile!r} has effects {plan.effects!r}, which only the calls of a "
            "tool can have: what else runs under it does not end with a call",
            step="view",
            hint="use a profile with effects 'declared' for it",
        )
    read = [*runtime.read, *_MACHINE, *plan.read]
    execute = list(runtime.execute)
    if snapshot_dir is not None:
        read.append(str(snapshot_dir))
    if plan.network == "host":
        read += _NETWORK
    if plan.processes:
        read += [*_PROGRAMS, *_SETTINGS]
        execute += [*_PROGRAMS, *runtime.read, *plan.read]
        if snapshot_dir is not None:
            execute.append(str(snapshot_dir))
    return {
        "read": sorted(set(read)),
        "write": list(plan.write),
        "exec": sorted(set(execute)),
        "network": plan.network,
        "processes": plan.processes,
        "tier": plan.tier,
        "use": list(use),
        "sandbox": plan.sandbox,
        "rlimits": {
            "data": plan.memory_bytes + runtime.base_data_bytes,
            "fsize": plan.scratch_bytes,
            "nofile": _FILES_WITH_PROCESSES if plan.processes else _FILES,
            "core": 0,
        },
        "memory_bytes": plan.memory_bytes,
        "scratch_bytes": plan.scratch_bytes,
        "pids_max": _TASKS_WITH_PROCESSES if plan.processes else _TASKS,
        "view": plan.view,
        "copy_bytes": plan.copy_bytes,
    }
