"""What a stranger at the other end of the wire can not do."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from raw_exec.contracts.client import RemoteRegistry, Transport, check_url
from raw_exec.contracts.errors import Invalid, RegistryError, StoreError


class Peer:
    """A server that answers with what a test puts into ``answers``, and notes what it got."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                peer.requests.append((self.path, dict(self.headers), json.loads(body)))
                status, headers, data = peer.answers.pop(0)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST  # noqa: N815 - the server looks for this name

            def log_message(self, *_args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, value: Any, status: int = 200, **headers: str) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self.answers.append((status, named, data))

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def peer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Peer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = Peer()
    yield made
    made.close()


def test_a_request_says_who_asks_about_which_workspace(peer) -> None:
    """Contract: the registry wire interface, request form."""
    peer.answer({"data": {"tools": {"data": [], "total": 0}}})
    RemoteRegistry(Transport(peer.url, "rxu_secret")).list_tools("acme", take=3)
    ((path, headers, body),) = peer.requests
    assert path == "/graphql"
    assert headers["Authorization"] == "Bearer rxu_secret"
    assert (headers["X-Client"], headers["X-Workspace"]) == ("cli", "acme")
    assert body["variables"] == {"pagination": {"skip": 0, "take": 3}, "search": None}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_so_the_key_goes_nowhere_else(peer, status) -> None:
    """Security: another server must not be handed the key."""
    peer.answer({}, status, Location=f"{peer.url}/elsewhere")
    with pytest.raises(StoreError) as caught:
        RemoteRegistry(Transport(peer.url, "rxu_secret")).list_tools("acme")
    assert caught.value.code == "bad_answer"
    assert [path for path, _, _ in peer.requests] == ["/graphql"]


def test_the_key_is_in_no_message_and_no_representation(peer) -> None:
    """Security: messages end up in logs."""
    transport = Transport(peer.url, "rxu_secret")
    peer.answer(b"no json, rxu_secret")
    with pytest.raises(StoreError) as caught:
        RemoteRegistry(transport).me()
    assert "rxu_secret" not in repr(transport) + str(caught.value) + repr(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b'{"data": null}',
        b'{"data": {}}',
        b'{"data": {"tools": null}}',
        b'{"data": {"tools": {"data": [{}], "total": 1}}}',
        b'{"data": {"tools": {"data": [], "total": "1"}}}',
        b'{"data": {"tools": {"data": [], "total": true}}}',
        b'{"data": {"tools": {"data": [], "total": 0}}, "data": 1}',
        b'{"data": {"tools": ' + b"[" * 500 + b"]" * 500 + b"}}",
    ],
    ids=range(12),
)
def test_an_answer_of_the_wrong_shape_is_told_as_one(peer, answer) -> None:
    """A stranger's data is checked, field by field."""
    peer.answer(answer)
    with pytest.raises(StoreError) as caught:
        RemoteRegistry(Transport(peer.url)).list_tools("acme")
    assert caught.value.code == "bad_answer"


@pytest.mark.parametrize(
    "errors",
    [
        [{"message": 5, "extensions": {"code": 7, "rule": [], "problems": [1, {"pointer": 2}]}}],
        [{"message": "m", "extensions": None}],
        [{}],
    ],
    ids=range(3),
)
def test_an_error_of_the_wrong_shape_is_still_an_error(peer, errors) -> None:
    """Whatever it says, the operation did not succeed."""
    peer.answer({"data": {"tools": {"data": [], "total": 0}}, "errors": errors})
    with pytest.raises(RegistryError):
        RemoteRegistry(Transport(peer.url)).list_tools("acme")


def test_a_request_that_is_refused_for_now_is_sent_again_after_the_time_it_says(peer) -> None:
    """A rate limit is waited for; the change it was about has not happened."""
    slept: list[float] = []
    for status, wait in ((429, "2"), (503, "1")):
        peer.answer({"errors": []}, status, Retry_After=wait)
    peer.answer({"data": {"tools": {"data": [], "total": 0}}})
    transport = Transport(peer.url, sleep=slept.append)
    assert RemoteRegistry(transport).list_tools("acme").total == 0
    assert slept == [2.0, 1.0]


def test_a_server_that_asks_to_wait_for_long_is_not_waited_for(peer) -> None:
    """The user decides whether to wait for an hour."""
    slept: list[float] = []
    message = {"message": "too many requests", "extensions": {"code": "UNAVAILABLE"}}
    peer.answer({"data": None, "errors": [message]}, 429, Retry_After="3600")
    with pytest.raises(StoreError, match="too many requests"):
        RemoteRegistry(Transport(peer.url, sleep=slept.append)).list_tools("acme")
    assert slept == []


def test_nobody_at_the_address_is_told_with_what_to_look_at(peer) -> None:
    """A change whose answer was lost may have been made."""
    peer.close()
    with pytest.raises(StoreError) as caught:
        RemoteRegistry(Transport(peer.url)).create_tool("acme", "x")
    assert caught.value.code == "registry_unreachable"
    assert "look whether a change was made" in caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "",
        "registry.test",
        "ftp://x",
        "file:///etc/passwd",
        "http://",
        "http://a b",
        "http://x/?q=1",
        "http://x/#f",
        "http://x:port",
        "http://u:p@x",
        "http://u@x",
        "http://é.test",
        "http://x\n",
    ],
)
def test_an_address_that_is_no_registry_is_refused_before_anything_is_sent(url) -> None:
    """Contract: http and https, without credentials in them."""
    with pytest.raises(Invalid) as caught:
        check_url(url)
    assert caught.value.code == "registry_url"
    assert ":p@" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["http://x:1", "http://x:1/", "http://x:1/graphql", "http://x:1/graphql/"]
)
def test_an_address_has_one_spelling(url) -> None:
    """Keys are looked up by it."""
    assert check_url(url) == "http://x:1"


@pytest.mark.parametrize("token", ["", " ", "a\nb", "é"])
def test_a_key_that_no_header_can_carry_is_refused(token) -> None:
    """Security: a line break would add a header."""
    with pytest.raises(Invalid):
        Transport("http://x", token)
