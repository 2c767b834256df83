"""Every spawn from request to end: started, watched, killed, reaped, cleaned up after.

Invariant: each spawn ends with exactly one of ``spawn_failed`` and ``exited``, sent
when every process of it is dead and reaped and its private directory is gone.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from typing import Any

from . import scratch as scratch_files
from .cgroup import CgroupRoot
from .child import Report, run_child
from .cleaner import Cleaner, within_budget
from .control import Control
from .plan import parse_plan
from .priority import prefer_this_process
from .protocol import MAX_MESSAGE, PeerClosed, close_all, fits, receive, send
from .request import SpawnRequest, check_message, encode_request
from .sessions import sessions_allowed
from .spawn import Spawn, choose_stub, fit_plan
from .steps import StepFailed, step
from .stub import describe_status
from .tree import children_of, kill_below, process_of
from .usage import counts_processes, find_process_excess, find_scratch_excess
from .zygote import Zygote

__all__ = ["Spawns"]

_SETUP_SECONDS = 10.0
_TICK_SECONDS = 0.25
_SWEEP_SECONDS = 0.01
_COUNT_SECONDS = 0.02
"""A shell's fork bomb doubles every few milliseconds."""
_STUB_GRACE_SECONDS = 0.5
_SHUTDOWN_SECONDS = 0.9


class Spawns:
    """All spawns of this launcher.

    Args:
        control: Where answers and notices go.
        selector: Set-up children and stubs are registered here, with their ``Spawn``.
        cgroups: Where leaves are made.
        zygote: Where Python workers are forked.
        root: Path of the directory the private directories are made in.
        capabilities: What this host was found to be able to do (CAPS).
        remove_at_end: The supervisor's private directory: it may be killed before it could
            remove it itself.
    """

    def __init__(
        self,
        control: Control,
        selector: selectors.BaseSelector,
        cgroups: CgroupRoot,
        zygote: Zygote,
        root: str,
        capabilities: dict[str, Any],
        remove_at_end: str | None = None,
    ) -> None:
        self.control = control
        self.selector = selector
        self.cgroups = cgroups
        self.zygote = zygote
        self.root_path = root
        self.root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._capabilities = capabilities
        self._remove_at_end = remove_at_end
        self.spawns: dict[str, Spawn] = {}
        self.by_pid: dict[int, Spawn] = {}
        # Race: a child the zygote forked can end before its number is known.
        self.early: dict[int, tuple[int, Any]] = {}
        self.cleaners: dict[int, Cleaner] = {}
        self._ending = False
        self._sessions = sessions_allowed()

    def start(self, message: dict[str, Any], fds: list[int]) -> None:
        """Take a ``spawn`` message: check it, decide how, fork."""
        spawn_id = str(message.get("id"))
        try:
            if spawn_id in self.spawns:
                raise StepFailed("request", 0, f"id {spawn_id!r:.80} is in use")
            check_message(message, len(fds))
            plan = fit_plan(parse_plan(message.get("plan")), self._capabilities)
            stub, namespaces, use_cgroup = choose_stub(plan, self._capabilities)
            if message["kind"] == "python":
                with step("fork"):
                    self.zygote.check()
            spawn = Spawn(spawn_id, plan, stub)
            if plan.processes and not use_cgroup:
                prefer_this_process()
        except StepFailed as failure:
            self.control.post({"op": "spawn_failed", "id": spawn_id, **failure.as_dict()})
            return
        self.spawns[spawn_id] = spawn
        spawn.deadline = time.monotonic() + _SETUP_SECONDS
        try:
            self._prepare_scratch(spawn, message.get("scratch"), private=namespaces)
            if use_cgroup:
                spawn.leaf = self.cgroups.make_leaf(plan, files_in_memory=namespaces)
            request = self._request(spawn, message, namespaces=namespaces)
            with step("fork"):
                self._fork(spawn, request, fds)
        except StepFailed as failure:
            spawn.failure = failure
            self._finish(spawn)

    def _request(self, spawn: Spawn, message: dict[str, Any], *, namespaces: bool) -> SpawnRequest:
        return SpawnRequest(
            id=spawn.id,
            kind=message["kind"],
            argv=message["argv"],
            env=message["env"],
            cwd=message["cwd"],
            targets=message["fds"],
            plan=spawn.plan,
            scratch=spawn.scratch,
            abi=int(self._capabilities["landlock"]["abi"]),
            namespaces=namespaces,
            stub=spawn.stub,
            cgroup_join=spawn.leaf.join_files if spawn.leaf else [],
            cgroup=spawn.leaf.version if spawn.leaf else None,
            memory_capped=bool(spawn.leaf and spawn.leaf.memory_capped),
            launcher_pid=os.getpid(),
            # In a cgroup all sessions together get what the cgroup gets.
            sessions=0 if spawn.leaf or not spawn.plan.processes else self._sessions,
        )

    def _prepare_scratch(self, spawn: Spawn, name: object, *, private: bool) -> None:
        if name is None:
            return
        assert isinstance(name, str)  # noqa: S101 - by check_message
        spawn.scratch = os.path.join(self.root_path, name)
        if private:
            spawn.scratch_private = True  # A tmpfs of its own, made during set-up.
            return
        with step("scratch"):
            spawn.scratch_fd = scratch_files.make(self.root_fd, name)
        spawn.scratch_name = name

    def _fork(self, spawn: Spawn, request: SpawnRequest, fds: list[int]) -> None:
        body = {"request": encode_request(request)} if request.kind == "python" else {}
        if not fits(body):
            raise StepFailed("request", 0, f"it is over {MAX_MESSAGE} bytes with what we add")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        channel: socket.socket | None = None
        if spawn.stub != "none":
            spawn.channel, channel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            spawn.channel.setblocking(False)
            self.selector.register(spawn.channel, selectors.EVENT_READ, spawn)
        if request.kind == "python":
            self.zygote.fork(theirs)
            more = (channel.fileno(),) if channel else ()
            send(ours, body, (*fds, *more))
        else:
            pid = os.fork()
            if pid == 0:
                run_child(request, fds, Report(theirs), channel, None)
            spawn.main_pid = pid
            self._own(spawn, pid)
        theirs.close()
        if channel is not None:
            channel.close()
        spawn.report = ours
        self.selector.register(ours, selectors.EVENT_READ, spawn)

    def _own(self, spawn: Spawn, pid: int) -> None:
        # ``main_pid`` is set first: it may have ended, and its status is taken here.
        spawn.pids.add(pid)
        self.by_pid[pid] = spawn
        if pid in self.early:
            self._reaped(pid, *self.early.pop(pid))

    def on_message(self, spawn: Spawn, source: object) -> bool:
        """Take one message of a set-up child or stub; say whether there may be more."""
        sock = spawn.report if source is spawn.report else spawn.channel
        if sock is None or sock is not source:
            return False  # Closed by an earlier event of this round.
        try:
            message, fds = receive(sock)
        except BlockingIOError:
            return False  # Read by an earlier event of this round.
        except (PeerClosed, ValueError):
            self.selector.unregister(sock)
            sock.close()
            if sock is spawn.report:
                spawn.report = None
                self._setup_ended(spawn)
            else:
                spawn.channel = None
            self._finish_if_over(spawn)
            return False
        if "exit" in message:
            spawn.exit_report = message["exit"]
        elif "failed" in message:
            failed = message["failed"]
            spawn.failure = spawn.failure or StepFailed(
                failed["step"], failed["errno"], failed["message"]
            )
        elif "pid" in message or "stub" in message:
            spawn.main_pid = message["pid"] if "pid" in message else message["stub"]
            self._own(spawn, spawn.main_pid)
        elif "scratch_fd" in message:
            spawn.scratch_fd, spawn.views = fds.pop(), message["views"]
        elif "ready" in message:
            spawn.enforced = message["ready"]
            spawn.scratch = message["scratch"]
            spawn.pidfd = fds.pop()
            # Already gone: then the number of the process that owned it.
            spawn.worker_pid = process_of(spawn.pidfd) or spawn.main_pid
        close_all(fds)
        if spawn.kill_sent is not None:
            spawn.send_kill()
        return True

    def _setup_ended(self, spawn: Spawn) -> None:
        if spawn.failure is None and spawn.enforced is None:
            spawn.failure = StepFailed("setup", 0, "the process ended during set-up")
        if spawn.failure is not None:
            self.kill(spawn)
            return
        assert spawn.pidfd is not None  # noqa: S101 - comes with "ready"
        spawn.state = "running"
        self.control.post(
            {
                "op": "spawned",
                "id": spawn.id,
                "pid": spawn.worker_pid,
                "enforced": spawn.enforced,
                "scratch": spawn.scratch,
                "scratch_private": spawn.scratch_private,
                "views": spawn.views,
            },
            (spawn.pidfd,) if spawn.scratch_fd is None else (spawn.pidfd, spawn.scratch_fd),
        )

    def kill(self, spawn: Spawn) -> None:
        """Kill the whole tree; its end is reported when it is gone. Idempotent."""
        if spawn.kill_sent is None:
            spawn.kill_sent = time.monotonic()
        if spawn.leaf is not None:
            spawn.leaf.kill()
        spawn.send_kill()
        self._finish_if_over(spawn)

    def reap(self) -> None:
        """Take every child that has ended."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.zygote.pid:
                self.zygote.on_death()
            elif pid in self.cleaners:
                self.cleaners.pop(pid).finish()
            elif pid in self.by_pid:
                self._reaped(pid, status, usage)
            elif self._is_starting():
                self.early[pid] = (status, usage)

    def _reaped(self, pid: int, status: int, usage: Any) -> None:
        spawn = self.by_pid.pop(pid)
        spawn.pids.discard(pid)
        spawn.cpu_ms += int((usage.ru_utime + usage.ru_stime) * 1000)
        spawn.max_rss_bytes = max(spawn.max_rss_bytes, usage.ru_maxrss * 1024)
        if pid == spawn.main_pid:
            spawn.status = status
        self._drain(spawn)
        self._finish_if_over(spawn)

    def _drain(self, spawn: Spawn) -> None:
        """Read what a dead process still said: its report may come after its end."""
        for source in (spawn.report, spawn.channel):
            while source is not None and self.on_message(spawn, source):
                pass

    def _finish_if_over(self, spawn: Spawn) -> None:
        if spawn.state != "over" and spawn.is_over() and self._tree_is_gone(spawn):
            self._finish(spawn)

    def _tree_is_gone(self, spawn: Spawn) -> bool:
        """Make sure that nothing outlived a stub that was killed before it had swept."""
        if spawn.leaf is not None:
            spawn.killed_extra += spawn.leaf.kill()
        if spawn.stub != "tree" or spawn.exit_report is not None:
            return True
        spawn.orphaned = True
        return self._sweep_strangers()

    def _finish(self, spawn: Spawn) -> None:
        """Remove what it left, then report its end. The tree is gone."""
        spawn.state, ran = "over", spawn.state == "running"
        name, root = spawn.scratch_name, self.root_fd
        at_once = self._ending or self.control.closed
        if name is not None:
            if not scratch_files.remove(root, name, within_budget()) and not at_once:
                self._clean_in_child(
                    lambda: scratch_files.Usage(0, 0, scratch_files.remove(root, name)),
                    {root},
                    lambda _usage: self._report_end(spawn, ran=ran),
                )
                return
            if at_once:
                scratch_files.remove(root, name)
        self._report_end(spawn, ran=ran)

    def _report_end(self, spawn: Spawn, *, ran: bool) -> None:
        self.spawns.pop(spawn.id, None)
        oom = None
        if spawn.leaf is not None:
            oom = spawn.leaf.oom()
            spawn.leaf.remove()
        for sock in (spawn.report, spawn.channel):
            if sock is not None:
                self.selector.unregister(sock)
        failure = spawn.failure
        spawn.close()
        if not ran:
            failure = failure or StepFailed("setup", 0, "the process ended during set-up")
            self.control.post({"op": "spawn_failed", "id": spawn.id, **failure.as_dict()})
            return
        # Without a report the stub was killed, and the worker with it.
        status = signal.SIGKILL if spawn.status is None else spawn.status
        report = spawn.exit_report or describe_status(status)
        self.control.post(
            {
                "op": "exited",
                "id": spawn.id,
                "code": report["code"],
                "signal": report["signal"],
                "core": report["core"],
                "cpu_ms": spawn.cpu_ms,
                "max_rss_bytes": spawn.max_rss_bytes,
                "oom": oom,
                "limit": spawn.limit,
                "killed_extra": spawn.killed_extra + int(report.get("killed_extra", 0)),
            }
        )

    def _is_starting(self) -> bool:
        return any(spawn.state == "starting" for spawn in self.spawns.values())

    def _sweep_strangers(self) -> bool:
        """Kill children nobody claims: orphans whose stub was killed. Say if none is left.

        Race: while a spawn is starting, its process may not be known by number
        yet, so nothing is swept then.
        """
        known = {*self.by_pid, *self.cleaners, *self.zygote.pids}
        if set(children_of(os.getpid())) <= known:
            return True
        if not self._is_starting():
            kill_below(os.getpid(), spare=known)
        return False

    def clean(self, spawn_id: str, spawn: Spawn | None) -> None:
        """Empty the private directory and answer ``cleaned``."""

        def answer(usage: scratch_files.Usage) -> None:
            self.control.post(
                {
                    "op": "cleaned",
                    "id": spawn_id,
                    "bytes": usage.bytes,
                    "entries": usage.entries,
                    "complete": usage.complete,
                }
            )

        if spawn is None or spawn.scratch_fd is None:
            answer(scratch_files.Usage(0, 0, True))
            return
        fd = spawn.scratch_fd
        work = scratch_files.empty_parts if spawn.scratch_private else scratch_files.empty
        first = work(fd, within_budget())
        if first.complete:
            answer(first)
            return

        def add(rest: scratch_files.Usage) -> None:
            answer(
                scratch_files.Usage(
                    first.bytes + rest.bytes, first.entries + rest.entries, rest.complete
                )
            )

        self._clean_in_child(lambda: work(fd), {fd}, add)

    def _clean_in_child(
        self,
        work: Callable[[], scratch_files.Usage],
        keep: set[int],
        done: Callable[[scratch_files.Usage], None],
    ) -> None:
        try:
            cleaner = Cleaner(work, keep, done)
        except OSError:  # no process or descriptor to be had
            done(scratch_files.Usage(0, 0, False))
            return
        self.cleaners[cleaner.pid] = cleaner

    def timeout(self) -> float | None:
        """Return how long the loop may sleep, in seconds."""
        if any(spawn.orphaned for spawn in self.spawns.values()):
            return _SWEEP_SECONDS
        if any(counts_processes(spawn) for spawn in self.spawns.values()):
            return _COUNT_SECONDS
        return _TICK_SECONDS if self.spawns else None

    def tick(self) -> None:
        """Do what is due by time: deadlines, watched limits, unfinished sweeps."""
        now = time.monotonic()
        for spawn in list(self.spawns.values()):
            if spawn.state == "over":
                continue  # Only its files are still being removed.
            if spawn.orphaned:
                self._finish_if_over(spawn)
            elif spawn.kill_sent is not None:
                # A stub that does not obey: its orphans become ours and are swept.
                if spawn.stub == "tree" and now > spawn.kill_sent + _STUB_GRACE_SECONDS:
                    spawn.kill_stub()
            elif spawn.state == "starting" and now > spawn.deadline:
                spawn.failure = spawn.failure or StepFailed(
                    "timeout", 0, f"set-up took over {_SETUP_SECONDS:g} s"
                )
                if spawn.main_pid is None:
                    # A zygote that is stopped never forked it, and keeps the request.
                    self.zygote.kill()
                self.kill(spawn)
            if spawn.kill_sent is None and spawn.state == "running" and spawn.plan.sandbox:
                self._watch(spawn, now)
        if self.early and not self._is_starting():
            # Numbers are reused: what nobody claimed by now was a stranger.
            self.early.clear()

    def _watch(self, spawn: Spawn, now: float) -> None:
        """Kill a spawn that is over a limit which the kernel does not hold here."""
        if counts_processes(spawn):
            spawn.limit = find_process_excess(spawn)
        if spawn.limit is None and now >= spawn.next_watch:
            spawn.limit = find_scratch_excess(spawn)
            # A large directory takes long to measure: never more than a tenth of our time.
            spent = time.monotonic() - now
            spawn.next_watch = now + max(_TICK_SECONDS, 10 * spent)
        if spawn.limit is not None:
            self.kill(spawn)

    def end_all(self, *, supervisor_gone: bool) -> None:
        """Kill everything, reap it, remove what it left. Bounded, so never a hang.

        Args:
            supervisor_gone: Nobody else will remove its private directory.
        """
        self._ending = True
        end = time.monotonic() + _SHUTDOWN_SECONDS
        self.zygote.kill()
        for spawn in list(self.spawns.values()):
            self.kill(spawn)
        while time.monotonic() < end:
            self.reap()
            kill_below(os.getpid())
            if not children_of(os.getpid()):
                break
            self.selector.select(_SWEEP_SECONDS)
        self.reap()
        for spawn in list(self.spawns.values()):
            self._finish(spawn)
        scratch_files.empty(self.root_fd)  # What a killed cleaner had not finished.
        self.cgroups.close()
        if supervisor_gone and self._remove_at_end is not None:
            self._remove_private(self._remove_at_end)

    def _remove_private(self, path: str) -> None:
        parent, _, name = path.rstrip("/").rpartition("/")
        try:
            fd = os.open(parent or "/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return  # Gone with all that was in it.
        scratch_files.remove(fd, name)
        os.close(fd)
