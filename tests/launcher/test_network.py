"""Network: no socket reaches anything unless granted, in each tier."""

from __future__ import annotations

import os
import socket

import pytest

from tests.launcher.box import Box
from tests.launcher.client import Client, Refused

HOST_PROBE = (
    "import socket\n"
    "def sock(*a):\n"
    "    def f():\n"
    "        socket.socket(*a).close()\n"
    "    return attempt(f)\n"
)


def test_no_family_of_sockets_can_be_created_without_a_network_grant(box: Box) -> None:
    """N01, N02, N05, N08: refused by family, quickly; pairs for one's own use work."""
    result = box.value(
        HOST_PROBE + "families={'INET':2,'INET6':10,'UNIX':1,'NETLINK':16,'PACKET':17,'VSOCK':40,"
        "'ALG':38,'BLUETOOTH':31,'XDP':44}\n"
        "r={n: [sock(f, t) for t in (1, 2, 3)] for n, f in families.items()}\n"
        "a,b=socket.socketpair(); a.send(b'x'); r['pair']=b.recv(1).decode()\n"
        "print(json.dumps(r))"
    )
    assert result.pop("pair") == "x"
    assert {code for codes in result.values() for code in codes} == {"EAFNOSUPPORT"}


def test_name_lookup_fails_at_once_without_a_network_grant(box: Box) -> None:
    """N04: no resolver socket exists."""
    result = box.value(
        "import socket\n"
        "try:\n    socket.getaddrinfo('example.invalid', 80); r='ok'\n"
        "except OSError as e: r=type(e).__name__\nprint(json.dumps(r))"
    )
    assert result == "gaierror"


def test_datagram_pair_cannot_be_aimed_at_a_host_socket(box: Box) -> None:
    """N06, our find: sendto on a datagram socketpair reaches pathname sockets."""
    outside = str(box.base / "hidden" / "listener")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as hidden:
        hidden.bind(outside)
        os.chmod(outside, 0o777)  # noqa: S103
        hidden.setblocking(False)
        result = box.value(
            "import socket\n"
            "def f():\n"
            "    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            f"    a.sendto(b'leak', {outside!r})\n"
            "print(json.dumps(attempt(f)))"
        )
        assert result == "EAFNOSUPPORT"
        with pytest.raises(BlockingIOError):
            hidden.recv(10)


def test_datagram_pair_cannot_be_aimed_at_a_socket_in_a_granted_folder(box: Box) -> None:
    """A grant to read and write files is none to talk to the host's programs."""
    path = str(box.work / "listener")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        os.chmod(path, 0o777)  # noqa: S103
        listener.setblocking(False)
        result = box.value(
            "import socket\n"
            "def f():\n"
            "    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            f"    a.sendto(b'leak', {path!r})\n"
            "def g():\n"
            "    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
            "    a.send(b'x')\n"
            "print(json.dumps([attempt(f), attempt(g)]))"
        )
        assert result == ["EAFNOSUPPORT", "ok"]
        with pytest.raises(BlockingIOError):
            listener.recv(10)


def test_abstract_and_pathname_sockets_of_the_host_are_out_of_reach_of_shells(box: Box) -> None:
    """N06, N07: even with processes granted, nothing of the host answers."""
    outside = str(box.base / "hidden" / "stream")
    with socket.socket(socket.AF_UNIX) as pathname, socket.socket(socket.AF_UNIX) as abstract:
        pathname.bind(outside)
        os.chmod(outside, 0o777)  # noqa: S103
        os.chmod(os.path.dirname(outside), 0o755)  # noqa: S103
        pathname.listen()
        abstract.bind(f"\0raw-test-{os.getpid()}")
        abstract.listen()
        result = box.value(
            "import socket\n"
            "def c(p):\n    socket.socket(socket.AF_UNIX).connect(p)\n"
            f"print(json.dumps([attempt(c, {outside!r}),"
            f" attempt(c, '\\0raw-test-{os.getpid()}')]))",
            processes=True,
        )
    assert "ok" not in result


def test_private_loopback_works_inside_and_does_not_reach_the_host(box: Box) -> None:
    """A loopback grant is a network of its own; without namespaces it is refused."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            "import socket\n"
            "s=socket.create_server(('127.0.0.1',0)); c=socket.create_connection(s.getsockname())\n"
            f"def host(): socket.create_connection(('127.0.0.1',{port}), timeout=2)\n"
            "print(json.dumps(attempt(host)))"
        )
        if not box.private:
            with pytest.raises(Refused) as caught:
                box.value(code, network="loopback")
            assert caught.value.step == "network"
            return
        assert box.value(code, network="loopback") == "ECONNREFUSED"


def test_host_network_grant_reaches_the_host_and_still_no_odd_family(box: Box) -> None:
    """The positive side: a granted network works."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        result = box.value(
            HOST_PROBE + f"socket.create_connection(('127.0.0.1',{port}), timeout=5).close()\n"
            "print(json.dumps([sock(17,3), sock(38,5), sock(16,3,0), sock(16,3,6),"
            " bool(socket.if_nameindex())]))",
            network="host",
        )
    assert result == ["EAFNOSUPPORT", "EAFNOSUPPORT", "ok", "EAFNOSUPPORT", True]


def test_inherited_descriptors_are_exactly_the_listed_ones(box: Box) -> None:
    """F10, N12: the set is the documented list and holds no socket."""
    result = box.value(
        "import stat\n"
        "fds=[]\n"
        "for n in range(1024):\n"
        "    try: fds.append([n, stat.S_IFMT(os.fstat(n).st_mode)])\n"
        "    except OSError: pass\n"
        "print(json.dumps(fds))",
        fds=None,
    )
    assert [number for number, _ in result] == [0, 1, 2]
    assert 0o140000 not in [kind for _, kind in result]


def test_network_of_an_unconfined_spawn_is_the_hosts(open_client: object) -> None:
    """``sandbox: false`` is honest in its report."""
    client: Client = open_client(None, ())  # type: ignore[operator]
    ended = client.run(["/bin/true"], sandbox=False)
    assert ended.enforced["tier"] == "none"
    assert ended.enforced["network"] == "host"
