"""Runs one case in one lab and judges it: contained, not contained, or a known gap."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import trio

from raw_exec.errors import RawExecError, RemoteWireError
from tests.attacks import oracle
from tests.attacks.lab import Lab
from tests.attacks.model import Case, Ran, denied
from tests.attacks.wire_worker import drive_wire

__all__ = ["Verdict", "run_case"]

_CASE_SECONDS = 60.0


@dataclass(slots=True)
class Verdict:
    """What came of one case.

    Args:
        code: The outcome's code, ``"ok"`` for a result.
        enforced: What the kernel enforced, short.
        said: The outcome's text, cut.
        problems: Why it is not contained; empty when it is.
        gaps: Names of known gaps that were seen open.
    """

    case: str
    title: str
    tier: str
    isolation: str
    code: str = ""
    enforced: str = ""
    said: str = ""
    problems: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    @property
    def contained(self) -> str:
        """``yes``, ``no`` or ``gap``."""
        return "no" if self.problems else "gap" if self.gaps else "yes"


async def run_case(lab: Lab, case: Case) -> Verdict:
    """Run a case, then the universal oracle."""
    verdict = Verdict(case.id, case.title, lab.tier, lab.isolation)
    with trio.move_on_after(_CASE_SECONDS) as scope:
        await _run(lab, case, verdict)
    if scope.cancelled_caught:
        verdict.problems.append(f"U2: not over after {_CASE_SECONDS:g} s")
    return verdict


async def _run(lab: Lab, case: Case, verdict: Verdict) -> None:
    _clear(lab)
    await lab.settle()
    before = oracle.take_footing(lab)
    try:
        ran = await _attack(lab, case)
    except Exception as exc:
        # Nothing a plugin does may raise but what the contract names.
        verdict.problems.append(f"U1: {type(exc).__name__} instead of an outcome: {exc}")
        lab.spoiled = True
        return
    verdict.code, verdict.said = ran.code, ran.text[:300]
    if ran.results:
        verdict.enforced = _enforced(ran.last.enforced)
    problems = verdict.problems
    if ran.code not in case.allowed_codes(lab.tier):
        problems.append(f"outcome {ran.code!r}: {ran.text[:300]} {_why(ran)}")
    else:
        _judge_report(case, ran, verdict)
        if (wrong := _check(case, ran)) is not None:
            problems.append(wrong)
    # Idle workers hold what their plugin's own calls left: it has to be in them alone.
    problems += await oracle.inspect(lab, before, ran.results, case.timeout)
    problems += ran.late
    # What outlived this case must not be held against the next.
    lab.spoiled = any(problem.startswith("U6") for problem in problems)
    if lab.broken:
        oracle.end_marked(lab)
        return
    tool = case.tool if case.again and case.language in ("js", "py") else None
    problems += await oracle.benign(lab, tool, lab.bystander(case.language))
    _clear(lab)
    if oracle.grown_bytes(before) > case.rss_mb * 1024 * 1024:
        # First use of some code costs memory once; a leak costs it every time.
        between = oracle.take_footing(lab)
        await _attack(lab, case)
        await lab.settle()
        grown = oracle.grown_bytes(between)
        if grown > case.rss_mb * 1024 * 1024:
            problems.append(f"U7: the supervisor grows by {grown >> 20} MB each time")
        _clear(lab)


async def _attack(lab: Lab, case: Case) -> Ran:
    ran = Ran(lab.tier, lab.isolation)
    if case.language == "wire":
        await drive_wire(lab, case, ran)
        return ran
    if case.drive is not None:
        try:
            await case.drive(lab, case, ran)
        except RawExecError as exc:
            code = "worker_crashed" if isinstance(exc, RemoteWireError) else exc.code
            ran.code, ran.text = code, str(exc)
        return ran
    for call in case.calls:
        await _call(lab, case, ran, call)
    result = ran.last
    ran.code = "ok" if not result.is_error else str(result.code)
    ran.text = result.text
    ran.report = ran.reports[-1] or {}
    return ran


async def _call(lab: Lab, case: Case, ran: Ran, arguments: Mapping[str, Any]) -> None:
    result = await lab.call(case.tool, seconds=case.timeout, w=lab.facts, **arguments)
    if lab.on_view and result.code == "commit_refused":
        # What it left must not be committed, which takes its report with it: told once more.
        if result.committed is not False:
            ran.late.append(f"U5: committed is {result.committed} after commit_refused")
        result = await lab.call(
            case.tool, seconds=case.timeout, dry_run=True, w=lab.facts, **arguments
        )
    ran.results.append(result)


def _check(case: Case, ran: Ran) -> str | None:
    if case.check is None:
        return None
    try:
        return case.check(ran)
    except LookupError as exc:
        return f"not measured: {exc!r} in {ran.report!s:.200}"


def _judge_report(case: Case, ran: Ran, verdict: Verdict) -> None:
    """Read the entries by their first character; see ``model``."""
    open_here = {entry: gap for gap in case.gaps if ran.tier in gap.tiers for entry in gap.entries}
    report = ran.report if isinstance(ran.report, dict) else {}
    if ran.code == "ok" and "attempt(" in case.body and not report:
        verdict.problems.append("nothing was reported, or too much to arrive whole")
    for entry, value in report.items():
        if entry[:1] in "=?" or not isinstance(value, str):
            continue
        if entry.startswith("+"):
            if not value.startswith("ok"):
                verdict.problems.append(f"{entry[1:]} should work and gave {value!r}")
        elif entry not in open_here and not denied(value):
            verdict.problems.append(f"{entry} was not refused: {value!r}")
    for entry, gap in open_here.items():
        if str(report.get(entry, "")).startswith("ok"):
            if gap.name not in verdict.gaps:
                verdict.gaps.append(gap.name)
        elif not gap.sometimes:
            verdict.problems.append(
                f"gap {gap.name!r} has closed: {entry} gave {report.get(entry)!r}; update the table"
            )


def _enforced(facts: object) -> str:
    if not isinstance(facts, dict) or not facts:
        return "-"
    parts = [str(facts["tier"]), f"landlock {facts['landlock']}"]
    if facts["seccomp"]:
        parts.append("seccomp")
    if facts["namespaces"]:
        parts.append("ns")
    if facts["cgroup"]:
        parts.append(f"cgroup {facts['cgroup']}")
    return " ".join(parts)


def _clear(lab: Lab) -> None:
    for path in lab.work.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _why(ran: Ran) -> str:
    """Return the evidence an outcome comes with, for a report of this case."""
    if not ran.results or "detail" in ran.facts:
        return str(ran.facts.get("detail", ""))[:300]
    logs = {name: text[-200:] for name, text in ran.last.logs.items()}
    return f"{dict(ran.last.detail)!s:.300} {logs}"
