"""An MCP server over HTTP on loopback, standard library only, that misbehaves as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OBJECT = {"type": "object"}
TOOLS = [
    {"name": name, "inputSchema": OBJECT}
    for name in ("headers", "big", "stream", "hang", "moved", "vanish")
]


class HttpServer(ThreadingHTTPServer):
    """A server with what its handlers share.

    Args:
        redirect_to: Where ``moved`` calls are sent.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, redirect_to: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.redirect_to = redirect_to
        self.seen: list[dict[str, Any]] = []
        self.stop = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(405, b"")

    def do_DELETE(self) -> None:
        self._answer(200, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        message = json.loads(body)
        self.server.seen.append({"path": self.path, **message})
        if "id" not in message:
            self._answer(202, b"")
            return
        result: dict[str, Any] | None
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            result = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "web", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": TOOLS}
        elif method == "tools/call":
            result = self._call(params["name"], message)
        else:
            self._json({"id": message["id"], "error": {"code": -32601, "message": "no"}})
            return
        if result is not None:
            self._json({"id": message["id"], "result": result})

    def _call(self, name: str, message: dict[str, Any]) -> dict[str, Any] | None:
        if name == "headers":
            return _text(json.dumps({k.lower(): v for k, v in self.headers.items()}))
        if name == "big":
            return _text("x" * 2_000_000)
        if name == "moved":
            self.send_response(307)
            self.send_header("location", str(self.server.redirect_to))
            self.send_header("content-length", "0")
            self.end_headers()
            return None
        if name == "vanish":
            self.close_connection = True
            self.connection.close()
            return None
        if name == "hang":
            self.server.stop.wait(30)
            return None
        token = message["params"]["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": 1}
        events = [
            {"method": "notifications/progress", "params": progress},
            {"id": message["id"], "result": _text("streamed")},
        ]
        data = "".join(f"data: {json.dumps({'jsonrpc': '2.0', **event})}\n\n" for event in events)
        self._answer(200, data.encode(), "text/event-stream")
        return None

    def _json(self, message: dict[str, Any]) -> None:
        self._answer(200, json.dumps({"jsonrpc": "2.0", **message}).encode(), "application/json")

    def _answer(self, status: int, body: bytes, kind: str | None = None) -> None:
        self.send_response(status)
        if kind is not None:
            self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


@contextmanager
def serving(redirect_to: str | None = None) -> Iterator[HttpServer]:
    """Serve on a free port of loopback until the block is left."""
    server = HttpServer(redirect_to)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()
