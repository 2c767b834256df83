"""Sixteen files of 64 KiB: the built-in ``read_file`` against plain Python.

Twice: against reading the files, and against what a program does that hands them to a model,
which is a digest of each and JSON text of all.
"""

from __future__ import annotations

import hashlib
import json

from .claims import Bench, BenchmarkFailed, Claim
from .measure import Contestant, interleave_into, timed
from .report import Goal, Section, ratio_goal
from .workspace import Workspace, call_tool, open_bench_runtime

BASE = "plain Python"
SAME_WORK = "plain Python, digests and JSON text too"
TOOL = "raw_exec builtin/read_file"
FILES = 16
FILE_BYTES = 64 * 1024
_BUDGET = 4 * 1024 * 1024
_LINE = "The quick brown fox jumps over the lazy dog, again and again.\n\n"


def _write_space(bench: Bench) -> Workspace:
    cwd = bench.work / "read_files"
    cwd.mkdir()
    text = _LINE * (FILE_BYTES // len(_LINE))
    for number in range(FILES):
        (cwd / f"{number}.txt").write_text(text, "utf-8")
    agent = {"tools": {"use": ["builtin/read_file"]}}
    path = bench.work / "read_files.json"
    path.write_text(json.dumps({"default_agent": "bench", "agents": {"bench": agent}}), "utf-8")
    path.chmod(0o600)
    return Workspace(path, cwd)


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    space = _write_space(bench)
    paths = [f"{number}.txt" for number in range(FILES)]
    arguments = {"files": [{"path": path} for path in paths]}
    expected = sum((space.cwd / path).stat().st_size for path in paths)

    def read_all() -> int:
        return sum(len((space.cwd / path).read_text("utf-8")) for path in paths)

    async def read() -> None:
        if read_all() != expected:
            raise BenchmarkFailed("plain Python read something else")

    def prepare_all() -> int:
        rows = []
        for path in paths:
            data = (space.cwd / path).read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            rows.append({"path": path, "sha256": digest, "text": data.decode("utf-8")})
        return len(json.dumps({"files": rows}, ensure_ascii=False).encode("utf-8"))

    async def prepare() -> None:
        if prepare_all() < expected:
            raise BenchmarkFailed("plain Python prepared something else")

    async with open_bench_runtime(bench, space) as runtime:
        result = await call_tool(runtime, "read_file", arguments, max_output_bytes=_BUDGET)
        size = result.usage["result_bytes"]
        if size < expected:
            raise BenchmarkFailed(f"read_file gave {size} bytes for {expected}")
        await interleave_into(
            section,
            [
                Contestant(BASE, timed(read)),
                Contestant(SAME_WORK, timed(prepare), is_peer=True),
                Contestant(
                    TOOL,
                    timed(
                        lambda: call_tool(runtime, "read_file", arguments, max_output_bytes=_BUDGET)
                    ),
                ),
            ],
            rounds=bench.round_count(15, 5),
            calls=bench.size(10, 3),
            warm_up=2,
            scale=1e3,
        )


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    what = "read_file of 16 x 64 KiB"
    return [
        ratio_goal(section, f"{what} vs plain Python", TOOL, limit=2.0),
        ratio_goal(section, f"{what} vs the same work", TOOL, limit=2.0, base=SAME_WORK),
    ]


CLAIM = Claim("read_files", "Read 16 files of 64 KiB", "ms", BASE, run, judge)
"""What ``--only read_files`` runs."""
