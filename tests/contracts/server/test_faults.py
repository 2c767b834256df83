"""What goes wrong between a client, its key and the database, each fault on its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import event

from raw_exec.contracts import service as registry
from raw_exec.contracts.store import open_store

CREATE = "mutation($n: String!) { createTool(name: $n) { name } }"
PUBLISH = 'mutation { publishToolVersion(toolName: "t", version: "1.0.0") { version status } }'


class Interfering:
    """A store that lets something happen after each operation."""

    def __init__(self, store: Any, after: Any) -> None:
        self._store = store
        self._after = after

    def read(self, work: Any) -> Any:
        return self._then(self._store.read(work))

    def write(self, work: Any) -> Any:
        return self._then(self._store.write(work))

    def _then(self, value: Any) -> Any:
        self._after(value)
        return value


async def test_a_stolen_key_that_is_revoked_mid_request_stops_at_its_next_operation(
    serve, store, people
) -> None:
    """The answer is that of a bad key, whatever was done before."""
    made = people.ask(people.operator, registry.create_key, email="member@acme.test")

    def revoke_after_the_first(value: Any) -> None:
        if getattr(value, "name", "") == "first":
            people.ask(people.operator, registry.revoke_key, made.key.id)

    asker = serve(Interfering(store, revoke_after_the_first)).of(token=made.token, workspace="acme")
    both = (
        'mutation { a: createTool(name: "first") { name } b: createTool(name: "second") { name } }'
    )
    answer = await asker.ask(both)
    assert answer.rule == (401, "UNAUTHENTICATED", "key_revoked")
    assert answer.error["path"] == ["b"]
    found = people.ask(people.member, registry.list_tools, "acme")
    assert [tool.name for tool in found.data] == ["first"]


async def test_a_key_revoked_mid_request_stops_nested_reading_too(serve, store, people) -> None:
    """Every resolver is an operation of its own."""
    people.publish(people.member, "acme", "t", "1.0.0")
    made = people.ask(people.operator, registry.create_key, email="member@acme.test")

    def revoke_after_the_tool(value: Any) -> None:
        if getattr(value, "name", "") == "t":
            people.ask(people.operator, registry.revoke_key, made.key.id)

    asker = serve(Interfering(store, revoke_after_the_tool)).of(token=made.token, workspace="acme")
    answer = await asker.ask(
        '{ tool(toolName: "t") { name version(constraint: "*") { version } } }'
    )
    assert answer.rule == (401, "UNAUTHENTICATED", "key_revoked")
    assert b"1.0.0" not in answer.body


@pytest.mark.parametrize(
    "name",
    [
        "fеtch",  # CYRILLIC SMALL LETTER IE
        "ﬁle",
        "ｆetch",
        "fetch\u200b",
        "fetch\n",
        "fetch\u0000",
        "Fetch",
        "a.b",
        "a" * 65,
        "",
        "' OR '1'='1",
        'x"; DROP TABLE tools; --',
        "%",
        "../etc",
        "\U0001f600",
    ],
)
async def test_names_that_are_not_plain_are_refused_and_create_nothing(
    member, people, name
) -> None:
    """Unicode confusables and SQL metacharacters in names."""
    for query in (CREATE, "mutation($n: String!) { createPrompt(name: $n) { name } }"):
        answer = await member.ask(query, n=name)
        if name in ("a.b", "a" * 65) and "Prompt" in query:
            assert answer.data  # prompts may have dots and be longer
            continue
        assert answer.rule[:2] == (200, "BAD_USER_INPUT")
        assert answer.error["extensions"]["rule"] in ("tool_name", "prompt_name")
        assert answer.error["message"].isascii()  # a look-alike is shown for what it is
    assert people.ask(people.member, registry.list_tools, "acme").total == 0


@pytest.mark.parametrize("text", ["%", "_", "'", '"', "\\", "'; DROP TABLE tools; --", "a%00"])
async def test_metacharacters_are_searched_for_as_they_are(member, people, text) -> None:
    """SQL metacharacters in values."""
    people.ask(people.member, registry.create_tool, "acme", "plain")
    people.ask(people.member, registry.create_tool, "acme", "other", description=f"has {text} in")
    query = (
        "query($s: String) { tools(pagination: {skip: 0, take: 9}, search: $s) { data { name } } }"
    )
    answer = await member.ask(query, s=text)
    assert answer.data == {"tools": {"data": [{"name": "other"}]}}
    gone = await member.ask("query($t: ID!) { tool(toolName: $t) { name } }", t=text)
    assert gone.rule == (200, "NOT_FOUND", "tool_unknown")


@pytest.mark.parametrize(
    "constraint",
    ["latest", "", " ", ">=", "^a", "bogus!", "1.2.3.4", "v", "1 - ", "||", "^1 ||", "١.٢.٣",
     "Draft", "9" * 300, "1.x.y", "' OR 1=1", "\ud83d\ude00"],
)  # fmt: skip
async def test_malformed_constraints_are_told_as_such(member, people, constraint) -> None:
    """Registry wire interface §5.3: constraints are sent unchecked, the server has to look."""
    people.publish(people.member, "acme", "t", "1.0.0")
    people.ask(people.member, registry.create_prompt, "acme", "p")
    queries = (
        'query($c: String!) { tool(toolName: "t") { version(constraint: $c) { version } } }',
        'query($c: String!) { prompt(promptName: "p") { version(constraint: $c) { version } } }',
        'mutation($c: ID!) { deleteToolVersion(toolName: "t", version: $c) }',
        'mutation($c: String!) { linkTool(promptName: "p", version: "draft", args: {tool: '
        '{workspace: "acme", name: "t", version: $c}}) { version } }',
    )
    for query in queries:
        answer = await member.ask(query, c=constraint)
        assert answer.rule[:2] == (200, "BAD_USER_INPUT"), (query, answer.body)
        assert answer.rule[2] in ("bad_constraint", "bad_id")
    fine = await member.ask(queries[0], c="=1.0.0")
    assert fine.data == {"tool": {"version": {"version": "1.0.0"}}}


async def test_ids_that_no_database_can_be_asked_about_are_refused(member) -> None:
    """NUL and endless texts, in every kind of place."""
    for text in ("a\u0000b", "x" * 1_000):
        for query in (
            "query($t: ID!) { tool(toolName: $t) { name } }",
            "query($t: ID!) { prompt(promptName: $t) { name } }",
            "mutation($t: ID!) { revokeUserApiKey(id: $t) }",
            'mutation($t: ID!) { publishPromptVersion(promptName: $t, version: "1.0.0") { id } }',
        ):
            answer = await member.ask(query, t=text)
            assert answer.rule == (200, "BAD_USER_INPUT", "bad_id")


async def test_a_locked_database_is_told_and_nothing_is_changed(
    serve, store, people, key_of, tmp_path, clock
) -> None:
    """Reading goes on; writing is told to try again."""
    token = key_of("member@acme.test")
    path = tmp_path / "registry.db"
    with open_store(path, now=clock, busy_seconds=0.05) as impatient:
        asker = serve(impatient).of(token=token, workspace="acme")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            answer = await asker.ask(CREATE, n="t")
            assert answer.rule == (200, "UNAVAILABLE", "database_locked")
            assert "again" in answer.error["message"]
            assert (await asker.ask("{ me { email } }")).data["me"]["email"] == "member@acme.test"
            login = await asker.post("/oauth/device/code", {"deviceLabel": "x"})
            assert (login.status, login.json["error"]) == (503, "temporarily_unavailable")
        finally:
            other.close()
        assert (await asker.ask(CREATE, n="t")).data == {"createTool": {"name": "t"}}


async def test_a_full_disk_is_told_and_nothing_is_half_written(
    serve, store, people, key_of
) -> None:
    """SQLite says full for a disk and for a bound on the file alike."""
    asker = serve(store).of(token=key_of("member@acme.test"), workspace="acme")
    people.ask(people.member, registry.create_tool, "acme", "t")
    engine = store._engine

    def bound(connection: sqlite3.Connection, _record: object) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")

    engine.dispose()
    event.listen(engine, "connect", bound)
    update = (
        'mutation($r: String) { updateToolVersion(toolName: "t", version: "draft", '
        'input: {modelDescription: "new", readme: $r}) { version } }'
    )
    answer = await asker.ask(update, r="x" * 500_000)
    assert answer.rule == (200, "UNAVAILABLE", "database_full")
    event.remove(engine, "connect", bound)
    engine.dispose()
    seen = people.ask(people.member, registry.get_tool_version, "acme", "t", "draft")
    assert (seen.model_description, seen.readme, seen.revision) == ("", "", 1)
    assert (await asker.ask(update, r="x" * 500_000)).data["updateToolVersion"]


SERVER = """
    import os, signal, sys
    from raw_exec.contracts.server import make_app
    from raw_exec.contracts.store import open_store
    from raw_exec.serving import open_listener, run_server, url_of

    class Dying:
        def __init__(self, store):
            self.store, self.read = store, store.read

        def write(self, work):
            value = self.store.write(work)
            if getattr(value, "version", None) == "1.0.0" and sys.argv[2] == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            return value

    with open_store(sys.argv[1]) as store, open_listener("127.0.0.1", 0) as listener:
        url = url_of(listener)
        app = make_app(Dying(store), public_url=url)
        run_server(app, listener, on_ready=lambda: print(url, flush=True))
"""


@contextmanager
def _running(database: Path, mode: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVER), str(database), mode],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)
        assert process.stdout is not None
        process.stdout.close()


def _ask(url: str, token: str, query: str) -> Any:
    connection = http.client.HTTPConnection(str(urlsplit(url).netloc), timeout=30)
    try:
        connection.request(
            "POST",
            "/graphql",
            json.dumps({"query": query}),
            {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {token}",
                "X-Workspace": "acme",
            },
        )
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def test_a_retry_after_the_server_was_killed_between_publication_and_answer_is_told_so(
    store, people, key_of, tmp_path
) -> None:
    """The publication stands, and publishing it again is a conflict that says so."""
    token = key_of("member@acme.test")
    people.ask(people.member, registry.create_tool, "acme", "t")
    store.close()
    database = tmp_path / "registry.db"
    with _running(database, "die") as (process, url):
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            _ask(url, token, PUBLISH)
        assert process.wait(30) == -signal.SIGKILL
    with _running(database, "live") as (process, url):
        answer = _ask(url, token, PUBLISH)
        (error,) = answer["errors"]
        assert error["extensions"]["rule"] == "already_published"
        seen = _ask(url, token, '{ tool(toolName: "t") { versions { data { version status } } } }')
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(30) == 0
    versions = seen["data"]["tool"]["versions"]["data"]
    assert versions == [{"version": "1.0.0", "status": "PUBLISHED"}]
