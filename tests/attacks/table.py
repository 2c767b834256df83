"""Run the attack suite and print a table: ``python tests/attacks/table.py``.

Exit status: 0 when everything is contained or a known gap, 1 otherwise or when nothing ran,
2 for usage.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[:1] = [str(ROOT), str(ROOT / "tests")]

import trio  # noqa: E402 - the path has to be set first

from tests.attacks.corpus import CASES, EXCLUDED  # noqa: E402
from tests.attacks.fixtures import World, open_world  # noqa: E402
from tests.attacks.gaps import GAPS  # noqa: E402
from tests.attacks.lab import TierMissing, open_lab  # noqa: E402
from tests.attacks.model import EFFECTS, ISOLATIONS, TIERS, Case  # noqa: E402
from tests.attacks.runner import Verdict, run_case  # noqa: E402

__all__ = ["UserCommand", "main", "ordinary_user_command"]

NOBODY = 65534


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Run the attack suite and print a table.")
    parser.add_argument("--tier", choices=TIERS, action="append", help="only this tier")
    parser.add_argument("--isolation", choices=ISOLATIONS, action="append")
    parser.add_argument(
        "--effects",
        choices=EFFECTS,
        default="declared",
        help="of every profile; on a view only what runs on one: tiers above baseline, fresh",
    )
    parser.add_argument("--case", action="append", help="only ids that begin so")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--failures", action="store_true", help="print only what is not contained")
    parser.add_argument("--as-user", action="store_true", help="as an ordinary user, from root")
    return parser.parse_args(argv)


@dataclass(frozen=True, slots=True)
class UserCommand:
    """How to run this program as an ordinary user."""

    command: list[str]
    env: dict[str, str]
    uid: int


def ordinary_user_command(arguments: list[str], uid: int = NOBODY) -> UserCommand | str:
    """Find an interpreter that ``uid`` may run with our packages, or say why there is none."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    path = [str(ROOT), str(ROOT / "tests"), sysconfig.get_path("purelib")]
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        **{k: v for k, v in os.environ.items() if k.startswith("RAW_EXEC_")},
    }
    said = "no interpreter found"
    for python in (sys.executable, shutil.which(version, path=env["PATH"])):
        if python is None:
            continue
        try:
            tried = subprocess.run(
                [python, "-c", "import trio, psutil, wasmtime, jsonschema_rs, re2, raw_exec"],
                env=env, cwd="/", user=uid, group=uid, extra_groups=[], capture_output=True,
                text=True,
            )  # fmt: skip
        except OSError as exc:
            said = f"{python} can't be run by uid {uid}: {exc.strerror}"
            continue
        if tried.returncode == 0:
            return UserCommand([python, str(Path(__file__).resolve()), *arguments], env, uid)
        said = f"{python}, run by uid {uid}: {tried.stderr.strip()[-200:]}"
    return said


class Table:
    """Prints rows as they come and counts them."""

    def __init__(self, *, as_json: bool, only_failures: bool) -> None:
        self.as_json = as_json
        self.only_failures = only_failures
        self.totals: Counter[tuple[str, str, str]] = Counter()
        self.missing: dict[str, str] = {}

    def add(self, verdict: Verdict, seconds: float) -> None:
        """Print one row."""
        self.totals[verdict.tier, verdict.isolation, verdict.contained] += 1
        if self.only_failures and verdict.contained != "no":
            return
        if self.as_json:
            row = {**asdict(verdict), "contained": verdict.contained, "seconds": round(seconds, 3)}
            print(json.dumps(row), flush=True)
            return
        contained = verdict.contained
        if verdict.gaps:
            contained += f" ({', '.join(verdict.gaps)})"
        print(
            f"{verdict.case:18} {verdict.tier:10} {verdict.isolation:6} {verdict.code:19} "
            f"{verdict.enforced:40} {contained}",
            flush=True,
        )
        for problem in verdict.problems:
            print(f"    {problem}", flush=True)

    def note_missing(self, tier: str, reason: str) -> None:
        """Say once that a tier is not there."""
        if tier in self.missing:
            return
        self.missing[tier] = reason
        text = json.dumps({"missing": reason, "problems": []}) if self.as_json else reason
        print(text, flush=True)

    def finish(self) -> int:
        """Print totals and the lists; return the exit status."""
        bad = sum(n for key, n in self.totals.items() if key[2] == "no")
        status = 1 if bad or not self.totals else 0
        if self.as_json:
            return status
        print(f"\n{'tier':10} {'':6} contained  gap  not contained")
        for tier, isolation in dict.fromkeys(key[:2] for key in self.totals):
            yes, gap, no = (self.totals[tier, isolation, word] for word in ("yes", "gap", "no"))
            print(f"{tier:10} {isolation:6} {yes:9}  {gap:3}  {no:13}")
        for name, sentence in GAPS.items():
            print(f"gap {name}: {sentence}")
        for corpus_id, reason in EXCLUDED.items():
            print(f"left out {corpus_id}: {reason}")
        return status


def run_column(
    world: World,
    tier: str,
    isolation: str,
    cases: list[Case],
    table: Table,
    *,
    effects: str = "declared",
) -> None:
    """Run cases on one tier and isolation; open another lab after a case that broke one."""
    todo = deque(cases)

    async def run() -> None:
        async with open_lab(world, tier, isolation, CASES, effects=effects) as lab:
            while todo and not lab.broken:
                start = time.perf_counter()
                verdict = await run_case(lab, todo.popleft())
                table.add(verdict, time.perf_counter() - start)

    while todo:
        before = len(todo)
        try:
            trio.run(run)
        except BaseExceptionGroup as group:
            missing, rest = group.split(TierMissing)
            if missing is not None and rest is None:
                table.note_missing(tier, _first(missing))
                return
            if len(todo) == before:
                raise
            problem = f"the runtime could not be closed: {_first(group)!r}"
            verdict = Verdict("U9.close", "close the runtime", tier, isolation, "raised")
            verdict.problems.append(problem)
            table.add(verdict, 0.0)


def _first(group: BaseExceptionGroup[BaseException]) -> str:
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return str(inner)


@contextmanager
def _temporary() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="attacks-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(argv: list[str] | None = None) -> int:
    """Run what was asked for."""
    options = parse_arguments(argv)
    if options.as_user:
        arguments = [word for word in argv or sys.argv[1:] if word != "--as-user"]
        found = ordinary_user_command(arguments)
        if isinstance(found, str):
            print(found, file=sys.stderr)
            return 2
        return subprocess.run(
            found.command, env=found.env, cwd="/", user=found.uid, group=found.uid, extra_groups=[]
        ).returncode
    chosen = [
        case
        for case in CASES
        if not options.case or any(case.id.startswith(start) for start in options.case)
    ]
    tiers, isolations = options.tier or TIERS, options.isolation or ISOLATIONS
    if options.effects != "declared":
        # A view takes a mount namespace, and belongs to one call.
        tiers, isolations = [tier for tier in tiers if tier != "baseline"], ["fresh"]
        chosen = [case for case in chosen if not case.once]
    table = Table(as_json=options.json, only_failures=options.failures)
    with _temporary() as folder, open_world(folder) as world:
        for tier in tiers:
            for isolation in isolations:
                cases = [c for c in chosen if c.runs_on(tier, first=not table.totals)]
                if tier not in table.missing:
                    run_column(world, tier, isolation, cases, table, effects=options.effects)
    return table.finish()


if __name__ == "__main__":
    raise SystemExit(main())
