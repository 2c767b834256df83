"""One MiB of text in, the same out."""

from __future__ import annotations

from contextlib import ExitStack

import msgpack

from .bare_echo import EchoProcess
from .claims import Bench, Claim
from .entrants import TRIO_PARALLEL, add_mcp_peers, add_peer, echo_round, raw_round
from .entrants import trio_parallel_round as trio_parallel
from .measure import Contestant, interleave_into, timed
from .report import Goal, Section, ratio_goal
from .workspace import ECHO, PYTHON_ECHO, call_tool, open_bench_runtime, write_workspace

MIB = 1024 * 1024
BASE = "bare echo, ASCII"
BASE_MIXED = "bare echo, mixed"
ASCII = "raw_exec ESM, ASCII"
MIXED = "raw_exec ESM, mixed"
_ASCII_LINE = "The quick brown fox jumps over the lazy dog, again and again and again.\n"
_MIXED_LINE = "Größe und Maß, déjà vu: the quick brown fox jumps over the lazy dog once.\n"


def text_of_a_mib(line: str) -> str:
    """Repeat a line to about one MiB of UTF-8, never more."""
    return line * (MIB // len(line.encode("utf-8")))


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    space = write_workspace(bench, "payload", {"plain": ECHO, "python": PYTHON_ECHO})
    ascii_text = {"text": text_of_a_mib(_ASCII_LINE)}
    mixed = {"text": text_of_a_mib(_MIXED_LINE)}
    contestants: list[Contestant] = []
    with ExitStack() as stack:
        echo = stack.enter_context(EchoProcess(pipe_bytes=MIB))
        raw = stack.enter_context(EchoProcess(raw=True, pipe_bytes=MIB))
        async with open_bench_runtime(bench, space) as runtime:

            def own(name: str, arguments: dict[str, str]) -> Contestant:
                title = {("plain", "a"): ASCII, ("plain", "m"): MIXED}.get(
                    (name, "a" if arguments is ascii_text else "m"), "raw_exec Python, mixed"
                )
                return Contestant(
                    title,
                    timed(lambda: call_tool(runtime, name, arguments, max_output_bytes=16 * MIB)),
                )

            contestants += [
                Contestant(BASE, echo_round(echo, ascii_text)),
                Contestant(BASE_MIXED, echo_round(echo, mixed)),
                Contestant("bare echo, raw bytes", raw_round(raw, msgpack.packb(mixed))),
                own("plain", ascii_text),
                own("plain", mixed),
                own("python", mixed),
            ]
            add_peer(section, contestants, f"{TRIO_PARALLEL}, mixed", lambda: trio_parallel(mixed))
            add_mcp_peers(section, contestants, stack, mixed, calls=bench.size(2, 1))
            await interleave_into(
                section,
                contestants,
                rounds=bench.round_count(15, 5),
                calls=bench.size(6, 3),
                warm_up=2,
                scale=1e3,
            )
    section.notes.append(
        "both sides have 1 MiB pipes; 'mixed' has a few letters beyond ASCII in every line"
    )


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    claim = "1 MiB in and out"
    return [
        ratio_goal(section, f"{claim}, ASCII text, vs bare echo", ASCII, limit=1.2),
        ratio_goal(
            section, f"{claim}, mixed text, vs bare echo", MIXED, limit=1.2, base=BASE_MIXED
        ),
    ]


CLAIM = Claim("payload", "1 MiB in and out", "ms", BASE, run, judge)
