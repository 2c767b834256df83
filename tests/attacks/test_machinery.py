"""The suite itself: what it takes for a refusal, and that it can fail."""

from __future__ import annotations

import os
import queue
import subprocess
import sys

import pytest

from tests.attacks import lab_thread, oracle, runner
from tests.attacks.fixtures import MARK
from tests.attacks.gaps import GAPS
from tests.attacks.lab_thread import LabThread
from tests.attacks.model import Case, Gap, Ran, denied
from tests.attacks.runner import Verdict
from tests.attacks.table import Table


@pytest.mark.parametrize("code", ["EPERM", "EACCES", "ENOSYS", "EAFNOSUPPORT", "DENIED"])
def test_a_code_of_the_kernel_is_a_refusal(code: str) -> None:
    """Our choice: the codes are listed, and DENIED is what handlers say themselves."""
    assert denied(code)


@pytest.mark.parametrize(
    "word",
    ["ok", "ok:1", "SLOW", "EINVAL", "EBADF", "EISDIR", "ZeroDivisionError", "KeyError",
     "TypeError", "broken: 127 sh: strace: not found", "", None, 0],
)  # fmt: skip
def test_an_attempt_that_was_wrong_is_no_refusal(word: object) -> None:
    """Our choice: what fails without a sandbox as well proves nothing of one."""
    assert not denied(word)


def _judged(case: Case, report: object) -> list[str]:
    verdict = Verdict(case.id, case.title, "baseline", "pooled")
    runner._judge_report(case, Ran("baseline", "pooled", report=report), verdict)
    return verdict.problems


def test_a_broken_attempt_and_a_lost_report_are_problems() -> None:
    """Our choice: a case has to say what became of each of its attempts."""
    case = Case("F00.x", "x", "py", "attempt('a', f)")
    assert _judged(case, {"a": "EPERM"}) == []
    assert len(_judged(case, {"a": "TypeError"})) == 1
    assert len(_judged(case, {})) == 1
    assert len(_judged(case, None)) == 1


def test_a_gap_that_closed_is_a_problem() -> None:
    """Our choice: the table of gaps is never longer than what is open."""
    gap = Gap(next(iter(GAPS)), ("baseline",), ("a",))
    case = Case("F00.x", "x", "py", "attempt('a', f)", gaps=(gap,))
    assert _judged(case, {"a": "ok"}) == []
    assert len(_judged(case, {"a": "EPERM"})) == 1


def test_a_check_that_misses_its_measure_is_a_problem() -> None:
    """Our choice: one case without a value does not end the run of the others."""
    case = Case("F00.x", "x", "py", check=lambda ran: ran.report["=n"])
    told = runner._check(case, Ran("baseline", "pooled", report={}))
    assert told is not None
    assert "not measured" in told


@pytest.mark.parametrize("as_json", [True, False])
def test_a_table_without_rows_fails(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Our choice: a run in which nothing ran has shown nothing."""
    table = Table(as_json=as_json, only_failures=False)
    assert table.finish() == 1
    table.add(Verdict("F00.x", "x", "baseline", "pooled"), 0.0)
    assert table.finish() == 0
    capsys.readouterr()


def test_a_mark_in_the_arguments_of_a_process_is_found() -> None:
    """Our choice: a shell that waits keeps its own name."""
    mark = f"{MARK}{os.getpid():x}test"
    program = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        assert oracle._marked(mark) == [process.pid]
        process.stdin.close()


def test_a_late_verdict_is_not_taken_for_the_next_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our choice: an answer belongs to the case that it was asked for."""
    monkeypatch.setattr(LabThread, "_work", lambda self: None)
    thread = LabThread(None, "baseline", "pooled")  # type: ignore[arg-type]
    first, second = (Case(f"F00.{n}", n, "py") for n in ("a", "b"))
    monkeypatch.setattr(lab_thread, "_ANSWER_SECONDS", 0.0)
    with pytest.raises(queue.Empty):
        thread.run(first)
    late, right = (Verdict(c.id, c.title, "baseline", "pooled") for c in (first, second))
    thread._done.put((0, late))
    thread._done.put((1, right))
    assert thread.run(second) is right
