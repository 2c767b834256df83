"""The examples run, and the README's third one with them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import raw_exec
from requires import require

ROOT = Path(__file__).parent.parent.parent
EMBEDDING = ROOT / "examples" / "embedding"


def test_the_plain_script_runs(config: raw_exec.Config, tmp_path: Path) -> None:
    """A runnable example for a plain script."""
    done = subprocess.run(
        [sys.executable, EMBEDDING / "plain_script.py", config.path, "echo", '{"text": "hi"}'],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "ok hi\n" * 4), done.stderr


def test_the_web_application_runs(
    config: raw_exec.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runnable example for a FastAPI application."""
    require("fastapi", importlib.util.find_spec("fastapi") is not None, "fastapi is not installed")
    from fastapi.testclient import TestClient

    monkeypatch.setenv("RAW_CONFIG", str(config.path))
    monkeypatch.setenv("RAW_CWD", str(tmp_path))
    spec = importlib.util.spec_from_file_location("web_app", EMBEDDING / "web_app.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "web_app", module)
    spec.loader.exec_module(module)
    with TestClient(module.app) as client:
        names = [tool["function"]["name"] for tool in client.get("/tools").json()]
        assert names == ["echo", "wait"]
        answer = client.post("/tools/echo", json={"text": "hi"}).json()
        assert answer["content"] == [{"type": "text", "text": "hi"}]
        assert client.post("/tools/gone", json={}).json()["code"] == "unknown_tool"


def test_the_readmes_loop_with_a_provider_runs(
    config: raw_exec.Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The README's third example, against a model that is played here."""
    text = (ROOT / "README.md").read_text("utf-8")
    (source,) = re.findall(r"```python\n(import raw_exec\.blocking.*?)```", text, re.DOTALL)
    call = {"type": "tool_use", "id": "c1", "name": "echo", "input": {"text": "from the tool"}}
    turns = iter(
        [{"role": "assistant", "content": [call]}, {"role": "assistant", "content": "done"}]
    )
    sent: list[Any] = []

    def ask_model(messages: list[Any], tools: list[Any]) -> Any:
        sent.append(([*messages], [tool["name"] for tool in tools]))
        return next(turns)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(raw_exec, "load_config", lambda: config)
    exec(source, {"ask_model": ask_model})  # noqa: S102  (it is our own README)
    assert [names for _, names in sent] == [["echo", "wait"]] * 2
    (block,) = sent[1][0][-1]["content"]
    assert block["content"] == [{"type": "text", "text": "from the tool"}]
