"""Run the benchmarks, print the tables, write the report."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import trio

from .claims import Bench, Claim
from .measure import describe_error, first_error
from .report import Section, render_goals, render_section, report_as_json

__all__ = ["main"]

REPORT = Path(__file__).parent.parent / ".bench" / "results.json"


def all_claims() -> tuple[Claim, ...]:
    """Return every claim in the order of the run."""
    from . import (
        capacity,
        codec,
        cold_call,
        contracts,
        facades,
        frames,
        fresh_python,
        gate_hook,
        http_calls,
        many_tools,
        mcp_server,
        memory,
        panel_updates,
        payload,
        read_files,
        schema_check,
        start_up,
        transactions,
        warm_call,
    )

    modules = (
        warm_call,
        cold_call,
        fresh_python,
        transactions,
        payload,
        read_files,
        gate_hook,
        facades,
        http_calls,
        mcp_server,
        capacity,
        schema_check,
        memory,
        many_tools,
        codec,
        frames,
        panel_updates,
        contracts,
        start_up,
    )
    return tuple(module.CLAIM for module in modules)


def _parser(keys: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure against peers in one interleaved run.",
    )
    parser.add_argument(
        "--only", action="append", choices=keys, metavar="NAME", help=f"one of {', '.join(keys)}"
    )
    parser.add_argument("--rounds", type=_positive, metavar="N", help="rounds of every table")
    parser.add_argument(
        "--json", type=Path, default=REPORT, metavar="PATH", help="where the report goes"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, for a look")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


async def measure(bench: Bench, claim: Claim) -> Section:
    """Run one claim; what went wrong is put down in its section."""
    section = Section(claim.key, claim.title, claim.unit, claim.base)
    begin = time.perf_counter()
    try:
        await claim.run(bench, section)
    except Exception as exc:
        section.failure = describe_error(exc)
        # The peers' own clean-up wraps an error many times over.
        traceback.print_exception(first_error(exc), chain=False)
    section.seconds = time.perf_counter() - begin
    section.goals = claim.judge(section)
    return section


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 when all of ours could be measured, whether or not goals were met, else 1."""
    claims = all_claims()
    options = _parser([claim.key for claim in claims]).parse_args(argv)
    chosen = [claim for claim in claims if not options.only or claim.key in options.only]
    from .host import host_facts

    host = host_facts()
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    begin = time.perf_counter()
    sections: list[Section] = []
    print(
        f"{host['cpu_model']}, {host['cpus_usable']} CPUs, kernel {host['kernel']}, "
        f"Python {host['python']}, Node {host['node']}, load {host['load_average'][0]}\n"
    )
    with tempfile.TemporaryDirectory(prefix="raw-bench-") as work:
        cache = REPORT.parent / "cache"
        bench = Bench(Path(work).resolve(), cache, quick=options.quick, rounds=options.rounds)
        for claim in chosen:
            sections.append(trio.run(measure, bench, claim))
            print(render_section(sections[-1]), end="\n\n", flush=True)
    seconds = time.perf_counter() - begin
    host["load_average_after"] = host_facts()["load_average"]
    print(render_goals(sections))
    report = report_as_json(
        sections,
        host=host,
        started=started,
        seconds=seconds,
        options={"quick": options.quick, "rounds": options.rounds, "only": options.only},
    )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(f"\n{seconds:.0f} s; report in {options.json}")
    return 1 if any(section.failure or section.broken for section in sections) else 0


if __name__ == "__main__":
    sys.exit(main())
