"""A warm call through the whole pipeline, without and with descriptors."""

from __future__ import annotations

from contextlib import ExitStack

import msgpack

from .bare_echo import EchoProcess
from .claims import Bench, Claim
from .entrants import (
    MCP_PYTHON,
    MCP_TYPESCRIPT,
    TRIO_PARALLEL,
    add_mcp_peers,
    add_peer,
    echo_round,
    raw_round,
    trio_parallel_round,
)
from .measure import Contestant, Round, interleave_into, timed
from .report import Goal, Section, ratio_goal
from .workspace import (
    ARGUMENTS,
    DESCRIBED,
    ECHO,
    PYTHON_ECHO,
    call_tool,
    open_bench_runtime,
    write_workspace,
)

BASE = "bare echo (msgpack, async handler)"
PLAIN = "raw_exec, sandboxed ESM"
WITH_DESCRIPTORS = "raw_exec, + validateArgs, describeEffects, a rule"


async def run(bench: Bench, section: Section) -> None:
    """Fill the table."""
    space = write_workspace(
        bench, "warm", {"plain": ECHO, "described": DESCRIBED, "python": PYTHON_ECHO}
    )
    contestants: list[Contestant] = []
    with ExitStack() as stack:
        echo = stack.enter_context(EchoProcess())
        raw = stack.enter_context(EchoProcess(raw=True))
        body = msgpack.packb({"id": 1, "args": ARGUMENTS})
        contestants.append(Contestant(BASE, echo_round(echo, ARGUMENTS)))
        contestants.append(Contestant("bare echo (raw bytes)", raw_round(raw, body)))
        async with open_bench_runtime(bench, space) as runtime:

            def own(name: str) -> Round:
                return timed(lambda: call_tool(runtime, name, ARGUMENTS))

            contestants.append(Contestant(PLAIN, own("plain")))
            contestants.append(Contestant(WITH_DESCRIPTORS, own("described")))
            contestants.append(Contestant("raw_exec, sandboxed Python", own("python")))
            add_peer(section, contestants, TRIO_PARALLEL, lambda: trio_parallel_round(ARGUMENTS))
            add_mcp_peers(section, contestants, stack, ARGUMENTS, calls=bench.size(30, 5))
            await interleave_into(
                section,
                contestants,
                rounds=bench.round_count(40, 16),
                calls=bench.size(60, 20),
                warm_up=bench.size(200, 60),
                scale=1e6,
            )
            result = await call_tool(runtime, "plain", ARGUMENTS)
            section.facts["enforced"] = dict(result.enforced)
    section.notes.append(
        "every raw_exec row is a whole dispatch: exposure, schema, rules, worker, result check"
    )


def judge(section: Section) -> list[Goal]:
    """Derive the goals."""
    claim = "warm sandboxed ESM call, no descriptors"
    added = section.difference(WITH_DESCRIPTORS, PLAIN)
    return [
        ratio_goal(section, f"{claim}, vs bare echo", PLAIN, limit=1.5),
        ratio_goal(section, f"{claim}, vs MCP Python SDK", PLAIN, limit=1 / 10, base=MCP_PYTHON),
        ratio_goal(
            section, f"{claim}, vs MCP TypeScript SDK", PLAIN, limit=1 / 4, base=MCP_TYPESCRIPT
        ),
        Goal(
            "validateArgs and describeEffects in wasm add",
            0.4,
            None if added is None else added / 1000,
            "ms",
            note=section.missing(WITH_DESCRIPTORS, PLAIN),
        ),
    ]


CLAIM = Claim("warm", "A warm call", "us", BASE, run, judge)
