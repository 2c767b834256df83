"""How long the command takes to start."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from .claims import Bench, Claim
from .host import run_to_end
from .measure import Contestant, Round, interleave_into, timed
from .report import Goal, Section
from .workspace import ECHO, Workspace, write_workspace

BASE = "python -c 0"
HELP = "raw --help"
REPOSITORY = Path(__file__).parent.parent


def raw_command() -> list[str]:
    """Return the installed command, or the module when the package is not installed."""
    beside = shutil.which("raw", path=str(Path(sys.executable).parent))
    return [beside] if beside else [sys.executable, "-m", "raw_exec"]


def _program(argv: list[str], home: Path) -> Round:
    env = {
        "PYTHONPATH": str(REPOSITORY),
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
    }

    async def call() -> None:
        run_to_end(argv, env=env, cwd=home)

    return timed(call)


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    space: Workspace = write_workspace(bench, "start", {"plain": ECHO})
    raw = raw_command()
    config = ["--config", str(space.config)]
    call = ["tools", "call", "plain", "--args", '{"text":"first\\n"}', "--cwd", str(space.cwd)]
    contestants: list[Contestant] = []
    for name, argv in (
        (BASE, [sys.executable, "-c", "0"]),
        (HELP, [*raw, "--help"]),
        ("raw tools list", [*raw, *config, "tools", "list"]),
        ("raw tools call, first call included", [*raw, *config, *call]),
    ):
        contestants.append(Contestant(name, _program(argv, bench.work)))
    await interleave_into(
        section,
        contestants,
        rounds=bench.round_count(12, 3),
        calls=1,
        warm_up=1,
        scale=1e3,
    )
    section.notes.append(f"started as {' '.join(Path(part).name for part in raw)}")


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    row = section.row(HELP)
    return [
        Goal(
            "raw --help",
            0.25,
            None if row is None else row.p50 / 1000,
            "s",
            note=section.missing(HELP),
        )
    ]


CLAIM = Claim("start", "The command's start", "ms", BASE, run, judge)
