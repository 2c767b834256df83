"""Run the cases of tools, each in a folder of its own and in a process of its own.

A case goes through the stages of every call; only the surroundings differ:

1. The working directory is a throw-away folder with the case's files.
2. The worker serves this one call (``isolation: fresh``), so its whole process tree is dead
   before the folder is looked at again.
3. A check in CI must change nothing that it does not throw away. A tool with write grants
   outside of that folder runs on a copy-on-write view of all of them, and nothing is committed.
   Where that can't be had they are withheld. The report says which.

Without such grants the folder is written to: it is thrown away in any case, and a view is not
quite like a folder (a directory that was there before can't be renamed on it).
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from ..approval import Answer, ApprovalRequest, Approver
from ..config import Config
from ..dispatch import Call, Services, ToolResult, dispatch_call
from ..errors import ConfigError, ManifestError, RawExecError
from ..jsontext import JsonTextError, read_regular_file
from ..limits import MAX_MANIFEST_BYTES
from ..pool import WorkerSpec
from ..private_root import open_private_root, remove_tree
from ..runtime import Runtime, open_runtime
from ..sandbox import SandboxPlan
from ..tools import Tool
from .case import Case, parse_case
from .effects import Change, compare_effects, declared_effects, find_changes
from .expected import compare_described, compare_files, compare_outcome, put_cwd, take_out_cwd
from .folder import FolderError, Node, read_folder, write_folder
from .layers import Seen, is_in, look_at_view
from .report import CaseReport, Finding, ToolReport, from_problems, place

__all__ = ["ToolCases", "find_cases", "run_cases"]

_FOLDER = "cases/"
_MAX_CASES = 10_000
_MAX_SAID_CHARS = 1000


@dataclass(frozen=True, slots=True)
class ToolCases:
    """A tool with the cases to run.

    Args:
        cases: Valid cases in order of name.
        invalid: Reports of case files that can't be used.
    """

    tool: Tool
    cases: tuple[Case, ...]
    invalid: tuple[CaseReport, ...]


def find_cases(tool: Tool, folder: Path | None = None) -> ToolCases:
    """Read the cases that a tool ships as ``cases/*.json``, from the snapshot that will run.

    Args:
        tool: The loaded tool.
        folder: Read ``*.json`` from here instead.

    Raises:
        ConfigError: ``cases_unreadable``: ``folder`` can't be listed, or holds too many.
    """
    if folder is None:
        texts, shown = _shipped(tool), Path(tool.snapshot.source) / _FOLDER
    else:
        texts, shown = _in_folder(folder), folder
    if len(texts) > _MAX_CASES:
        raise ConfigError(
            "cases_unreadable", f"has {len(texts)} cases; at most {_MAX_CASES}", where=str(shown)
        )
    cases, invalid = [], []
    for name in sorted(texts):
        path = str(shown / name)
        short = name.removesuffix(".json")
        try:
            cases.append(parse_case(texts[name](), name=short, where=path))
        except (ManifestError, JsonTextError) as exc:
            found = from_problems(exc.problems) or (Finding("invalid", exc.message),)
            invalid.append(CaseReport(short, path, "invalid", failures=found))
        except OSError as exc:
            finding = Finding("invalid", f"can not be read: {exc.strerror}")
            invalid.append(CaseReport(short, path, "invalid", failures=(finding,)))
    return ToolCases(tool, tuple(cases), tuple(invalid))


def _shipped(tool: Tool) -> dict[str, Callable[[], bytes]]:
    found: dict[str, Callable[[], bytes]] = {}
    for path in tool.snapshot.entries:
        name = path.removeprefix(_FOLDER)
        if path.startswith(_FOLDER) and name.endswith(".json") and "/" not in name:
            found[name] = lambda path=path: tool.snapshot.read(path)  # type: ignore[misc]
    return found


def _in_folder(folder: Path) -> dict[str, Callable[[], bytes]]:
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".json")]
    except OSError as exc:
        raise ConfigError(
            "cases_unreadable", f"can not be listed: {exc.strerror}", where=str(folder)
        ) from exc
    return {
        name: lambda name=name: read_regular_file(  # type: ignore[misc]
            str(folder / name), MAX_MANIFEST_BYTES
        )
        for name in names
    }


async def run_cases(
    config: Config,
    tools: Sequence[tuple[ToolReport, ToolCases]],
    *,
    jobs: int = 1,
    strict_effects: bool = False,
    progress: Callable[[ToolReport, CaseReport], None] | None = None,
    simulate: Sequence[str] = (),
) -> None:
    """Run cases and put what came of them into the reports, in order of name.

    If cancelled, every worker is killed and reaped and every folder is removed.

    Args:
        config: Sandbox profiles, limits and variables; its selection of tools is not used.
        tools: Each report is filled in.
        jobs: How many run at the same time.
        strict_effects: A change is a failure also where a tool declares no file effects.
        progress: Called when a case has ended, in any order.
        simulate: Features of the host to treat as missing, as for ``open_runtime``.

    Raises:
        ConfigError: The configuration can't be used by a runtime.
    """
    bare = config.without_tools(hooks=True)
    room = trio.CapacityLimiter(max(1, min(jobs, config.limits.max_workers)))
    done: dict[tuple[int, int], CaseReport] = {}

    with open_private_root() as root:
        async with open_runtime(bare, cwd="/", spares=0, simulate=simulate) as runtime:
            views = bool((await runtime.launcher.capabilities())["overlay"]["works"])

            async def run(key: tuple[int, int], report: ToolReport, tool: Tool, case: Case) -> None:
                async with room:
                    one = _Run(
                        runtime, tool, case, root, strict_effects=strict_effects, views=views
                    )
                    done[key] = await one.run()
                if progress is not None:
                    progress(report, done[key])

            async with trio.open_nursery() as nursery:
                for first, (report, found) in enumerate(tools):
                    for second, case in enumerate(found.cases):
                        key = (first, second)
                        nursery.start_soon(run, key, report, found.tool, case)
    for first, (report, found) in enumerate(tools):
        ran = [done[first, second] for second in range(len(found.cases))]
        report.cases = sorted([*ran, *found.invalid], key=lambda item: item.name)


class _Run:
    """One case on its way."""

    def __init__(
        self,
        runtime: Runtime,
        tool: Tool,
        case: Case,
        root: Path,
        *,
        strict_effects: bool,
        views: bool,
    ) -> None:
        self._runtime = runtime
        self._tool = tool
        self._case = case
        self._root = root
        self._strict = strict_effects
        self._views = views
        self._failures: list[Finding] = []
        self._warnings: list[Finding] = []
        self._real: dict[str, str] = {}
        self._before: dict[str, Node] = {}
        self._seen: Seen | None = None
        self._unseen: FolderError | None = None

    async def run(self) -> CaseReport:
        # Security: 0700, in a directory that is swept when this process is killed.
        folder = Path(tempfile.mkdtemp(prefix="case-", dir=self._root))
        result: ToolResult | None = None
        changes: tuple[Change, ...] = ()
        try:
            await trio.to_thread.run_sync(write_folder, folder, self._case.files)
            self._before = await trio.to_thread.run_sync(read_folder, folder)
            call, result = await self._call(folder)
            if self._unseen is not None:
                raise self._unseen
            after = None if self._seen is None else self._seen.after
            if after is None:
                after = await trio.to_thread.run_sync(read_folder, folder)
            changes = find_changes(self._before, after)
            self._judge(call, result, changes, after, folder)
        except OSError as exc:
            name = "" if exc.filename is None else f" {Path(str(exc.filename)).name!r}"
            text = f"the case's files can't be written or read:{name} {exc.strerror}"
            self._failures.append(Finding("folder", text, "/files"))
        except FolderError as exc:
            self._failures.append(Finding("folder", str(exc)))
        elsewhere = () if self._seen is None else self._seen.elsewhere
        report = self._report(result, (*changes, *elsewhere), str(folder))
        await trio.to_thread.run_sync(remove_tree, folder)
        return report

    async def _call(self, folder: Path) -> tuple[Call, ToolResult]:
        call = self._new_call(str(folder))
        result = await dispatch_call(call, self._services(call))
        if call.dry_run and not call.handler_ran and result.code == "sandbox_unavailable":
            # A grant that no view can be put over; nothing was run.
            self._views = False
            self._warnings.clear()
            call = self._new_call(str(folder))
            result = await dispatch_call(call, self._services(call))
        return call, result

    def _new_call(self, cwd: str) -> Call:
        case, limits = self._case, self._runtime.limits
        budget = case.max_output_bytes or self._runtime.config.agent.max_output_bytes
        return Call(
            name=self._tool.name,
            raw_arguments=put_cwd(case.args, cwd),
            cwd=cwd,
            max_output_bytes=budget,
            tool_call_id="case",
            source="model",
            call_ms=min(limits.call_ms, case.timeout_ms or limits.call_ms),
        )

    def _services(self, call: Call) -> Services:
        runtime, identity = self._runtime, self._tool.identity
        return Services(
            registry=runtime.loaded.with_tool(self._tool),
            pool=runtime.pool,
            descriptors=runtime.descriptors,
            spec_for=lambda tool, cwd: self._spec_for(call, tool, cwd),
            approve=_approver(self._case.approve),
            limits=runtime.limits,
            pre_hooks=self._before_handler,
            post_hooks=self._after_handler,
            requests=lambda _call: runtime.variables.requests_for(identity),
            redact=runtime.variables.redact if runtime.config.agent.vars else None,
        )

    def _spec_for(self, call: Call, tool: Tool, cwd: str) -> WorkerSpec:
        spec = self._runtime.spec_for(tool, cwd)
        plan = spec.plan
        inside = tuple(path for path in plan.write if is_in(path, cwd))
        outside = ", ".join(repr(path) for path in plan.write if path not in inside)
        text = ""
        if not plan.sandbox:
            text = f"profile {plan.profile!r} has no sandbox: changes elsewhere are not seen"
        elif outside and self._views and _fits_view(plan, cwd):
            call.dry_run = True
            text = f"profile {plan.profile!r} grants writing to {outside}; "
            text += "run on a copy-on-write view, and nothing kept"
        elif outside:
            text = f"profile {plan.profile!r} grants writing to {outside}; withheld here"
        if text and not any(item.message == text for item in self._warnings):
            self._warnings.append(Finding("grants", text))
        write = plan.write if call.dry_run else inside
        plan = dataclasses.replace(plan, write=write, isolation="fresh")
        return dataclasses.replace(spec, plan=plan)

    async def _before_handler(self, call: Call) -> None:
        """Ask the gates; note where declared paths lead, while the folder is as the case has it.

        Hooks that only tell are not told of cases.
        """
        await self._runtime.hooks.pre_tool(call)
        self._real = _where_paths_lead(call)

    async def _after_handler(self, call: Call, result: Mapping[str, Any]) -> None:
        """Look at the view of a call while it is there, whatever came of the call."""
        if call.view is None or not call.dry_run:
            return
        try:
            self._seen = await trio.to_thread.run_sync(look_at_view, call, self._before)
        except FolderError as exc:
            self._unseen = exc
        except RawExecError as exc:
            self._unseen = FolderError(str(exc))

    def _judge(
        self,
        call: Call,
        result: ToolResult,
        changes: tuple[Change, ...],
        after: Mapping[str, Node],
        folder: Path,
    ) -> None:
        expect = self._case.expect
        self._failures += compare_outcome(expect, result, call.cwd)
        self._failures += compare_described(expect, call.effects, call.cwd)
        self._failures += compare_files(expect, after, folder)
        speaks = self._speaks_of_files(call.effects)
        if not speaks and not self._strict:
            return
        declared = declared_effects(call.effects, call.cwd, self._real)
        verdict = compare_effects(changes, declared)
        why = "no declared effect covers it" if speaks else "the tool declares no file effects"
        for change in verdict.undeclared:
            self._failures.append(Finding("undeclared", f"undeclared {change}: {why}"))
        seen = self._seen or Seen({})
        for change in seen.bare:
            self._failures.append(Finding("undeclared", f"undeclared {change}: {why}"))
        for item in verdict.outside:
            if seen.covers(item.path):
                continue
            text = f"declared {item.operation} of {item.path!r} is elsewhere; not looked at"
            self._warnings.append(Finding("outside", text))
        if not result.is_error:
            for item in verdict.undone:
                shown = take_out_cwd(item.path, call.cwd)
                text = f"declared {item.operation} of {shown!r}, but it did not happen"
                self._warnings.append(Finding("undone", text))
            for operation, path in seen.undone:
                text = f"declared {operation} of {path!r}, but it did not happen"
                self._warnings.append(Finding("undone", text))

    def _speaks_of_files(self, effects: Any) -> bool:
        """Whether the tool's effects are about files, so that silence means "none"."""
        if isinstance(effects, dict) and isinstance(effects.get("files"), list):
            return True
        schema = self._tool.manifest.effects_schema
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return isinstance(properties, dict) and "files" in properties

    def _report(
        self, result: ToolResult | None, changes: tuple[Change, ...], cwd: str
    ) -> CaseReport:
        case = self._case
        outcome: dict[str, Any] = {}
        if result is not None:
            outcome = {
                "is_error": result.is_error,
                "code": result.code,
                "stage": result.stage,
                "origin": result.origin,
                "text": take_out_cwd(result.text, cwd)[:_MAX_SAID_CHARS],
                "tier": result.enforced.get("tier"),
                "looked_at": "folder" if self._seen is None else "view",
            }
        return CaseReport(
            name=case.name,
            path=case.path,
            status="failed" if self._failures else "passed",
            failures=tuple(place(case.text, item) for item in self._failures),
            warnings=tuple(place(case.text, item) for item in self._warnings),
            changes=changes,
            description=case.description,
            outcome=outcome,
            logs={} if result is None else take_out_cwd(dict(result.logs), cwd),
            elapsed_ms=0.0 if result is None else result.elapsed_ms,
        )


def _fits_view(plan: SandboxPlan, cwd: str) -> bool:
    """Whether a view can be read as what happened in ``cwd``, and elsewhere."""
    return plan.effects == "declared" and not any(
        is_in(cwd, path) for path in plan.write if path != cwd
    )


def _approver(answer: str) -> Approver | None:
    if answer == "none":
        return None

    def approve(_request: ApprovalRequest) -> Answer:
        return Answer(answer == "allow", None if answer == "allow" else "denied by the case")

    return approve


def _where_paths_lead(call: Call) -> dict[str, str]:
    declared = declared_effects(call.effects, call.cwd)
    return {item.path: os.path.realpath(item.path) for item in declared if item.names}
