"""A blocking client of the launcher, for tests: starts it, talks to it, leaves nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.launcher.delegation import delegated_groups, remove_groups

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = ROOT / "workers" / "launcher" / "main.py"
# Not below pytest's own folder, which an ordinary user may not enter.
SHARED = "/tmp"
SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache"]


def plan(**changes: Any) -> dict[str, Any]:
    """A HOSTPLAN that can run system programs, with changes."""
    base: dict[str, Any] = {
        "read": [*SYSTEM],
        "write": [],
        "exec": [*SYSTEM],
        "network": "none",
        "processes": False,
        "tier": "baseline",
        "use": [],
        "sandbox": True,
        "rlimits": {"data": 512 << 20, "fsize": 64 << 20, "nofile": 256, "core": 0},
        "memory_bytes": 0,
        "scratch_bytes": 16 << 20,
        "pids_max": 64,
    }
    return {**base, **changes}


class Ended:
    """What came out of one spawn."""

    def __init__(self, spawned: dict[str, Any], exited: dict[str, Any], out: str, err: str) -> None:
        self.spawned = spawned
        self.exited = exited
        self.out = out
        self.err = err

    @property
    def enforced(self) -> dict[str, Any]:
        return self.spawned["enforced"]

    def __repr__(self) -> str:
        return f"Ended({self.exited}, out={self.out!r}, err={self.err[-2000:]!r})"


class Refused(Exception):
    """The launcher answered ``spawn_failed``."""

    def __init__(self, message: dict[str, Any]) -> None:
        super().__init__(message)
        self.step = message["step"]
        self.errno = message["errno"]
        self.message = message["message"]


class Client:
    """One launcher process.

    Args:
        user: Numeric uid and gid to run it as, ``None`` for this process's own.
        simulate: Features it shall act as if it had not.
        prefix: A command that prepares a poorer environment and executes its arguments.
    """

    def __init__(
        self,
        *,
        user: int | None = None,
        simulate: tuple[str, ...] = (),
        msgpack_dir: str | None = None,
        launcher: Path = LAUNCHER,
        python: str = sys.executable,
        hello: bool = True,
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.scratch_root = tempfile.mkdtemp(prefix="raw-launcher-", dir=SHARED)
        if user is not None:
            os.chown(self.scratch_root, user, user)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock = ours
        self.sock.settimeout(60)
        number = theirs.fileno()
        groups = contextlib.nullcontext() if user is None else delegated_groups(user)
        with groups:
            self.process = subprocess.Popen(
                [*prefix, python, "-I", "-S", "-E", str(launcher), str(number)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[number],
                env={},
                cwd="/",
                user=user,
                group=user,
                extra_groups=[] if user is not None else None,
            )
        theirs.close()
        self.backlog: list[tuple[dict[str, Any], list[int]]] = []
        self.count = 0
        self.capabilities: dict[str, Any] = {}
        if hello:
            self.send(
                {
                    "op": "hello",
                    "version": 1,
                    "msgpack_dir": msgpack_dir,
                    "scratch_root": self.scratch_root,
                    "simulate": list(simulate),
                }
            )
            try:
                self.capabilities = self.wait("hello")["capabilities"]
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the control socket and wait for the launcher to clean up and exit."""
        self.sock.close()
        for _, fds in self.backlog:
            for fd in fds:
                os.close(fd)
        self.backlog = []
        try:
            _, err = self.process.communicate(timeout=10)
        finally:
            self.process.kill()
            shutil.rmtree(self.scratch_root, ignore_errors=True)
            remove_groups()
        text = err.decode("utf-8", "replace")
        assert not text, text

    def send(self, message: dict[str, Any], fds: list[int] | None = None) -> None:
        socket.send_fds(self.sock, [json.dumps(message).encode()], fds or [])

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        data, fds, _, _ = socket.recv_fds(self.sock, 70_000, 16)
        if not data:
            raise EOFError(self.process.stderr.read().decode() if self.process.stderr else "")
        return json.loads(data), fds

    def wait(self, op: str, spawn_id: str | None = None) -> dict[str, Any]:
        """Wait for one message; keep the others. Closes descriptors that come with it."""
        message, fds = self.wait_fds((op,), spawn_id)
        for fd in fds:
            os.close(fd)
        return message

    def wait_fds(
        self, ops: tuple[str, ...], spawn_id: str | None = None
    ) -> tuple[dict[str, Any], list[int]]:
        def wanted(message: dict[str, Any]) -> bool:
            return message["op"] in ops and (spawn_id is None or message.get("id") == spawn_id)

        for index, (message, fds) in enumerate(self.backlog):
            if wanted(message):
                del self.backlog[index]
                return message, fds
        while True:
            message, fds = self.receive()
            if wanted(message):
                return message, fds
            if message["op"] == "error":
                raise RuntimeError(message["message"])
            self.backlog.append((message, fds))

    def spawn(
        self,
        argv: list[str],
        *,
        fds: dict[int, int] | None = None,
        kind: str = "exec",
        env: dict[str, str] | None = None,
        cwd: str = "/usr",
        scratch: bool = True,
        wait: bool = True,
        **changes: Any,
    ) -> dict[str, Any]:
        """Ask for a spawn; return ``spawned`` (with ``pidfd`` closed) or raise ``Refused``."""
        self.count += 1
        spawn_id = f"s{self.count}"
        fds = fds or {}
        self.send(
            {
                "op": "spawn",
                "id": spawn_id,
                "kind": kind,
                "argv": argv,
                "env": {"PATH": "/usr/bin:/bin"} if env is None else env,
                "cwd": cwd,
                "fds": list(fds),
                "scratch": spawn_id if scratch else None,
                "plan": plan(**changes),
            },
            list(fds.values()),
        )
        if not wait:
            return {"id": spawn_id}
        message, got = self.wait_fds(("spawned", "spawn_failed"), spawn_id)
        for fd in got:
            os.close(fd)
        if message["op"] == "spawn_failed":
            raise Refused(message)
        return message

    def run(self, argv: list[str], **options: Any) -> Ended:
        """Spawn, wait for the end, return output and outcome."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            fds = {1: out.fileno(), 2: err.fileno(), **(options.pop("fds", None) or {})}
            spawned = self.spawn(argv, fds=fds, **options)
            exited = self.wait("exited", spawned["id"])
            out.seek(0)
            err.seek(0)
            return Ended(
                spawned,
                exited,
                out.read().decode("utf-8", "replace"),
                err.read().decode("utf-8", "replace"),
            )

    def python(self, code: str, **options: Any) -> Ended:
        """Run Python code in the system's interpreter inside the sandbox."""
        return self.run(["/usr/bin/python3", "-I", "-S", "-c", code], **options)
