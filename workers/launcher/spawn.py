"""One spawn as the launcher sees it, and the decision how to confine it.

States: ``starting`` (set-up runs) → ``running`` → gone. It is over only when every
process known to belong to it is reaped and set-up has closed its report socket.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import Any

from .plan import TIERS, HostPlan
from .steps import StepFailed

__all__ = ["Spawn", "choose_stub", "fit_plan"]


class Spawn:
    """Mutable record of one spawn.

    Args:
        spawn_id: The supervisor's name for it.
        plan: Its confinement.
        stub: ``"none"``, ``"tree"`` or ``"init"``.
    """

    __slots__ = (
        "channel", "cpu_ms", "deadline", "enforced", "exit_report", "failure", "id", "kill_sent",
        "killed_extra", "leaf", "limit", "main_pid", "max_rss_bytes", "next_watch",
        "orphaned", "pidfd", "pids",
        "plan", "report", "scratch", "scratch_fd", "scratch_name", "scratch_private", "state",
        "status", "stub", "views", "worker_pid",
    )  # fmt: skip

    def __init__(self, spawn_id: str, plan: HostPlan, stub: str) -> None:
        self.id = spawn_id
        self.plan = plan
        self.stub = stub
        self.state = "starting"
        self.deadline = 0.0
        self.report: socket.socket | None = None
        self.channel: socket.socket | None = None
        self.pids: set[int] = set()
        self.main_pid: int | None = None
        self.worker_pid: int | None = None
        self.pidfd: int | None = None
        self.enforced: dict[str, Any] | None = None
        self.failure: StepFailed | None = None
        self.status: int | None = None
        self.exit_report: dict[str, Any] | None = None
        self.cpu_ms = 0
        self.max_rss_bytes = 0
        self.killed_extra = 0
        self.orphaned = False
        self.next_watch = 0.0
        self.kill_sent: float | None = None
        self.limit: dict[str, Any] | None = None
        self.leaf: Any = None
        self.scratch: str | None = None
        self.scratch_name: str | None = None
        self.scratch_fd: int | None = None
        self.scratch_private = False
        self.views: list[dict[str, Any]] = []

    def is_over(self) -> bool:
        """Say whether set-up has ended and every known process is reaped."""
        return self.report is None and not self.pids

    def send_kill(self) -> None:
        """Kill the worker, or whatever owns its tree."""
        if self.main_pid is not None and self.main_pid in self.pids:
            if self.stub == "tree" and self.channel is not None:
                # End of file: the stub sweeps its tree, then reports and exits.
                self.channel.shutdown(socket.SHUT_WR)
            else:
                os.kill(self.main_pid, signal.SIGKILL)

    def kill_stub(self) -> None:
        """Kill the owner of the tree itself; what it owned becomes the launcher's."""
        if self.main_pid is not None and self.main_pid in self.pids:
            os.kill(self.main_pid, signal.SIGKILL)

    def close(self) -> None:
        """Close every descriptor of this record."""
        for sock in (self.report, self.channel):
            if sock is not None:
                sock.close()
        for fd in (self.pidfd, self.scratch_fd):
            if fd is not None:
                os.close(fd)
        self.report = self.channel = self.pidfd = self.scratch_fd = None


def fit_plan(plan: HostPlan, capabilities: dict[str, Any]) -> HostPlan:
    """Let nothing be copied that a view can be mounted of."""
    return plan._replace(copy_bytes=0) if capabilities["overlay"]["works"] else plan


def choose_stub(plan: HostPlan, capabilities: dict[str, Any]) -> tuple[str, bool, bool]:
    """Decide how a plan is enforced on this host.

    Args:
        plan: What is asked.
        capabilities: What the host was found to be able to do (CAPS).

    Returns:
        The kind of stub, whether to use namespaces, whether to use a cgroup.

    Raises:
        StepFailed: When the host cannot do what the plan demands. Nothing is forked.
    """
    if not plan.sandbox:
        return "tree", False, "cgroup" in plan.use and bool(capabilities["cgroup"]["works"])
    for name in ("landlock", "seccomp"):
        found = capabilities[name]
        if not found["works"]:
            raise StepFailed(name, found.get("errno") or 0, found["message"])
    level = TIERS.index(plan.tier)
    use: dict[str, bool] = {}
    for position, name in enumerate(("namespaces", "cgroup"), start=1):
        found = capabilities[name]
        demanded = level >= position
        demanded = demanded or (name == "namespaces" and plan.view)
        use[name] = bool(found["works"]) and (demanded or name in plan.use)
        if demanded and not use[name]:
            raise StepFailed(found["step"] or name, found.get("errno") or 0, found["message"])
    if plan.view and not plan.copy_bytes and not capabilities["overlay"]["works"]:
        found = capabilities["overlay"]
        raise StepFailed(found["step"], found.get("errno") or 0, found["message"])
    if plan.network == "loopback" and not use["namespaces"]:
        raise StepFailed(
            "network",
            capabilities["namespaces"].get("errno") or 0,
            "a private loopback needs a network namespace: "
            + (capabilities["namespaces"]["message"] or "the plan does not let us use one"),
        )
    stub = "init" if use["namespaces"] else "tree" if plan.processes else "none"
    return stub, use["namespaces"], use["cgroup"]
