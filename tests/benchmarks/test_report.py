"""The statistics and the report of the benchmarks; speed is never asserted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measure import Contestant, Unavailable, interleave, interleave_into
from benchmarks.report import (
    Goal,
    Section,
    Summary,
    goal_rows,
    percentile,
    ratio_goal,
    render_goals,
    render_section,
    render_table,
    report_as_json,
    summarise,
)

finite = st.floats(min_value=-1e6, max_value=1e6)


def section(**fields: Any) -> Section:
    """Return a table with a base of 2 ms and one contestant of 3 ms."""
    made = Section("warm", "A warm call", "ms", "echo", **fields)
    made.rows += [Summary("echo", 4, 2.0, 2.5, 1.5), Summary("ours", 4, 3.0, 4.5, 2.5)]
    return made


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([5.0], 0.5, 5.0),
        ([3.0, 1.0, 2.0], 0.5, 2.0),
        ([1.0, 2.0, 3.0, 4.0], 0.5, 2.5),
        ([0.0, 10.0], 0.9, 9.0),
        ([1.0, 2.0, 3.0], 0.0, 1.0),
        ([1.0, 2.0, 3.0], 1.0, 3.0),
    ],
)
def test_a_percentile_is_interpolated_between_neighbours(
    values: list[float], share: float, expected: float
) -> None:
    """Our choice: the same definition as a spreadsheet's."""
    assert percentile(values, share) == expected


@given(st.lists(finite, min_size=1, max_size=30), st.floats(min_value=0, max_value=1))
def test_a_percentile_lies_between_the_extremes(values: list[float], share: float) -> None:
    """Whatever the samples are, no percentile is outside them."""
    assert min(values) - 1e-9 <= percentile(values, share) <= max(values) + 1e-9


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], -0.1), ([1.0], 1.1)])
def test_a_percentile_of_nothing_is_refused(values: list[float], share: float) -> None:
    """A table must not show a number that nobody measured."""
    with pytest.raises(ValueError, match=r"no values|share must be"):
        percentile(values, share)


def test_a_summary_pools_samples_and_keeps_the_best_round() -> None:
    """The best round is the lowest median of a round, not the lowest sample."""
    summary = summarise("ours", [[1.0, 5.0, 3.0], [], [2.0, 2.0, 2.0]], scale=10)
    assert summary == Summary("ours", 6, 20.0, 40.0, 20.0)


def test_a_throughput_summary_turns_the_tails_round() -> None:
    """Where more is better, the best round is the highest and p90 what 90 % reach."""
    summary = summarise("ours", [[100.0], [200.0], [300.0]], higher_is_better=True)
    assert summary == Summary("ours", 3, 200.0, 120.0, 300.0)


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal("a", 1.5, 1.5), True),
        (Goal("a", 1.5, 1.51), False),
        (Goal("a", 0.8, 0.8, at_least=True), True),
        (Goal("a", 0.8, 0.79, at_least=True), False),
        (Goal("a", 1.5, None), None),
    ],
)
def test_a_goal_is_met_up_to_and_with_its_limit(goal: Goal, met: bool | None) -> None:
    """What was not measured is neither met nor missed."""
    assert goal.met is met


def test_a_ratio_goal_judges_medians_of_one_table() -> None:
    """The base can be another than the table's."""
    table = section()
    assert ratio_goal(table, "fast", "ours", limit=1.4) == Goal("fast", 1.4, 1.5)
    assert ratio_goal(table, "slow", "echo", limit=1.0, base="ours") == Goal("slow", 1.0, 2 / 3)


def test_a_goal_without_its_peer_says_why_it_was_not_measured() -> None:
    """A peer that is missing is named with its reason, never dropped."""
    table = section(unavailable={"peer": "npm is not installed"})
    goal = ratio_goal(table, "fast", "ours", limit=1.4, base="peer")
    assert goal == Goal("fast", 1.4, None, note="peer: npm is not installed")


def test_a_goal_of_a_broken_contestant_says_what_broke() -> None:
    """The failure of the table stands in where a contestant has none of its own."""
    table = section(broken={"mine": "it ended with 1"}, failure="the table broke off")
    assert table.missing("echo", "mine") == "mine: it ended with 1"
    assert table.missing("other") == "other: the table broke off"
    assert table.missing("echo", "ours") == ""


def test_a_ratio_to_nothing_is_none() -> None:
    """Division by a median of zero must not end the run."""
    table = section()
    table.rows.append(Summary("zero", 1, 0.0, 0.0, 0.0))
    assert table.ratio("ours", "zero") is None
    assert table.ratio("absent") is None
    assert table.difference("ours", "echo") == 1.0
    assert table.difference("ours", "absent") is None


def test_a_table_has_aligned_columns() -> None:
    """Words to the left, numbers to the right."""
    assert render_table(("name", "n"), [("a", "1"), ("longer", "100")]) == (
        "name      n\n------  ---\na         1\nlonger  100"
    )


def test_a_rendered_section_shows_everyone_who_was_asked() -> None:
    """Rows, the missing with reasons, the broken, and notes."""
    table = section(
        unavailable={"peer": "npm is not installed"},
        broken={"mine": "it ended with 1"},
        notes=["whole dispatch"],
    )
    assert render_section(table).splitlines() == [
        "A warm call  [warm, ms; 0 s]",
        "contestant  n  p50  p90  best round  ratio",
        "----------  -  ---  ---  ----------  -----",
        "echo        4    2  2.5         1.5      1",
        "ours        4    3  4.5         2.5    1.5",
        "ratio: of medians, to 'echo'",
        "not available: peer: npm is not installed",
        "FAILED: mine: it ended with 1",
        "note: whole dispatch",
    ]


def test_rendered_goals_name_what_was_not_measured() -> None:
    """The reason follows the table."""
    table = section(
        goals=[Goal("fast", 1.5, 1.4), Goal("small", 6, 7.25, "MiB"), Goal("x", 1, None, note="no")]
    )
    assert render_goals([table]).splitlines() == [
        "claim      goal  measured           met",
        "-----  --------  --------  ------------",
        "fast   <= 1.5 x     1.4 x           yes",
        "small  <= 6 MiB  7.25 MiB            NO",
        "x        <= 1 x         -  not measured",
        "not measured: x: no",
    ]


def test_the_json_report_holds_goals_rows_and_host() -> None:
    """A reader needs no other file; the numbers are in the table's unit."""
    table = section(goals=[Goal("fast", 1.5, 1.5, note="how")], facts={"bytes": 7})
    report = report_as_json(
        [table], host={"cpu_count": 2}, started="now", seconds=1.26, options={"quick": True}
    )
    rows = [
        {"name": "echo", "count": 4, "p50": 2.0, "p90": 2.5, "best_round": 1.5, "ratio": 1.0},
        {"name": "ours", "count": 4, "p50": 3.0, "p90": 4.5, "best_round": 2.5, "ratio": 1.5},
    ]
    assert json.loads(json.dumps(report)) == {
        "format": 1,
        "started": "now",
        "seconds": 1.3,
        "options": {"quick": True},
        "host": {"cpu_count": 2},
        "goals": goal_rows([table]),
        "sections": [
            {
                "key": "warm",
                "title": "A warm call",
                "unit": "ms",
                "base": "echo",
                "rows": [{**row, "note": ""} for row in rows],
                "unavailable": {},
                "broken": {},
                "notes": [],
                "facts": {"bytes": 7},
                "failure": None,
                "seconds": 0.0,
            }
        ],
    }
    assert goal_rows([table]) == [
        {
            "section": "warm",
            "claim": "fast",
            "goal": "<= 1.5 x",
            "limit": 1.5,
            "measured": 1.5,
            "unit": "x",
            "met": True,
            "note": "how",
        }
    ]


class Recorder:
    """Contestants that write down when they run instead of doing anything."""

    def __init__(self) -> None:
        self.order: list[tuple[str, int]] = []

    def contestant(self, name: str, *, fails: Exception | None = None, **fields: Any) -> Contestant:
        """Return a contestant whose samples are all 1 s, or which raises."""

        async def run(calls: int) -> list[float]:
            self.order.append((name, calls))
            if fails is not None:
                raise fails
            return [1.0] * calls

        return Contestant(name, run, **fields)


async def test_each_round_begins_with_the_next_contestant() -> None:
    """A slow moment must not always hit the same one."""
    recorder = Recorder()
    contestants = [recorder.contestant(name) for name in "abc"]
    samples, errors = await interleave(contestants, rounds=3, calls=2, warm_up=0)
    assert "".join(name for name, _ in recorder.order) == "abcbcacab"
    assert samples == {name: [[1.0, 1.0]] * 3 for name in "abc"}
    assert errors == {}


async def test_a_slow_peer_takes_part_in_fewer_rounds_with_fewer_calls() -> None:
    """Its samples still come from among the others'."""
    recorder = Recorder()
    contestants = [recorder.contestant("a"), recorder.contestant("slow", calls=1, rounds=1)]
    samples, _ = await interleave(contestants, rounds=3, calls=2, warm_up=5)
    assert recorder.order[:2] == [("a", 5), ("slow", 5)]
    assert samples == {"a": [[1.0, 1.0]] * 3, "slow": [[1.0]]}


async def test_a_failing_contestant_does_not_end_the_others() -> None:
    """A peer's failure is an absence; one of ours is a failure of the run."""
    recorder = Recorder()
    table = Section("warm", "A warm call", "ms", "a")
    contestants = [
        recorder.contestant("a"),
        recorder.contestant("peer", fails=Unavailable("no npm"), is_peer=True),
        recorder.contestant("ours", fails=ExceptionGroup("many", [RuntimeError("it broke")])),
    ]
    await interleave_into(table, contestants, rounds=2, calls=1, scale=1e3)
    assert table.rows == [Summary("a", 2, 1000.0, 1000.0, 1000.0)]
    assert table.unavailable == {"peer": "no npm"}
    assert table.broken == {"ours": "RuntimeError: it broke"}
