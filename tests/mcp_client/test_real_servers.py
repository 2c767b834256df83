"""Eight servers that nobody here wrote, called in the sandbox.

They are installed from lock files: npm's from ``npm/``, PyPI's from ``pypi/*.txt``, each of those
into an environment of its own below ``.servers/``, which later runs find again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from foreign import npm_packages
from requires import require
from tests.mcp_client.support import runtime_of

HERE = Path(__file__).parent
PYPI = ("time", "git", "fetch", "markitdown")
PROFILES = {
    "box": {"read": ["$CWD/box"], "write": ["$CWD/box"]},
    "git": {"read": ["$CWD/box"], "processes": "allowed"},
    "online": {"network": "host"},
}

pytestmark = pytest.mark.timeout(300)


def _environment(name: str) -> Path:
    lock = (HERE / "pypi" / f"{name}.txt").read_bytes()
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return HERE / ".servers" / f"{name}-{version}-{hashlib.sha256(lock).hexdigest()[:12]}"


def _install_pypi(name: str) -> str | None:
    folder = _environment(name)
    if (folder / "complete").exists():
        return None
    shutil.rmtree(folder, ignore_errors=True)
    python = str(folder / "bin" / "python")
    pip = ["pip", "--python", python, "install", "--quiet", "--no-deps"]
    lock = ["--disable-pip-version-check", "--requirement", str(HERE / "pypi" / f"{name}.txt")]
    for module in (["venv", "--without-pip", str(folder)], [*pip, *lock]):
        command = [sys.executable, "-m", *module]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        if done.returncode != 0:
            return f"{name} can't be installed: {done.stderr[-500:]}"
    (folder / "complete").touch()
    return None


@pytest.fixture(scope="module")
def _installed() -> None:
    with ThreadPoolExecutor(len(PYPI)) as pool:
        jobs = [pool.submit(_install_pypi, name) for name in PYPI]
        npm_packages(HERE / "npm", timeout=240)
        failed = [text for job in jobs if (text := job.result()) is not None]
    require("mcp-servers", not failed, "; ".join(failed))


@pytest.fixture(autouse=True)
def box(_installed: None, tmp_path: Path) -> Iterator[Path]:
    """A folder that profiles grant, in a working directory of which nothing else is granted."""
    folder = tmp_path / "box"
    folder.mkdir()
    return folder


def npm_server(name: str, *args: str, **fields: Any) -> dict[str, Any]:
    package = HERE / "npm" / "node_modules" / "@modelcontextprotocol" / f"server-{name}"
    manifest = json.loads((package / "package.json").read_text())
    entry = next(iter(manifest["bin"].values()))
    return {"command": "node", "args": [str(package / entry), *args], **fields}


def pypi_server(name: str, program: str, *args: str, **fields: Any) -> dict[str, Any]:
    command = str(_environment(name) / "bin" / program)
    return {"command": command, "args": [*args], **fields}


async def test_filesystem(tmp_path: Path, box: Path) -> None:
    """Writes and reads in its folder; what its plan does not grant is not there for it."""
    (tmp_path / "outside.txt").write_text("outside")
    # By its own rules it may read all of them.
    server = npm_server("filesystem", str(box), str(tmp_path), "/etc", sandbox="box")
    tools = [f"mcp/fs/{name}" for name in ("write_file", "read_text_file")]
    async with runtime_of(
        tmp_path, tools, {"fs": server}, sandbox={"profiles": PROFILES}
    ) as runtime:
        call = runtime.registry.dispatch
        path = str(box / "a.txt")
        written = await call("fs__write_file", {"path": path, "content": "hello"})
        assert not written.is_error
        assert (box / "a.txt").read_text() == "hello"
        read = await call("fs__read_text_file", {"path": path})
        assert read.content == ({"type": "json", "value": {"content": "hello"}},) or (
            read.text == "hello"
        )
        for elsewhere in ("/etc/passwd", str(tmp_path / "outside.txt")):
            assert (await call("fs__read_text_file", {"path": elsewhere})).is_error


async def test_memory(tmp_path: Path, box: Path) -> None:
    """Keeps a graph in the one file that it was given."""
    env = {"MEMORY_FILE_PATH": str(box / "graph.json")}
    server = npm_server("memory", env=env, sandbox="box")
    tools = ["mcp/mem/create_entities", "mcp/mem/read_graph"]
    async with runtime_of(
        tmp_path, tools, {"mem": server}, sandbox={"profiles": PROFILES}
    ) as runtime:
        entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
        made = await runtime.registry.dispatch("mem__create_entities", {"entities": [entity]})
        assert not made.is_error
        graph = await runtime.registry.dispatch("mem__read_graph", {})
        (block,) = graph.content
        assert block["value"]["entities"][0]["name"] == "Ada"
    assert (box / "graph.json").exists()


async def test_everything(tmp_path: Path) -> None:
    """Text, structured content, progress, an image, and its environment without the secret."""
    names = [
        *("echo", "get-structured-content", "trigger-long-running-operation", "get-tiny-image"),
        "get-env",
    ]
    env = {"TOKEN": "literal-4711-secret"}
    server = npm_server("everything", "stdio", env=env)
    async with runtime_of(tmp_path, [f"mcp/all/{n}" for n in names], {"all": server}) as runtime:
        call = runtime.registry.dispatch
        assert "hello" in (await call("all__echo", {"message": "hello"})).text
        weather = await call("all__get-structured-content", {"location": "New York"})
        assert weather.content[-1]["type"] == "json"
        arguments = {"duration": 1, "steps": 4}
        long = await call("all__trigger-long-running-operation", arguments)
        assert not long.is_error, long.text
        tiny = await call("all__get-tiny-image", {})
        # Its checksum is wrong: named and left out, the text around it kept.
        assert "checksum" in tiny.text
        assert "the image you requested" in tiny.text
        told = await call("all__get-env", {})
        assert "literal-4711-secret" not in json.dumps(told.as_dict())
        assert "[redacted TOKEN]" in told.text


async def test_sequential_thinking(tmp_path: Path) -> None:
    """Structured content that is checked against its schema."""
    server = npm_server("sequential-thinking")
    async with runtime_of(tmp_path, ["mcp/seq/sequentialthinking"], {"seq": server}) as runtime:
        thought = {"thought": "a", "nextThoughtNeeded": False, "thoughtNumber": 1}
        result = await runtime.registry.dispatch(
            "seq__sequentialthinking", {**thought, "totalThoughts": 1}
        )
        assert not result.is_error, result.text
        assert result.content[-1]["value"]["thoughtNumber"] == 1


async def test_time(tmp_path: Path) -> None:
    """A Python server of the later era; a wrong time is the tool's own error."""
    server = pypi_server("time", "mcp-server-time", "--local-timezone", "UTC")
    tools = ["mcp/clock/get_current_time", "mcp/clock/convert_time"]
    async with runtime_of(tmp_path, tools, {"clock": server}) as runtime:
        call = runtime.registry.dispatch
        now = await call("clock__get_current_time", {"timezone": "Europe/Berlin"})
        assert not now.is_error, now.text
        assert "Europe/Berlin" in json.dumps(now.as_dict())
        zones = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo"}
        wrong = await call("clock__convert_time", {**zones, "time": "25:00"})
        assert (wrong.is_error, wrong.origin) == (True, "tool")


@pytest.fixture
def repository(box: Path) -> Path:
    """A repository with one commit and one new file."""
    require("git", shutil.which("git") is not None, "git is not installed")
    run = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(box)]
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first words"]):
        subprocess.run([*run, *command], check=True)
    (box / "new.txt").write_text("x")
    return box


async def test_git(tmp_path: Path, repository: Path) -> None:
    """It starts git, so its profile allows processes; its plan reads the one repository."""
    box = repository
    server = pypi_server("git", "mcp-server-git", "--repository", str(box), sandbox="git")
    tools = ["mcp/git/git_status", "mcp/git/git_log"]
    async with runtime_of(
        tmp_path, tools, {"git": server}, sandbox={"profiles": PROFILES}
    ) as runtime:
        call = runtime.registry.dispatch
        status = await call("git__git_status", {"repo_path": str(box)})
        assert "new.txt" in json.dumps(status.as_dict()["content"])
        log = await call("git__git_log", {"repo_path": str(box)})
        assert "first words" in json.dumps(log.as_dict()["content"])


class _Page(BaseHTTPRequestHandler):
    """Answers every request with a few words."""

    def log_message(self, *_args: Any) -> None:
        pass

    def do_GET(self) -> None:
        body = b"words of a page"
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def page() -> Iterator[str]:
    """The URL of a page on this host."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


async def test_fetch(tmp_path: Path, page: str) -> None:
    """In pairs: without a network it can't reach even this host, and says so itself."""
    program = ("fetch", "mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips")
    servers = {"web": pypi_server(*program), "online": pypi_server(*program, sandbox="online")}
    tools = ["mcp/web/fetch", "mcp/online/fetch"]
    async with runtime_of(tmp_path, tools, servers, sandbox={"profiles": PROFILES}) as runtime:
        refused = await runtime.registry.dispatch("web__fetch", {"url": page})
        assert refused.is_error
        assert refused.code in (None, "handler_error")
        fetched = await runtime.registry.dispatch("online__fetch", {"url": page})
        assert "words of a page" in fetched.text


async def test_markitdown_reads_what_was_granted_and_not_what_was_not(
    tmp_path: Path, box: Path
) -> None:
    """In pairs: unconfined it returns /etc/passwd; here a granted file works and that fails."""
    (box / "page.html").write_text("<h1>Granted heading</h1>")
    server = pypi_server("markitdown", "markitdown-mcp", sandbox="box")
    async with runtime_of(
        tmp_path, ["mcp/md/convert_to_markdown"], {"md": server}, sandbox={"profiles": PROFILES}
    ) as runtime:
        call = runtime.registry.dispatch
        inside = await call("md__convert_to_markdown", {"uri": (box / "page.html").as_uri()})
        assert "Granted heading" in json.dumps(inside.as_dict()["content"])
        outside = await call("md__convert_to_markdown", {"uri": "file:///etc/passwd"})
        assert outside.is_error
        assert "root:" not in json.dumps(outside.as_dict())
