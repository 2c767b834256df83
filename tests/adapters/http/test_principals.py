"""Keys, and what holders of different ones do not share."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import raw_exec
from raw_exec.adapters.http import KeyFile, KeyRing
from raw_exec.errors import ConfigError
from toolbox import write_config, write_tool

from .conftest import started

COUNTER = """
import os

calls = []


def handler(args, context):
    calls.append(1)
    text = f"{len(calls)} {os.readlink('/proc/self')}"
    return {"content": [{"type": "text", "text": text}]}
"""


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


async def test_nothing_is_shared_between_the_holders_of_two_keys(
    serve, write, keys, tmp_path
) -> None:
    """Security: calls, sessions, workers and cached state belong to one principal."""
    write("wait", "panel")
    write_tool(tmp_path, "counter", COUNTER, language="python")
    names = ["wait", "panel", "counter"]
    config = raw_exec.load_config(write_config(tmp_path, names, limits={"grace_ms": 50}))
    (_, anna), (_, anna2), (_, ben) = keys.add("anna"), keys.add("anna"), keys.add("ben")
    async with (
        serve(config, keys=keys) as served,
        served.connect(anna) as one,
        served.connect(anna2) as again,
        served.connect(ben) as two,
    ):
        text = [
            (await c.call("counter", {})).json["content"][0]["text"] for c in (one, again, two, one)
        ]
        counts = [part.split()[0] for part in text]
        assert counts == ["1", "2", "1", "3"]  # module state is of one principal

        await one.call("wait", {"name": "a"}, call_id="shared", **{"async": True})
        await started(served.cwd, "a")
        for method in ("GET", "DELETE"):
            other = await two.ask(method, "/v1/calls/shared")
            assert other.error[:2] == (404, "call_unknown")
        for path, body in (
            ("events", None),
            ("answers", {"request_id": "x", "cancel": True}),
            ("approval", {"approval_id": "x", "allow": True}),
        ):
            method = "GET" if body is None else "POST"
            other = await two.ask(method, f"/v1/calls/shared/{path}", body)
            assert other.error[:2] == (404, "call_unknown")
        assert (await again.ask("GET", "/v1/calls/shared")).json["state"] == "running"

        await one.ask("POST", "/v1/sessions", {"session": "s"})
        other = await two.call("panel", {"steps": 1}, session="s")
        assert other.error == (404, "session_unknown", "/session")
        assert (await two.ask("GET", "/v1/sessions/s")).status == 404
        assert (await two.ask("DELETE", "/v1/sessions/s")).status == 404
        # The same names are free for the other holder.
        assert (await two.ask("POST", "/v1/sessions", {"session": "s"})).status == 201
        mine = await two.call("counter", {}, call_id="shared")
        assert mine.status == 200
        assert (await again.call("panel", {"steps": 1}, session="s")).status == 200
        assert len((await one.ask("GET", "/v1/sessions/s")).json["panels"]) == 1
        assert (await two.ask("GET", "/v1/sessions/s")).json["panels"] == []
        assert (await one.ask("DELETE", "/v1/calls/shared")).json["state"] == "done"


async def test_sessions_of_two_holders_are_two_in_one_history(serve, write, keys, tmp_path) -> None:
    """Security: resuming a session by its name never takes up somebody else's."""
    (_, anna), (_, ben) = keys.add("anna"), keys.add("ben")
    history = str(tmp_path / "history.db")
    config = write("panel")
    async with (
        serve(config, keys=keys, history=history) as served,
        served.connect(anna) as one,
    ):
        await one.ask("POST", "/v1/sessions", {"session": "s"})
        await one.call("panel", {"steps": 2}, session="s")
    async with (
        serve(config, keys=keys, history=history) as served,
        served.connect(anna) as one,
        served.connect(ben) as two,
    ):
        resume = {"session": "s", "resume": True}
        fresh = await one.ask("POST", "/v1/sessions", {"session": "s"})
        assert fresh.error == (409, "session_exists", "/session")
        assert (await one.ask("POST", "/v1/sessions", resume)).status == 201
        assert (await two.ask("POST", "/v1/sessions", resume)).status == 201
        (panel,) = (await one.ask("GET", "/v1/sessions/s")).json["panels"]
        assert panel["document"]["progress"] == {"done": 2, "total": 2}
        assert (await two.ask("GET", "/v1/sessions/s")).json["panels"] == []


async def test_requests_without_a_good_key_learn_and_run_nothing(serve, write, keys) -> None:
    """Bearer keys; wrong key, no key, two keys."""
    _, token = keys.add("anna")
    async with serve(write("echo"), keys=keys) as served:
        async with served.connect("rxs_wrong") as client:
            for path in ("/v1/tools", "/metrics", "/v1/calls/x", "/v1/nothing"):
                answer = await client.ask("GET", path)
                assert answer.error[:2] == (401, "unauthenticated")
                assert answer.headers["www-authenticate"] == "Bearer"
            assert (await client.call("echo", {"text": "x"})).status == 401
            for path in ("/healthz", "/readyz", "/openapi.json"):
                assert (await client.ask("GET", path)).status == 200
        async with served.connect() as client:
            for header in ("", "Basic " + token, "Bearer", token):
                answer = await client.ask("GET", "/v1/tools", None, {"Authorization": header})
                assert answer.status == 401
            good = {"Authorization": f"bearer {token}"}
            assert (await client.ask("GET", "/v1/tools", None, good)).status == 200
            told = (await client.ask("GET", "/metrics", None, good)).raw.decode()
            assert 'raw_requests_refused_total{code="unauthenticated"} 9.0' in told


async def test_foreign_hosts_and_origins_are_refused(serve, write) -> None:
    """A page that rebinds its name, and a page that just asks."""
    origins = ("https://app.example",)
    async with (
        serve(write("echo"), origins=origins, hosts=("raw.example",)) as served,
        served.connect() as client,
    ):
        body = {"name": "echo", "arguments": {"text": "x"}}
        ours = f"http://127.0.0.1:{served.port}"
        for headers, status in (
            ({"Host": f"evil.example:{served.port}"}, 421),
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Origin": f"{ours}.evil.example"}, 403),
            ({"Origin": ours}, 200),
            ({"Origin": "https://app.example"}, 200),
            ({"Host": f"localhost:{served.port}"}, 200),
            ({"Host": "raw.example"}, 200),
        ):
            answer = await client.ask("POST", "/v1/call", body, headers)
            assert answer.status == status, headers
        told = (await client.ask("GET", "/metrics")).raw.decode()
        assert 'raw_requests_refused_total{code="foreign_host"} 1.0' in told
        assert 'raw_requests_refused_total{code="foreign_origin"} 3.0' in told


async def test_a_changed_file_of_keys_counts_at_once(serve, write, keys) -> None:
    """Security: a removed key is refused; an unusable file lets nobody in, and says so."""
    (first, anna), (_, ben) = keys.add("anna"), keys.add("ben")
    async with serve(write("echo"), keys=keys) as served, served.connect() as client:

        async def status(token: str) -> int:
            header = {"Authorization": f"Bearer {token}"}
            return (await client.ask("GET", "/v1/tools", None, header)).status

        assert [await status(anna), await status(ben)] == [200, 200]
        keys.remove(first.id)
        assert [await status(anna), await status(ben)] == [401, 200]
        os.chmod(keys.path, 0o644)
        assert await status(ben) == 401
        ready = await client.ask("GET", "/readyz")
        assert ready.status == 503
        assert "others may read" in ready.json["problems"][0]
        os.chmod(keys.path, 0o600)
        assert await status(ben) == 200
        _, carl = keys.add("carl")
        assert await status(carl) == 200
        assert (await client.ask("GET", "/readyz")).json == {"ready": True, "problems": []}


async def test_a_key_can_have_a_directory_of_its_own(serve, write, keys, tmp_path) -> None:
    """Our choice: holders that must not see each other's files work in different ones."""
    own = tmp_path / "own"
    own.mkdir()
    _, anna = keys.add("anna", cwd=str(own))
    _, ben = keys.add("ben")
    async with (
        serve(write("who"), keys=keys) as served,
        served.connect(anna) as one,
        served.connect(ben) as two,
    ):
        where = [
            (await client.call("who", {})).json["content"][0]["text"].split()[2]
            for client in (one, two)
        ]
        assert where == [str(own), str(served.cwd)]
        for client, cwd in ((one, served.cwd), (two, own)):
            answer = await client.call("who", {}, cwd=str(cwd))
            assert answer.error[:2] == (403, "cwd_not_allowed")


def test_a_directory_of_its_own_outlives_the_keys_of_a_holder(keys, tmp_path) -> None:
    """Security: calls of a removed key that still wait do not get the service's directory."""
    own = tmp_path / "own"
    own.mkdir()
    first, _ = keys.add("anna", cwd=str(own))
    _, ben = keys.add("ben")
    ring = KeyRing(keys)
    keys.path.chmod(0o644)
    assert (ring.whose(ben), ring.directory_of("anna")) == (None, str(own))
    keys.path.chmod(0o600)
    keys.remove(first.id)
    assert (ring.whose(ben), ring.directory_of("anna")) == ("ben", str(own))
    keys.add("anna")
    assert (ring.whose(ben), ring.directory_of("anna")) == ("ben", None)


def _entry(**changes: Any) -> dict[str, Any]:
    entry = {
        "id": "0" * 12,
        "principal": "anna",
        "sha256": "1" * 64,
        "created": "2026-01-01T00:00:00+00:00",
    }
    return entry | changes


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("{", ""),
        ({"keys": {}}, "/keys"),
        ({"keys": [], "more": 1}, "/more"),
        ({"keys": [_entry(sha256="secret")]}, "/keys/0/sha256"),
        ({"keys": [_entry(principal="../x")]}, "/keys/0/principal"),
        ({"keys": [_entry(token="x")]}, "/keys/0/token"),
        ({"keys": [_entry(cwd="here")]}, "/keys/0/cwd"),
        ({"keys": [_entry(), _entry()]}, "/keys/1"),
        ({"keys": [_entry(), _entry(id="2" * 12, sha256="2" * 64, cwd="/x")]}, "/keys/1"),
    ],
)
def test_a_wrong_file_of_keys_is_refused_with_the_place(keys, document, place) -> None:
    """Strict, located."""
    keys.path.write_text(document if isinstance(document, str) else json.dumps(document))
    keys.path.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        keys.load()
    assert caught.value.code == "keys_invalid"
    assert caught.value.problems[0].pointer == place
    assert caught.value.problems[0].line is not None


def test_a_file_of_keys_must_be_private_and_have_keys(keys, tmp_path) -> None:
    """Mode 0600 required, digests only."""
    made, token = keys.add("anna")
    assert keys.path.stat().st_mode & 0o777 == 0o600
    assert token not in keys.path.read_text()
    assert made.sha256 in keys.path.read_text()
    for mode in (0o640, 0o604, 0o622):
        keys.path.chmod(mode)
        with pytest.raises(ConfigError, match="others may read or change it"):
            keys.load()
    keys.path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(keys.path)
    with pytest.raises(ConfigError) as caught:
        KeyFile(link).load()
    assert caught.value.code == "keys_unreadable"
    keys.remove("anna")
    with pytest.raises(ConfigError, match="has no keys"):
        KeyRing(keys)
    with pytest.raises(ConfigError) as caught:
        keys.remove("anna")
    assert caught.value.code == "key_unknown"
    with pytest.raises(ConfigError) as caught:
        keys.add("No Name")
    assert caught.value.code == "principal_invalid"
