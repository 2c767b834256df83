"""The protocol without any I/O: tables, messages, lines, headers, lists."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from raw_exec.adapters.mcp_server.catalog import Catalog
from raw_exec.adapters.mcp_server.eras import (
    CLIENT_CAPABILITIES,
    PROTOCOL_VERSION,
    Era,
    RpcError,
)
from raw_exec.adapters.mcp_server.headers import (
    Headers,
    check_param_headers,
    check_routing_headers,
    decode_value,
    header_problem,
    mirrored_properties,
)
from raw_exec.adapters.mcp_server.jsonrpc import (
    MAX_MESSAGE_BYTES,
    Notification,
    Request,
    Response,
    encode,
    read_message,
)
from raw_exec.adapters.mcp_server.lines import Lines, LineTooLong
from raw_exec.adapters.mcp_server.protocol import (
    HANDSHAKE,
    REQUESTS,
    Answered,
    Cancelled,
    HandshakeState,
    Ignored,
    Initialized,
    Listen,
    Peer,
    Reply,
    ServerFacts,
    ToolCall,
)
from raw_exec.profiles import PROFILES, ProjectedTool, ProjectedTools, WithheldTool

META = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}
EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


def _catalog(schemas: dict[str, dict[str, Any]], *, key: str = "k", page: int = 500) -> Catalog:
    tools = tuple(
        ProjectedTool(name, name, {"name": name, "description": name, "inputSchema": schema})
        for name, schema in schemas.items()
    )
    projected = ProjectedTools(
        PROFILES["mcp"], tools, (WithheldTool("gone", "agent/gone", ()),), (), {}
    )
    return Catalog(projected, f"sha256:{key}", page_tools=page)


def _peer(*, changes: bool = False) -> Peer:
    catalog = _catalog({"t": EMPTY})
    return Peer(ServerFacts({"name": "s", "version": "1"}, changes), lambda: catalog)


def _params(method: str) -> dict[str, Any]:
    return {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}},
        "tools/call": {"name": "t"},
    }.get(method, {})


# ---------------------------------------------------------------- states


@pytest.mark.parametrize("state", list(HandshakeState))
@pytest.mark.parametrize("method", sorted(REQUESTS[Era.HANDSHAKE]))
def test_every_pair_of_the_handshake_leads_where_the_table_says(
    state: HandshakeState, method: str
) -> None:
    """A pair that is missing is refused and changes nothing."""
    peer = _peer()
    peer.state = state
    event = peer.receive(Request(1, method, _params(method)))
    after = HANDSHAKE[state].get(method)
    if after is None:
        assert isinstance(event, Reply)
        assert event.message["error"]["code"] == -32600
    else:
        assert isinstance(event, ToolCall) or "result" in event.message  # type: ignore[union-attr]
    assert peer.state is (after or state)


@pytest.mark.parametrize(
    "params", [{}, {"protocolVersion": 1, "capabilities": {}}, {"protocolVersion": "2025-11-25"}]
)
def test_a_malformed_initialize_changes_nothing(params: dict[str, Any]) -> None:
    """Ours: the client may try again."""
    peer = _peer()
    event = peer.receive(Request(1, "initialize", params))
    assert isinstance(event, Reply)
    assert event.message["error"]["code"] == -32602
    assert peer.state is HandshakeState.NEW


@pytest.mark.parametrize("era", list(Era))
def test_a_method_of_the_other_era_does_not_exist(era: Era) -> None:
    """Spec 2026-07-28: removed methods are not found; so are new ones before."""
    other = Era.STATELESS if era is Era.HANDSHAKE else Era.HANDSHAKE
    for method in REQUESTS[other].keys() - REQUESTS[era].keys():
        params = {"_meta": META} if era is Era.STATELESS else {}
        event = _peer().receive(Request(7, method, params))
        assert isinstance(event, Reply)
        assert (event.message["id"], event.message["error"]["code"]) == (7, -32601)


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({PROTOCOL_VERSION: "2026-07-28"}, -32602),
        ({PROTOCOL_VERSION: 7, CLIENT_CAPABILITIES: {}}, -32602),
        ({PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: []}, -32602),
        ({PROTOCOL_VERSION: "2025-11-25", CLIENT_CAPABILITIES: {}}, -32022),
        ({PROTOCOL_VERSION: "2099-01-01", CLIENT_CAPABILITIES: {}}, -32022),
    ],
)
def test_a_stateless_request_says_how_it_speaks(meta: dict[str, Any], code: int) -> None:
    """Spec 2026-07-28: and which versions are served, where its own is not."""
    event = _peer().receive(Request(1, "tools/list", {"_meta": meta}))
    assert isinstance(event, Reply)
    assert event.message["error"]["code"] == code
    if code == -32022:
        data = {"supported": ["2026-07-28"], "requested": meta[PROTOCOL_VERSION]}
        assert event.message["error"]["data"] == data


def test_notifications_and_responses_become_events() -> None:
    """What nobody asked for is ignored, and never answered."""
    peer = _peer()
    assert isinstance(peer.receive(Notification("notifications/initialized", {})), Ignored)
    peer.receive(Request(1, "initialize", _params("initialize")))
    assert peer.receive(Notification("notifications/initialized", {})) == Initialized()
    cancelled = Notification("notifications/cancelled", {"requestId": "x"})
    assert peer.receive(cancelled) == Cancelled("x")
    assert isinstance(peer.receive(Notification("notifications/cancelled", {})), Ignored)
    assert isinstance(peer.receive(Notification("notifications/other", {})), Ignored)
    response = Response("raw-1", {}, None)
    assert peer.receive(response) == Answered(response)


@pytest.mark.parametrize("changes", [True, False])
def test_a_subscription_gets_only_what_can_change(changes: bool) -> None:
    """Spec 2026-07-28: the acknowledged part is what will be told."""
    wanted = {"_meta": META, "notifications": {"toolsListChanged": True}}
    peer = _peer(changes=changes)
    assert peer.receive(Request(1, "subscriptions/listen", wanted)) == Listen(1, changes)


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("text", "code", "request_id"),
    [
        (b"{", -32700, None),
        (b"nonsense", -32700, None),
        (b'{"a":1,"a":2}', -32700, None),
        (b'"\xff"', -32700, None),
        (b"[" * 200 + b"]" * 200, -32700, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
        (b"1", -32600, None),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":""}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"result":[]}', -32600, 1),
    ],
)
def test_what_is_no_message_is_refused(text: bytes, code: int, request_id: int | None) -> None:
    """JSON-RPC 2.0, and the batches that the protocol took out of it."""
    with pytest.raises(RpcError) as caught:
        read_message(text)
    assert (caught.value.code, caught.value.request_id) == (code, request_id)


def test_messages_are_read() -> None:
    """The other half of the pair."""
    assert read_message(b'{"jsonrpc":"2.0","id":"a","method":"m"}') == Request("a", "m", {})
    assert read_message(b'{"jsonrpc":"2.0","method":"m","params":{"x":1}}') == Notification(
        "m", {"x": 1}
    )
    assert read_message(b'{"jsonrpc":"2.0","id":1,"result":{}}') == Response(1, {}, None)
    assert b"\n" not in encode({"text": "a\nb\u2028"})


def test_a_text_of_half_a_character_pair_is_still_json() -> None:
    """A lone surrogate has no UTF-8; it goes out escaped."""
    assert json.loads(encode({"a": "\ud800"})) == {"a": "\ud800"}


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_lines_come_out_whole_however_they_arrive(size: int) -> None:
    """Whole, in parts, and with what follows."""
    data = b"one\r\n\ntwo\n" + b"x" * 21 + b"\nthree\nrest"
    lines = Lines(20)
    found: list[bytes | str] = []
    for start in range(0, len(data), size):
        for line in lines.feed(data[start : start + size]):
            found.append("long" if isinstance(line, LineTooLong) else line)
    assert found == [b"one", b"", b"two", "long", b"three"]
    assert lines.has_rest


def test_a_long_line_is_not_kept() -> None:
    """64 MB and more: nothing of it is held until its end comes."""
    lines = Lines(MAX_MESSAGE_BYTES)
    part = b"x" * (1024 * 1024)
    for _ in range(64):
        assert list(lines.feed(part)) == []
    assert lines._parts == []
    (told,) = lines.feed(b"\n")
    assert isinstance(told, LineTooLong)
    assert list(lines.feed(b"next\n")) == [b"next"]


# ---------------------------------------------------------------- headers


def _headers(**changed: str | None) -> Headers:
    lines = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "t",
        **{key.replace("_", "-"): value for key, value in changed.items()},
    }
    return Headers((key, value) for key, value in lines.items() if value is not None)


def test_headers_agree_with_the_body_or_the_request_is_refused() -> None:
    """Spec 2026-07-28: -32020, and twice the same header is as bad."""
    params = {"_meta": META, "name": "t"}
    check_routing_headers(_headers(), "tools/call", params)
    encoded = "=?base64?" + base64.b64encode(b"t").decode() + "?="
    check_routing_headers(_headers(Mcp_Name=encoded), "tools/call", params)
    twice = Headers([("mcp-method", "tools/call")] * 2)
    for headers in (
        _headers(Mcp_Name="u"),
        _headers(Mcp_Name=None),
        _headers(Mcp_Method="tools/list"),
        _headers(Mcp_Method=None),
        _headers(MCP_Protocol_Version="2025-11-25"),
        _headers(MCP_Protocol_Version=None),
        twice,
    ):
        with pytest.raises(RpcError) as caught:
            check_routing_headers(headers, "tools/call", params)
        assert caught.value.code == -32020


@pytest.mark.parametrize(
    ("value", "meaning"),
    [
        (None, None),
        ("plain", "plain"),
        ("=?base64?w6Q=?=", "ä"),
        ("=?base64?w6R=?=", None),
        ("=?base64?w6Q?=", None),
        ("=?base64?!!?=", None),
        ("=?base64?/w==?=", None),
        ("=?base64", "=?base64"),
    ],
)
def test_header_values_mean_what_an_encoder_writes(value: str | None, meaning: str | None) -> None:
    """Padding that is missing, bits that are left over, bytes that are no UTF-8: broken."""
    assert decode_value(value) == meaning


def test_arguments_in_headers_agree_with_the_arguments() -> None:
    """Spec 2026-07-28: both there and equal, or both absent."""
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "page": {
                "type": "object",
                "properties": {"size": {"type": "integer", "x-mcp-header": "Size"}},
            },
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        },
    }
    assert header_problem(schema) is None
    mirrored = mirrored_properties(schema)
    arguments = {"region": "eu", "page": {"size": 10}, "dry": False}
    good = {"Mcp-Param-Region": "eu", "mcp-param-size": "10.0", "MCP-PARAM-DRY": "false"}
    check_param_headers(mirrored, arguments, Headers(good.items()))
    check_param_headers(mirrored, {"region": None}, Headers([]))
    for bad in (
        {**good, "Mcp-Param-Region": "us"},
        {**good, "mcp-param-size": "10.5"},
        {**good, "MCP-PARAM-DRY": "False"},
        {"Mcp-Param-Region": "eu"},
    ):
        with pytest.raises(RpcError):
            check_param_headers(mirrored, arguments, Headers(bad.items()))
    with pytest.raises(RpcError):
        check_param_headers(mirrored, {}, Headers([("mcp-param-region", "eu")]))


@pytest.mark.parametrize(
    "properties",
    [
        {"a": {"type": "number", "x-mcp-header": "A"}},
        {"a": {"type": "string", "x-mcp-header": "A B"}},
        {"a": {"type": "string", "x-mcp-header": 1}},
        {
            "a": {"type": "string", "x-mcp-header": "X"},
            "b": {"type": "string", "x-mcp-header": "x"},
        },
        {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
    ],
)
def test_a_tool_with_wrong_annotations_is_withheld_where_they_mean_something(
    properties: dict[str, Any],
) -> None:
    """One tool is withheld, with a reason, and the rest are listed."""
    catalog = _catalog({"bad": {"type": "object", "properties": properties}, "good": EMPTY})
    page = catalog.page(Era.STATELESS, None)
    assert [tool["name"] for tool in page["tools"]] == ["good"]
    assert [tool["name"] for tool in page["_meta"]["raw/withheld"]] == ["gone", "bad"]
    assert [tool["name"] for tool in catalog.page(Era.HANDSHAKE, None)["tools"]] == ["bad", "good"]
    assert len(list(catalog.warnings())) == 2


# ---------------------------------------------------------------- lists


def test_pages_follow_each_other_and_a_foreign_cursor_is_refused() -> None:
    """Spec: an opaque cursor; ours is of one list, so that a change is not half seen."""
    catalog = _catalog({f"t{n}": EMPTY for n in range(7)}, page=3)
    names: list[str] = []
    cursor = None
    while True:
        page = catalog.page(Era.HANDSHAKE, cursor)
        names += [tool["name"] for tool in page["tools"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
        last = cursor
    assert names == [f"t{n}" for n in range(7)]
    other = _catalog({f"t{n}": EMPTY for n in range(7)}, key="other", page=3)
    for wrong in (other.page(Era.HANDSHAKE, None)["nextCursor"], last[:-4], "zzz", 7, "x" * 9999):
        with pytest.raises(RpcError) as caught:
            catalog.page(Era.HANDSHAKE, wrong)
        assert caught.value.code == -32602


def test_names_that_other_providers_refuse_stay_as_they_are() -> None:
    """``a.b`` and ``a_b`` are two tools."""
    catalog = _catalog({"a.b": EMPTY, "a_b": EMPTY})
    for era in Era:
        assert [tool["name"] for tool in catalog.page(era, None)["tools"]] == ["a.b", "a_b"]
        dotted = catalog.find(era, "a.b")
        assert dotted is not None
        assert dotted.projected.tool_name == "a.b"


def test_properties_are_objects_for_clients_that_take_no_booleans() -> None:
    """The TypeScript client refuses a whole list for a property that is true."""
    schema = {"type": "object", "properties": {"any": True, "none": False, "a": {"type": "null"}}}
    (tool,) = _catalog({"t": schema}).page(Era.HANDSHAKE, None)["tools"]
    assert tool["inputSchema"]["properties"] == {
        "any": {},
        "none": {"not": {}},
        "a": {"type": "null"},
    }
