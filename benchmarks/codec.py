"""The bridge's msgpack codec beside msgpackr, in one Node process."""

from __future__ import annotations

import json
from dataclasses import replace

import trio

from raw_exec._resources import workers_dir

from .claims import Bench, Claim
from .host import node_path, run_to_end
from .mcp_peers import PEERS, install_npm_peers
from .measure import Unavailable
from .report import Goal, Section, ratio_goal, summarise

TEXT = "text 1 MiB"
MIXED = "mixed text 1 MiB"


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    try:
        install_npm_peers()
    except Unavailable as exc:
        section.unavailable["msgpackr"] = str(exc)
        return
    argv = [
        node_path(),
        str(PEERS / "codec.cjs"),
        str(workers_dir() / "node" / "bridge.cjs"),
        str(bench.round_count(20, 6)),
        str(bench.size(8, 5)),
    ]
    report = json.loads(await trio.to_thread.run_sync(run_to_end, argv))
    for payload, samples in report["samples"].items():
        for name, rounds in samples.items():
            section.rows.append(summarise(f"{payload}, {name}", rounds))
    section.facts["bytes"] = report["sizes"]
    section.facts["msgpackr_native_addon"] = report["native"]
    section.notes.append("msgpackr with useRecords: false and, if it was installed, its addon")


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    why = section.unavailable.get("msgpackr")
    goals = [
        ratio_goal(
            section,
            f"codec, {work} {payload}, vs msgpackr",
            f"{payload}, {work}, bridge",
            limit=1.3,
            base=f"{payload}, {work}, msgpackr",
        )
        for payload in (TEXT, MIXED)
        for work in ("encode", "decode")
    ]
    return [replace(goal, note=f"msgpackr: {why}") for goal in goals] if why else goals


CLAIM = Claim("codec", "The bridge's codec", "ms", "", run, judge)
