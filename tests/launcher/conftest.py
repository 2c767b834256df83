"""Launchers to test against: each tier, as root and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from requires import require
from tests.launcher.box import SIMULATE, Box
from tests.launcher.client import SHARED, Client

ORDINARY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
TIERS = tuple(SIMULATE)


def _python_for(user: int | None) -> str:
    return sys.executable if user is None else SYSTEM_PYTHON


@pytest.fixture(scope="session")
def open_client() -> Iterator[Callable[..., Client]]:
    """Open launchers that are closed at the end of the session."""
    opened: dict[tuple[Any, ...], Client] = {}

    def open_one(user: int | None, simulate: tuple[str, ...]) -> Client:
        key = (user, simulate)
        if key not in opened:
            opened[key] = Client(user=user, simulate=simulate, python=_python_for(user))
        return opened[key]

    yield open_one
    for client in opened.values():
        client.close()


def _users() -> list[Any]:
    return [pytest.param(None, id="self"), pytest.param(ORDINARY, id="ordinary")]


@pytest.fixture(params=_users())
def user(request: pytest.FixtureRequest) -> int | None:
    """The user the launcher runs as: this process's own, or an ordinary one."""
    if request.param is not None:
        require("root", os.geteuid() == 0, "only root can start a launcher as another user")
        require("python3", os.path.exists(SYSTEM_PYTHON), f"{SYSTEM_PYTHON} is missing")
    return request.param


@pytest.fixture(params=TIERS)
def box(
    request: pytest.FixtureRequest,
    open_client: Callable[..., Client],
    user: int | None,
) -> Iterator[Box]:
    """Each tier this host can enforce, as each user."""
    tier = request.param
    client = open_client(user, SIMULATE[tier])
    found = client.capabilities
    require("landlock", found["landlock"]["works"], str(found["landlock"]["message"]))
    for name in TIERS[1 : TIERS.index(tier) + 1]:
        word = {"namespaces": "userns"}.get(name, name)
        require(word, found[name]["works"], str(found[name]["message"]))
    uid = os.geteuid() if user is None else user
    base = Path(tempfile.mkdtemp(prefix="raw-box-", dir=SHARED))
    try:
        base.chmod(0o755)
        (base / "work").mkdir()
        (base / "hidden").mkdir()
        (base / "hidden" / "secret.txt").write_text("T1-secret")
        for path in (base, *base.rglob("*")):
            os.chown(path, uid, uid)
        yield Box(tier, client, base, uid)
    finally:
        shutil.rmtree(base, ignore_errors=True)
