"""A set-up child: from fork to ``exec`` (or to the Python worker), in one order.

    join cgroup → namespaces, private root → descriptors, session → rlimits →
    capabilities → no_new_privs → Landlock → seccomp → exec

Order matters. The cgroup comes first so that everything later is counted. Mounts
come before Landlock, which forbids them. Capabilities go before Landlock, since
with them a process may still look into others. seccomp is last because the steps
before it use calls it denies. Any failure is sent as a step, an errno and a
message on ``report``, and the process exits; no step is skipped or weakened.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import sys
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from . import caps, fds, landlock, mounts, namespaces, rlimits, seccomp
from .protocol import send
from .request import SpawnRequest
from .steps import StepFailed, step
from .stub import serve_stub
from .syscalls import prctl, write_file

__all__ = ["Report", "run_child"]

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_EXIT_SETUP_FAILED = 126


class Place(NamedTuple):
    """Where the worker-to-be runs.

    Args:
        parent: Process id the parent must have, in this PID namespace.
        kinds: Namespaces that are private.
        scratch: The private directory as seen from here.
        private: Other directories that are the worker's own.
        proc: ``/proc`` is a fresh one of the private PID namespace.
    """

    parent: int
    kinds: list[str]
    scratch: str | None
    private: list[str]
    proc: bool


class Report:
    """The way back to the launcher, wherever its descriptor is moved to.

    Args:
        sock: Connected to the launcher.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one message."""
        send(self.sock, message, fds)

    def adopt(self, number: int) -> None:
        """Go on with the descriptor ``number``; the former one is already closed."""
        self.sock.detach()
        self.sock = socket.socket(fileno=number)

    def close(self) -> None:
        """End set-up: the launcher sees end of file."""
        self.sock.close()


def run_child(
    request: SpawnRequest,
    received: list[int],
    report: Report,
    channel: socket.socket | None,
    python_worker: ModuleType | None,
) -> NoReturn:
    """Become the worker (or the stub above it). Never returns, never raises.

    Args:
        request: What to start and how.
        received: Descriptors for ``request.targets``.
        report: To the launcher; closed when set-up is over.
        channel: The stub's socket to the launcher, when there is to be a stub.
        python_worker: The module whose ``serve()`` a Python worker continues in.
    """
    try:
        _run(request, received, report, channel, python_worker)
    except StepFailed as failure:
        _report_failure(report, failure)
    except BaseException as exc:  # nothing of the launcher may run in this process
        _report_failure(report, StepFailed("setup", 0, f"{type(exc).__name__}: {exc}"))
    os._exit(_EXIT_SETUP_FAILED)


def _report_failure(report: Report, failure: StepFailed) -> None:
    try:
        report.send({"failed": failure.as_dict()})
    except BaseException:  # then the exit status says it
        pass


def _run(
    request: SpawnRequest,
    received: list[int],
    report: Report,
    channel: socket.socket | None,
    python_worker: ModuleType | None,
) -> None:
    for path in request.cgroup_join:
        with step("cgroup"):
            write_file(path, "0")
    kinds: list[str] = []
    scratch = request.scratch
    private: list[str] = []
    proc = False
    asked: socket.socket | None = None
    listening: socket.socket | None = None
    stub_pid = request.launcher_pid
    if request.plan.sandbox:
        caps.drop_groups()
    if request.stub != "none":
        assert channel is not None  # noqa: S101 - the launcher makes it with the stub
        if request.stub == "init":
            kinds = namespaces.enter(request, report)
            root = mounts.build_root(request, report)
            scratch, private = root.scratch if scratch else None, root.writable
            proc = root.proc
        else:
            prctl(_PR_SET_CHILD_SUBREAPER, 1)
        stub_pid = os.getpid()
        if request.sessions and request.plan.sandbox:
            asked, listening = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        worker = os.fork()
        if worker:
            if request.stub == "init":
                caps.drop_capabilities()
            if asked is not None:
                asked.close()
            serve_stub(
                channel,
                worker,
                is_init=request.stub == "init",
                listening=listening,
                sessions=request.sessions,
            )
    place = Place(stub_pid, kinds, scratch, private, proc)
    _become_worker(request, received, report, asked, place, python_worker)


def _die_with(parent: int) -> None:
    """Ask for a signal when the parent ends, which may have happened already.

    Reliable here because every parent is single-threaded: the kernel ties the
    signal to the thread that forked.
    """
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise StepFailed("parent", 0, "the parent ended during set-up")


def _become_worker(
    request: SpawnRequest,
    received: list[int],
    report: Report,
    asked: socket.socket | None,
    place: Place,
    python_worker: ModuleType | None,
) -> None:
    plan, scratch = request.plan, place.scratch
    with step("fds"):
        os.setsid()
        keep = [report.sock.fileno(), *([asked.fileno()] if asked is not None else [])]
        number, *more = fds.place(received, request.targets, keep)
    report.adopt(number)
    if asked is not None:
        asked.detach()
        asked = socket.socket(fileno=more[0])
    try:
        write_file("/proc/self/oom_score_adj", "500")
    except OSError:
        pass  # Only a preference: workers before the launcher when memory runs out.
    with step("cwd"):
        os.chdir(request.cwd)
    os.umask(0o022)
    _reset_signals(keep_pipe=request.kind == "python")
    with step("rlimits"):
        limits = rlimits.apply_rlimits(plan, count_processes=bool(place.kinds))
    # Opened while it is allowed. The launcher cannot always: it may not be the parent,
    # and a process that ends at once would be gone before it tried.
    own_pidfd = os.pidfd_open(os.getpid())
    enforced = _confine(request, place, asked)
    if asked is not None:
        asked.close()
    enforced["rlimits"] = limits
    message: dict[str, Any] = {"ready": enforced, "scratch": scratch}
    report.send(message, (own_pidfd,))
    os.close(own_pidfd)
    env = _environment(request.env, scratch)
    if request.kind == "python":
        report.close()
        _continue_in_python(python_worker, env)
    with step("exec"):
        os.execve(request.argv[0], request.argv, env)  # noqa: S606 - that is the job


def _confine(request: SpawnRequest, place: Place, asked: socket.socket | None) -> dict[str, Any]:
    """Give up everything the plan does not grant; return ENFORCED.

    Args:
        request: The spawn.
        place: Where it runs.
        asked: To the stub, which is sent what it is asked on.
    """
    kinds, scratch = place.kinds, place.scratch
    plan = request.plan
    _die_with(place.parent)
    enforced: dict[str, Any] = {
        "tier": "none",
        "landlock": 0,
        "seccomp": False,
        "namespaces": kinds,
        "cgroup": request.cgroup,
        "no_new_privs": False,
        "capabilities_dropped": False,
        "uid": os.getuid(),
        "network": "host",
        "processes": "allowed",
        "view": plan.view,
        "sessions": 0,
    }
    if not plan.sandbox:
        return enforced
    with step("capabilities"):
        enforced["capabilities_dropped"] = caps.drop_capabilities()
    # Dropping capabilities may have cleared it.
    _die_with(place.parent)
    with step("no_new_privs"):
        enforced["no_new_privs"] = caps.set_no_new_privs()
    contained_sockets = "mount" in kinds or request.abi >= 9
    granted = [scratch] if scratch else []
    # A private /proc shows nothing but this worker's own tree.
    own = ["/proc"] if plan.processes and "pid" in kinds and place.proc else ["/proc/self"]
    with step("landlock"):
        enforced["landlock"] = landlock.restrict(
            abi=request.abi,
            read=[*plan.read, *own],
            write=[*plan.write, *granted, *place.private],
            execute=[*plan.exec, *(granted if plan.processes else [])],
            network=plan.network != "none",
            sockets=plan.processes and contained_sockets,
        )
    filter_plan = seccomp.FilterPlan(
        processes=plan.processes,
        initial_exec=request.kind == "exec",
        network=plan.network,
        unix_sockets=contained_sockets,
        private_ipc="ipc" in kinds,
        shared_memory_capped=request.memory_capped,
        read_only_outside="mount" in kinds,
        own_pid=os.getpid(),
    )
    with step("seccomp"):
        seccomp.check_supported()
        if asked is not None:
            enforced["sessions"] = _bound_sessions(filter_plan, asked, request.sessions)
        if not enforced["sessions"]:
            seccomp.install(seccomp.build_filter(filter_plan))
    enforced["seccomp"] = True
    enforced["network"] = plan.network
    enforced["processes"] = "allowed" if plan.processes else "none"
    enforced["tier"] = "baseline" if not kinds else "cgroup" if request.cgroup else "namespaces"
    return enforced


def _bound_sessions(plan: seccomp.FilterPlan, asked: socket.socket, sessions: int) -> int:
    """Put the filter in force and let the stub answer for it; return the bound, 0 for none.

    The kernel has one such listener for a process: where raw_exec runs below another one's,
    nothing is put in force here, and it is told that sessions are not bounded.
    """
    program = seccomp.build_filter(plan._replace(ask_for_sessions=True))
    try:
        listener = seccomp.install(program, listen=True)
    except OSError as exc:
        if exc.errno != errno.EBUSY:
            raise
        return 0
    assert listener is not None  # noqa: S101 - by listen
    send(asked, {}, (listener,))
    # The worker must not be the one that answers.
    os.close(listener)
    return sessions


def _reset_signals(*, keep_pipe: bool) -> None:
    """Undo what the launcher (``loop.py``) and Python itself changed; it reset the rest."""
    signal.set_wakeup_fd(-1)
    changed = [signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD]
    if not keep_pipe:
        # A Python worker expects what Python sets up: writes fail instead of killing.
        changed += [signal.SIGPIPE, signal.SIGXFSZ]
    for number in changed:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _environment(env: dict[str, str], scratch: str | None) -> dict[str, str]:
    if scratch is None:
        return dict(env)
    return {**env, "HOME": scratch, "TMPDIR": scratch, "TMP": scratch, "TEMP": scratch}


def _continue_in_python(module: ModuleType | None, env: dict[str, str]) -> NoReturn:
    if module is None:
        os._exit(_EXIT_SETUP_FAILED)  # Checked before the fork.
    os.environ.clear()
    os.environ.update(env)
    package = __name__.partition(".")[0]
    for name in [n for n in sys.modules if n == package or n.startswith(package + ".")]:
        del sys.modules[name]
    main = sys.modules.get("__main__")
    if main is not None:
        vars(main).clear()
        vars(main)["__name__"] = "__main__"
    sys.argv = [""]
    gc.enable()
    try:
        module.serve()
    except BaseException:  # serve() exits by itself; this is its bug
        os._exit(70)
    os._exit(0)
