"""Calls on a copy-on-write view, each as root and all once more as an ordinary user."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from requires import require
from tests.attacks.table import ordinary_user_command
from tests.transactions.view_cases import CASES
from tests.transactions.world import open_world
from toolbox import footprint

HERE = Path(__file__).parent


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that anybody may enter, removed whatever was done to its modes."""
    base = Path(tempfile.mkdtemp(prefix="raw-view-", dir="/tmp"))
    monkeypatch.setenv("XDG_STATE_HOME", str(base / "state"))
    yield base
    for folder, _names, _files in os.walk(base):
        os.chmod(folder, 0o700)
    shutil.rmtree(base)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
async def test_a_call_on_a_view(name: str, base: Path) -> None:
    """What each shows is said in ``view_cases``."""
    before = footprint()
    async with open_world(base, limits={"scratch_bytes": 8 << 20}) as world:
        found = (await world.runtime.launcher.capabilities())["overlay"]
        require("overlay", found["works"], str(found["message"]))
        await CASES[name](world)
    assert footprint() == before


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_same_calls_for_an_ordinary_user(base: Path) -> None:
    """A view takes no privilege: namespaces of one's own are enough."""
    require("root", os.geteuid() == 0, "only root can become an ordinary user")
    found = ordinary_user_command([])
    require("ordinary-user", not isinstance(found, str), str(found))
    assert not isinstance(found, str)
    state = base / "home"
    state.mkdir()
    os.chown(state, found.uid, found.uid)
    base.chmod(0o755)
    env = {**found.env, "XDG_STATE_HOME": str(state), "XDG_CACHE_HOME": str(state)}
    done = subprocess.run(
        [found.command[0], str(HERE / "view_cases.py")], env=env, capture_output=True, text=True,
        cwd="/", user=found.uid, group=found.uid, extra_groups=[],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    wrong = json.loads(done.stdout)
    require("userns", "no-view" not in wrong, str(wrong.get("no-view")))
    assert wrong == {}, "\n".join(f"{name}: {text}" for name, text in wrong.items())
