"""Requests that are small to write and endless to answer, beside ones that are merely big."""

from __future__ import annotations

import json
import logging

import pytest
import trio
from graphql import GraphQLError

from raw_exec.contracts import service as registry
from raw_exec.contracts.server.limits import ServerLimits, parse_document

LIMITS = ServerLimits()


def refused_by(query: str, limits: ServerLimits = LIMITS) -> str:
    with pytest.raises(GraphQLError) as caught:
        parse_document(query, limits)
    assert caught.value.extensions["code"] == "BAD_USER_INPUT"
    return str(caught.value.extensions["rule"])


def nested(depth: int) -> str:
    return "{" + "a{" * (depth - 1) + "b" + "}" * depth


def spread(levels: int, width: int) -> str:
    """Return fragments that each use the next one ``width`` times, under other names."""
    parts = ["{ ...f0 }"]
    for level in range(levels):
        uses = " ".join(f"a{i}: a {{ ...f{level + 1} }}" for i in range(width))
        parts.append(f"fragment f{level} on T {{ {uses} }}")
    parts.append(f"fragment f{levels} on T {{ b }}")
    return " ".join(parts)


@pytest.mark.parametrize(
    ("query", "rule"),
    [
        (nested(11), "query_too_deep"),
        (nested(200), "query_too_deep"),
        (nested(3_000), "query_too_deep"),
        ("{" + "[" * 5_000, None),
        ("{ a(b: " + "[" * 4_000 + "]" * 4_000 + ") }", "query_too_deep"),
        ("{" + " ".join(f"a{i}: a" for i in range(501)) + "}", "query_too_many_aliases"),
        ("{" + " ".join(f"a{i}" for i in range(2_001)) + "}", "query_too_many_fields"),
        ("{" + " a" * 21 + "}", "query_too_repetitive"),
        ("{" + " ...f" * 21 + "} fragment f on T { a }", "query_too_repetitive"),
        ("{" + " a" * 10_001 + "}", "query_too_many_tokens"),
        (f'{{ a(b: "{"x" * 1_000_000}") }}', "query_too_long"),
        ("{ a }" + " " * 1_000_000, "query_too_long"),
        (" ".join(f"query q{i} {{ a }}" for i in range(51)), "query_too_many_definitions"),
        (spread(8, 8), "query_too_many_aliases"),
        (spread(9, 20), "query_too_many_aliases"),
        (spread(12, 1), "query_too_deep"),
        ("{ a } fragment f on T { a a a" + " a" * 20 + "}", "query_too_repetitive"),
    ],
)
def test_a_document_that_is_too_big_in_some_way_is_refused_before_it_runs(query, rule) -> None:
    """Depth, aliases, a query of 1 MB; fragments count as if written out."""
    if rule is None:
        with pytest.raises(GraphQLError):
            parse_document(query, LIMITS)
    else:
        assert refused_by(query) == rule


@pytest.mark.parametrize(
    "query",
    [
        nested(10),
        "{" + " ".join(f'p{i}: prompt(promptName: "p{i}") {{ name }}' for i in range(500)) + "}",
        "{" + " a" * 20 + "}",
        spread(3, 5),
        "{ ...f } fragment f on T { a ...f }",  # a cycle is told by validation
        "{ ...f } fragment f on T { ...g } fragment g on T { ...f }",
        "{ ...gone }",
    ],
)
def test_a_document_within_the_limits_is_read(query) -> None:
    """Pair of the test above: an installer asks for one alias per prompt."""
    parse_document(query, LIMITS)


@pytest.mark.parametrize(
    "query",
    [
        nested(3_000),
        spread(9, 20),
        "{ ...f } fragment f on Query { ...g } fragment g on Query { ...f me { id } }",
        "{ ...gone }",
        "{ __schema { types { name } } }",
        '{ __type(name: "Tool") { fields { name type { fields { name } } } } }',
        f'{{ tool(toolName: "{"x" * 1_000_000}") {{ name }} }}',
        "{ me @skip(if: 5) { id } }",
        "{ me " + "@include(if: true) " * 3_000 + "{ id } }",
        "query(" + "".join(f"$v{i}: Int " for i in range(2_500)) + ") { me { id } }",
        "\u0000",
        '{ tool(toolName: "\\u0000") { name } }',
        '{ tool(toolName: "\\ud800") { name } }',
        '{ tool(toolName: """' + '"' * 2 + '\ufeff""") { name } }',
    ],
)
async def test_a_bomb_is_answered_with_a_readable_refusal(member, query) -> None:
    """GraphQL bombs; the public CLI shows only what has status 200."""
    with trio.fail_after(20):
        answer = await member.ask(query)
    assert answer.status == 200
    assert answer.json["errors"][0]["extensions"]["code"] in ("BAD_USER_INPUT", "NOT_FOUND")
    assert len(answer.body) < 20_000
    assert (await member.ask("{ me { email __typename } }")).data["me"]["__typename"] == "User"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"query": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"query": "{ me { id } }", "query": "{ nothing }"}',
        b'{"query": "{ me { id } }", "variables": {"x": NaN}}',
        b'{"query": "{ me { id } }", "variables": {"x": 1e999}}',
        b'{"query": "{ me { id } }", "variables": {"x": ' + b"9" * 10_000 + b"}}",
        b'{"query": "\\ud800"}',
        b'{"query": "{ me { id } }"} x',
        b'{"variables": [' + b"0," * 200_000 + b"0]}",
    ],
)
async def test_a_body_that_is_not_one_sane_json_object_is_refused(member, body: bytes) -> None:
    """Everything is bounded before it is parsed."""
    with trio.fail_after(20):
        answer = await member.send("POST", "/graphql", body)
    assert answer.rule == (200, "BAD_USER_INPUT", "bad_body")


async def test_a_schema_of_five_megabytes_is_refused_and_nothing_is_changed(member, people) -> None:
    """A body is read to its end, so that its sender sees the answer."""
    people.ask(people.member, registry.create_tool, "acme", "t")
    update = (
        'mutation($s: JSON) { updateToolVersion(toolName: "t", version: "draft", '
        "input: {inputSchema: $s}) { version } }"
    )

    def schema(size: int) -> dict[str, object]:
        return {"type": "object", "properties": {}, "description": "x" * size}

    body = json.dumps({"query": update, "variables": {"s": schema(5_000_000)}}).encode()
    pieces = [body[i : i + 65_536] for i in range(0, len(body), 65_536)]
    answer = await member.send("POST", "/graphql", pieces)
    assert answer.rule == (200, "BAD_USER_INPUT", "body_too_large")
    answer = await member.ask(update, s=schema(1_000_000))
    assert answer.rule == (200, "BAD_USER_INPUT", "value_too_large")
    endless = await member.send("POST", "/graphql", (b"x" * 65_536 for _ in range(1_000)))
    assert endless.rule == (200, "BAD_USER_INPUT", "body_too_large")
    seen = people.ask(people.member, registry.get_tool_version, "acme", "t", "draft")
    assert seen.input_schema == {"type": "object", "properties": {}}
    assert (await member.ask(update, s=schema(100_000))).data["updateToolVersion"]


async def test_schemas_that_refer_to_themselves_or_nest_without_end_are_answered(
    member, people
) -> None:
    """A recursive schema can be compiled, a bottomless one can not."""
    people.ask(people.member, registry.create_tool, "acme", "t")
    update = (
        'mutation($s: JSON) { updateToolVersion(toolName: "t", version: "draft", '
        "input: {inputSchema: $s}) { inputSchema } }"
    )
    tree = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    answer = await member.ask(update, s=tree)
    assert answer.data["updateToolVersion"] == {"inputSchema": tree}
    loop = {"type": "object", "allOf": [{"$ref": "#"}]}
    with trio.fail_after(20):
        answer = await member.ask(update, s=loop)
    assert answer.status == 200
    deep: dict[str, object] = {"type": "string"}
    for _ in range(75):
        deep = {"items": deep}
    answer = await member.ask(update, s={"type": "object", "not": deep})
    assert answer.rule[:2] == (200, "BAD_USER_INPUT")


async def test_work_that_fields_multiply_is_paid_for_before_it_is_done(
    serve, store, people, key_of
) -> None:
    """Our choice: pages inside pages cost what they may return."""
    for name in ("a", "b", "c"):
        people.ask(people.member, registry.create_tool, "acme", name)
    asker = serve(store, work=60).of(token=key_of("member@acme.test"), workspace="acme")
    query = (
        "query($outer: Int!, $inner: Int!) { tools(pagination: {skip: 0, take: $outer}) { data { "
        "name versions(pagination: {skip: 0, take: $inner}) { total } } } }"
    )
    assert (await asker.ask(query, outer=50, inner=1)).data
    for outer, inner in ((50, 10), (60, 1)):
        answer = await asker.ask(query, outer=outer, inner=inner)
        rules = {error["extensions"]["rule"] for error in answer.json["errors"]}
        assert (answer.status, rules) == (200, {"request_too_expensive"})


async def test_a_request_that_takes_too_long_starts_no_more_operations(
    serve, store, people, key_of, ticks
) -> None:
    """Our choice: the rest is told to be too slow; what was done before stands."""

    class SlowStore:
        def write(self, work):
            value = store.write(work)
            ticks.seconds += 6
            return value

        def read(self, work):
            return store.read(work)

    asker = serve(SlowStore()).of(token=key_of("member@acme.test"), workspace="acme")
    names = ", ".join(f't{i}: createTool(name: "t{i}") {{ name }}' for i in range(4))
    answer = await asker.ask(f"mutation {{ {names} }}")
    assert answer.rule == (200, "BAD_USER_INPUT", "request_too_slow")
    assert answer.error["path"] == ["t2"]
    found = people.ask(people.member, registry.list_tools, "acme")
    assert {tool.name for tool in found.data} == {"t0", "t1"}


async def test_a_body_that_does_not_arrive_is_not_waited_for(
    member, autojump_clock, caplog
) -> None:
    """Our choice: a slow sender holds no thread and is cut off."""

    sent = []

    async def receive() -> object:
        await trio.sleep_forever()

    async def send(message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/graphql",
        "raw_path": b"/graphql",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "client": ("192.0.2.1", 5),
    }
    await member.app(scope, receive, send)
    assert sent[0]["status"] == 408
    assert caplog.records == [] or caplog.records[0].levelno < logging.WARNING
