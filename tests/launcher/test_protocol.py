"""The launcher protocol: requests that are refused, fields that are answered, order of events."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from requires import require
from tests.launcher.client import Client, Refused, plan

Open = Callable[..., Client]


@pytest.fixture
def client(open_client: Open) -> Client:
    """A launcher that acts as a host with the baseline tier only."""
    found = open_client(None, ("no-userns", "no-cgroup"))
    require("landlock", found.capabilities["landlock"]["works"], "no Landlock")
    return found


def refused(client: Client, **changes: Any) -> Refused:
    """Spawn with one thing wrong; return the refusal."""
    with pytest.raises(Refused) as caught:
        client.run(["/bin/true"], **changes)
    return caught.value


@pytest.mark.parametrize(
    "changes",
    [
        {"tier": "best"},
        {"network": "allowlist"},
        {"processes": 1},
        {"sandbox": None},
        {"read": ["relative"]},
        {"write": ["/a/../etc"]},
        {"exec": "/bin/sh"},
        {"use": ["magic"]},
        {"rlimits": {"as": 1}},
        {"rlimits": {"data": -1}},
        {"memory_bytes": "1"},
        {"surprise": 1},
    ],
    ids=str,
)
def test_malformed_plan_is_refused_before_anything_is_forked(
    client: Client, changes: dict[str, Any]
) -> None:
    """Strict plans: the step is ``plan`` and there is no errno."""
    error = refused(client, **changes)
    assert (error.step, error.errno) == ("plan", 0)


def test_failed_set_up_names_step_and_errno_and_leaves_no_exit_notice(client: Client) -> None:
    """A set-up failure is never confused with a plugin's."""
    assert (refused(client, cwd="/absent").step, refused(client, cwd="/absent").errno) == ("cwd", 2)
    with pytest.raises(Refused) as caught:
        client.run(["/etc/hostname"])
    assert caught.value.step == "exec"
    assert client.backlog == []
    assert os.listdir(client.scratch_root) == []


@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({"kind": "shell"}, "request"),
        ({"argv": []}, "request"),
        ({"argv": ["true"]}, "request"),
        ({"env": {"A=B": "1"}}, "request"),
        ({"env": {"A": 1}}, "request"),
        ({"cwd": "relative"}, "request"),
        ({"fds": [3]}, "request"),
        ({"scratch": "../x"}, "request"),
        ({"scratch": ""}, "request"),
    ],
    ids=str,
)
def test_malformed_spawn_is_refused(client: Client, change: dict[str, Any], step: str) -> None:
    """Each field is checked before use."""
    message = {
        "op": "spawn",
        "id": "bad",
        "kind": "exec",
        "argv": ["/bin/true"],
        "env": {},
        "cwd": "/",
        "fds": [],
        "scratch": None,
        "plan": plan(),
        **change,
    }
    client.send(message)
    assert client.wait("spawn_failed", "bad")["step"] == step


def test_junk_is_answered_with_an_error_and_the_launcher_lives(client: Client) -> None:
    """Unknown operations and broken JSON: one answer each, no death."""
    for data in (b"{", b"[]", b'{"op":"dance"}', b'{"op":"hello","version":1}'):
        client.sock.send(data)
        message, _ = client.receive()
        assert message["op"] == "error"
    assert client.run(["/bin/echo", "alive"]).out == "alive\n"


def test_requests_before_hello_and_wrong_versions_are_errors() -> None:
    """The first message is ``hello`` of our version."""
    client = Client(hello=False)
    try:
        client.send({"op": "spawn", "id": "x"})
        assert client.receive()[0]["op"] == "error"
        client.send({"op": "hello", "version": 2, "scratch_root": client.scratch_root})
        assert "version 2" in client.receive()[0]["message"]
        hello = {
            "op": "hello",
            "version": 1,
            "msgpack_dir": None,
            "scratch_root": client.scratch_root,
        }
        client.send({**hello, "simulate": ["no-gravity"]})
        assert "no-gravity" in client.receive()[0]["message"]
        client.send(hello)
        answer = client.wait("hello")
        assert (answer["version"], answer["pid"]) == (1, client.process.pid)
    finally:
        client.close()


def test_descriptors_are_placed_at_their_targets_in_order(client: Client) -> None:
    """SCM_RIGHTS order is the order of ``fds``; overlaps between sets do no harm."""
    pipes = [os.pipe() for _ in range(4)]
    try:
        targets = [5, 1, 4, 2]
        child = client.spawn(
            [
                "/usr/bin/python3",
                "-I",
                "-S",
                "-c",
                "import os\nfor n in (5,1,4,2): os.write(n, str(n).encode())",
            ],
            fds={target: pipe[1] for target, pipe in zip(targets, pipes, strict=True)},
        )
        client.wait("exited", child["id"])
        assert [os.read(pipe[0], 9) for pipe in pipes] == [b"5", b"1", b"4", b"2"]
    finally:
        for pipe in pipes:
            os.close(pipe[0])
            os.close(pipe[1])


def test_spawned_hands_over_a_pidfd_of_the_worker(client: Client) -> None:
    """The supervisor waits on it; it is readable when the worker is dead."""
    client.send(
        {
            "op": "spawn",
            "id": "p",
            "kind": "exec",
            "argv": ["/bin/sleep", "999"],
            "env": {},
            "cwd": "/",
            "fds": [],
            "scratch": None,
            "plan": plan(),
        }
    )
    message, fds = client.wait_fds(("spawned",), "p")
    (pidfd,) = fds
    try:
        with open(f"/proc/self/fdinfo/{pidfd}") as lines:
            assert f"Pid:\t{message['pid']}\n" in lines.readlines()
        client.send({"op": "kill", "id": "p"})
        assert client.wait("exited", "p")["signal"] == 9
    finally:
        os.close(pidfd)


def test_quick_exits_are_always_spawned_then_exited_once(client: Client) -> None:
    """Race: a program that ends at once is no failed set-up. K19: no death is missed."""
    ids = [client.spawn(["/bin/true"], wait=False)["id"] for _ in range(20)]
    seen: dict[str, list[str]] = {}
    while sum(len(ops) for ops in seen.values()) < 40:
        message, fds = client.receive()
        for fd in fds:
            os.close(fd)
        seen.setdefault(message["id"], []).append(message["op"])
    assert seen == {spawn_id: ["spawned", "exited"] for spawn_id in ids}


def test_kill_of_an_unknown_spawn_is_ignored_and_clean_is_answered(client: Client) -> None:
    """Idempotent: the spawn may just have ended."""
    client.send({"op": "kill", "id": "never"})
    client.send({"op": "clean", "id": "never"})
    assert client.wait("cleaned", "never")["entries"] == 0
    client.send({"op": "usage", "id": "never"})
    assert client.wait("usage", "never")["processes"] == 0


def test_kill_right_after_spawn_ends_it_whatever_stage_it_is_in(client: Client) -> None:
    """A05: abort before the spawn has finished."""
    for _ in range(10):
        started = client.spawn(["/bin/sleep", "999"], wait=False)
        client.send({"op": "kill", "id": started["id"]})
        message, fds = client.wait_fds(("spawned", "spawn_failed"), started["id"])
        for fd in fds:
            os.close(fd)
        if message["op"] == "spawned":
            assert client.wait("exited", started["id"])["signal"] == 9
    assert os.listdir(client.scratch_root) == []


def test_supervisor_that_does_not_read_does_not_stop_the_launcher(client: Client) -> None:
    """Answers queue past what the socket holds; a death is still handled, order is kept."""
    ids = []
    for index in range(300):
        client.send({"op": "clean", "id": f"c{index}" + "x" * 2000})
        ids.append(f"c{index}" + "x" * 2000)
    child = client.spawn(["/bin/true"], wait=False)
    got = [client.wait("cleaned")["id"] for _ in ids]
    assert got == ids
    client.wait("exited", child["id"])


def test_oversized_message_is_refused_not_cut(client: Client) -> None:
    """64 KiB a packet: one byte more is an error, not half a request."""
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    client.sock.send(json.dumps({"op": "clean", "id": "x" * 66_000}).encode())
    assert client.receive()[0]["op"] == "error"


def test_workers_start_with_default_signals_and_an_empty_mask(client: Client) -> None:
    """What the launcher handles or ignores is not passed on by exec."""
    ended = client.run(["/bin/grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"])
    # Signals 32 and 33 belong to the C library; whatever started the tests may ignore them.
    theirs = 1 << 31 | 1 << 32
    masks = [int(mask, 16) & ~theirs for mask in ended.out.split()[1::2]]
    assert masks == [0, 0], ended
