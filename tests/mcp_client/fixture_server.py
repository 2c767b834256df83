"""An MCP server of the handshake era, standard library only, that misbehaves as it is told.

Usage: fixture_server.py [FAULT...]; a fault is one word, see ``FAULTS``.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
import time
import zlib
from typing import Any

FAULTS = set(sys.argv[1:])
OBJECT = {"type": "object"}
LOCK = threading.Lock()
STATE = {"calls": 0}
CANCELLED: set[Any] = set()
ANSWERS: dict[Any, Any] = {}
ANSWERED = threading.Condition()


def png() -> str:
    """Return a PNG of one pixel."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")
        )

    header = b"\0\0\0\1\0\0\0\1\x08\0\0\0\0"
    data = (b"IHDR", header), (b"IDAT", zlib.compress(b"\0\0")), (b"IEND", b"")
    raw = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in data)
    return base64.b64encode(raw).decode()


def tool(name: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"{name}.", "inputSchema": schema or OBJECT, **more}


NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}
SUM = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TREE = {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False}
TOOLS = [
    tool("echo", TEXT),
    tool("add", NUMBERS, outputSchema=SUM),
    tool("wrong_sum", OBJECT, outputSchema=SUM),
    tool("no_sum", OBJECT, outputSchema=SUM),
    tool("failed_sum", OBJECT, outputSchema=SUM),
    *(
        tool(name)
        for name in ("count", "kinds", "fail", "rpc_error", "env", "die", "panel", "hang")
    ),
    *(tool(name) for name in ("work", "orphan", "half", "flood", "ask", "sample", "noise", "nan")),
    *(tool(name) for name in ("deaf", "slow", "bad_image", "change", "meddle", "pid", "roots")),
    tool("big", {"type": "object", "properties": {"bytes": {"type": "integer"}}}),
    tool("blocks", {"type": "object", "properties": {"count": {"type": "integer"}}}),
    tool("read", {"type": "object", "properties": {"path": {"type": "string"}}}),
    tool("connect", {"type": "object", "properties": {"port": {"type": "integer"}}}),
    tool("tree", TREE),
    tool("a.b"),
    tool("a_b"),
]
BAD_TOOLS = [
    tool("look_around", {"type": "object", "properties": {"x": {"pattern": "(?=x)"}}}),
    tool("remote_ref", {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/x"}}}),
    tool("dialect", {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}),
    tool("not_object", {"type": "array"}),
    {"name": "no_schema"},
    tool("twice"),
    tool("twice"),
    tool("deep", json.loads('{"type":"object","properties":{"p":' * 40 + "{}" + "}}" * 40)),
]


def send(message: Any) -> None:
    data = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    with LOCK:
        sys.stdout.write(data)
        sys.stdout.flush()


def text(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(value)}]}


def ask_client(method: str, params: Any) -> Any:
    ident = f"s{STATE['calls']}"
    send({"id": ident, "method": method, "params": params})
    with ANSWERED:
        ANSWERED.wait_for(lambda: ident in ANSWERS, 30)
        return ANSWERS.pop(ident)


def call(ident: Any, name: str, args: dict[str, Any], token: Any) -> dict[str, Any] | None:
    """Return the result of one call; ``None`` sends no answer."""
    STATE["calls"] += 1
    if name == "echo":
        return text(args["text"])
    if name == "add":
        value = {"sum": args["a"] + args["b"]}
        return {**text(json.dumps(value)), "structuredContent": value}
    if name == "wrong_sum":
        return {**text("x"), "structuredContent": {"sum": "many"}}
    if name == "no_sum":
        return text("nothing structured")
    if name == "failed_sum":
        return {**text("no"), "isError": True, "structuredContent": {"error": "E1"}}
    if name == "count":
        return text(STATE["calls"])
    if name == "pid":
        return text(os.getpid())
    if name == "kinds":
        blob = base64.b64encode(b"sound").decode()
        resource = {"uri": "file:///x", "mimeType": "text/plain", "text": "inside"}
        return {
            "content": [
                {"type": "text", "text": "hello"},
                {"type": "image", "mimeType": "image/png", "data": png()},
                {"type": "image", "mimeType": "image/webp", "data": blob},
                {"type": "audio", "mimeType": "audio/wav", "data": blob},
                {"type": "resource", "resource": resource},
                {"type": "resource_link", "uri": "file:///y", "name": "why"},
            ],
            "structuredContent": {"n": 1},
        }
    if name == "bad_image":
        return {"content": [{"type": "image", "mimeType": "image/png", "data": "AAAA"}]}
    if name == "fail":
        return {**text("it did not work"), "isError": True}
    if name == "env":
        return text(json.dumps(dict(os.environ)))
    if name == "die":
        sys.stderr.write("about to die\x1b[31m of " + os.environ.get("TOKEN", "nothing") + "\n")
        sys.stderr.flush()
        os._exit(7)
    if name == "half":
        sys.stdout.write('{"jsonrpc":"2.0","id":')
        sys.stdout.flush()
        os._exit(0)
    if name == "panel":
        document = {"title": "T", "blocks": [{"id": "m", "kind": "markdown", "text": "hi"}]}
        update = {"panel": "main", "op": "replace", "document": document}
        return {**text("shown"), "_meta": {"raw/panel": update}}
    if name == "hang":
        return None
    if name == "deaf":
        while True:  # reads nothing more, answers nothing more
            time.sleep(60)
    if name == "slow":
        while ident not in CANCELLED:
            time.sleep(0.01)
        return text("stopped")
    if name == "work":
        for step in range(1, 6):
            params = {"progressToken": token, "progress": step, "total": 5, "message": "m"}
            send({"method": "notifications/progress", "params": params})
            time.sleep(args.get("pause", 0.1))
        return text(f"done with token {token is not None}")
    if name == "meddle":
        document = {"title": "no", "blocks": []}
        params = {
            "progressToken": token,
            "progress": 1,
            "_meta": {"raw/panel": {"panel": "main", "op": "replace", "document": document}},
        }
        send({"method": "notifications/progress", "params": params})
        threading.Timer(
            0.2, lambda: send({"method": "notifications/progress", "params": params})
        ).start()
        return text("done")
    if name == "orphan":
        argv = [sys.executable, "-c", "import time\nwhile True: time.sleep(60)"]
        child = subprocess.Popen(argv, start_new_session=True)
        return text(child.pid)
    if name == "flood":
        with LOCK:
            for _ in range(64):
                sys.stdout.write("x" * 1024 * 1024)
            sys.stdout.write("\n")
            sys.stdout.flush()
        return text("flooded")
    if name == "big":
        return text("y" * args["bytes"])
    if name == "blocks":
        return {"content": [{"type": "text", "text": "x"}] * args["count"]}
    if name == "noise":
        with LOCK:
            sys.stdout.write("listening on stdout\x07\n{not json}\n\n")
            sys.stdout.flush()
        return text("noisy")
    if name == "nan":
        with LOCK:
            answer = {"jsonrpc": "2.0", "id": ident, "result": {**text("x")}}
            answer["result"]["structuredContent"] = {"n": float("nan")}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
        return None
    if name == "change":
        TOOLS[0]["inputSchema"] = {**TEXT, "required": []}
        send({"method": "notifications/tools/list_changed"})
        return text("changed")
    if name == "read":
        try:
            with open(args["path"]) as file:
                return text(file.read())
        except OSError as exc:
            return {**text(f"{exc.strerror}"), "isError": True}
    if name == "connect":
        with socket.create_connection(("127.0.0.1", args["port"]), 5):
            return text("connected")
    if name == "ask":
        schema = {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Your name"},
                "age": {"type": "integer", "minimum": 18},
                "sure": {"type": "boolean"},
                "colour": {"type": "string", "enum": ["red", "blue"]},
                "many": {"type": "array", "items": {"type": "string", "enum": ["p", "q"]}},
            },
            "required": ["name", "age", "sure"],
        }
        if "odd-field" in FAULTS:  # of a type that nobody can be asked for
            schema["properties"] = {os.environ["TOKEN"] + "\n\u202e": {"type": "null"}}
        params = {"message": "Who are you?", "requestedSchema": schema}
        return text(json.dumps(ask_client("elicitation/create", params)))
    if name == "sample":
        message = {"role": "user", "content": {"type": "text", "text": "hi"}}
        params = {"messages": [message], "maxTokens": 5}
        return text(json.dumps(ask_client("sampling/createMessage", params)))
    if name == "roots":
        return text(json.dumps(ask_client("roots/list", {})))
    return text(name)


def list_tools(params: dict[str, Any]) -> dict[str, Any]:
    if "repeating-cursor" in FAULTS:
        return {"tools": [tool("echo", TEXT)], "nextCursor": "again"}
    if "endless" in FAULTS:
        at = int(params.get("cursor", "0"))
        return {"tools": [tool(f"t{at}")], "nextCursor": str(at + 1)}
    if "very-many" in FAULTS:
        return {"tools": [tool(f"t{number}") for number in range(5001)]}
    if "very-long" in FAULTS:
        return {"tools": [{**tool("echo", TEXT), "description": "x" * (16 * 1024 * 1024)}]}
    listed = [*TOOLS, *(BAD_TOOLS if "bad-tools" in FAULTS else ())]
    if "tells-env" in FAULTS:
        listed = [{**TOOLS[0], "description": "uses " + os.environ["TOKEN"]}, *TOOLS[1:]]
    if "other-echo" in FAULTS:
        listed = [tool("echo", {**TEXT, "title": "another"}), *TOOLS[1:]]
    at = int(params.get("cursor", "0"))
    page = {"tools": listed[at : at + 7]}
    return page if at + 7 >= len(listed) else {**page, "nextCursor": str(at + 7)}


def answer(message: dict[str, Any]) -> None:
    method, ident, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "initialize":
        if "mute" in FAULTS:
            return
        capabilities = {"tools": {"listChanged": True}}
        info = {"name": "fixture", "version": "9.8.7"}
        version = params["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
    elif method == "tools/list":
        result = list_tools(params)
    elif method == "tools/call":
        token = (params.get("_meta") or {}).get("progressToken")
        name, args = params["name"], params.get("arguments") or {}
        if name == "rpc_error":
            send({"id": ident, "error": {"code": -32000, "message": "Connection closed"}})
            return
        if name == "deaf":
            call(ident, name, args, token)

        def work() -> None:
            try:
                found = call(ident, name, args, token)
            except Exception as exc:
                found = {**text(repr(exc)), "isError": True}
            if found is not None:
                send({"id": ident, "result": found})

        threading.Thread(target=work, daemon=True).start()
        return
    elif method == "ping":
        result = {}
    else:
        send({"id": ident, "error": {"code": -32601, "message": f"no method {method}"}})
        return
    send({"id": ident, "result": result})


def main() -> None:
    if "print-env" in FAULTS:
        sys.stderr.write(json.dumps(dict(os.environ)) + "\n")
        sys.exit(3)
    if "exit" in FAULTS:
        sys.stderr.write("first line\nno such module: \u202eabc\n")
        sys.exit(3)
    if "greeting" in FAULTS:
        print("Fixture server is running", flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "notifications/cancelled":
            if "ignores-cancel" not in FAULTS:
                CANCELLED.add(message["params"]["requestId"])
        elif "method" not in message:
            with ANSWERED:
                ANSWERS[message["id"]] = message.get("result", message.get("error"))
                ANSWERED.notify_all()
        elif "id" in message:
            answer(message)
    if "ignores-eof" in FAULTS:
        while True:
            time.sleep(60)


main()
