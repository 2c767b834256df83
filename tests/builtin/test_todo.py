"""The todo tool: its rules, and the list that lives in its panel."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import raw_exec
from raw_exec.builtin.todo.listing.rules import FINISHED, MAX_ITEMS, InvalidTodo, change
from raw_exec.sessions import Session
from toolbox import write_config

SECONDS = 60


def item(ident: str, label: str = "x", status: str = "pending", *subs: Any) -> dict[str, Any]:
    return {"id": ident, "label": label, "status": status, "subtasks": list(subs)}


def sub(ident: str, status: str = "pending") -> dict[str, Any]:
    return {"id": ident, "label": ident, "status": status}


def test_new_items_get_the_smallest_unused_ids() -> None:
    """Ids of given items, later ones included, are not given again."""
    new = change([], [{"label": "a"}, {"id": "t2", "label": "b"}, {"label": "c"}], mode="replace")
    assert [i["id"] for i in new] == ["t1", "t2", "t3"]


def test_ids_are_free_again_after_replace_and_taken_in_merge() -> None:
    """The smallest unused: what is gone is unused."""
    old = [item("t1"), item("t3")]
    assert [i["id"] for i in change(old, [{"label": "n"}], mode="replace")] == ["t1"]
    merged = change(old, [{"label": "n"}, {"label": "m"}], mode="merge")
    assert [i["id"] for i in merged] == ["t1", "t3", "t2", "t4"]


def test_merge_changes_the_given_fields_only() -> None:
    """Whatever is not named stays, subtasks too; an empty note removes it."""
    old = [{**item("t1", "a", "pending", sub("t2")), "note": "n", "priority": "low"}]
    new = change(old, [{"id": "t1", "status": "in_progress", "note": ""}], mode="merge")
    expected = {**item("t1", "a", "in_progress", sub("t2")), "priority": "low"}
    assert new == [expected]
    assert old[0]["note"] == "n"


def test_subtasks_are_merged_like_the_list() -> None:
    """By id, appended without one, and never with subtasks of their own."""
    old = [item("t1", "a", "pending", sub("t2"))]
    given_subs = [{"id": "t2", "status": "done"}, {"label": "new"}]
    new = change(old, [{"id": "t1", "subtasks": given_subs}], mode="merge")
    wanted = [sub("t2", "done"), {"id": "t3", "label": "new", "status": "pending"}]
    assert new == [item("t1", "a", "pending", *wanted)]


def test_clear_drops_finished_items_and_subtasks() -> None:
    """Done and skipped ones, with what is below them."""
    old = [
        item("t1", "a", "done", sub("t2", "skipped")),
        item("t3", "b", "pending", sub("t4", "done")),
    ]
    assert change(old, [], mode="merge", clear="done") == [item("t3", "b", "pending")]


@pytest.mark.parametrize(
    ("given_items", "mode", "message"),
    [
        ([{"id": "t9", "status": "done"}], "merge", "t9 is not in the list"),
        ([{"id": "t1", "subtasks": [{"id": "t9"}]}], "merge", "t9 is not in the subtasks of t1"),
        ([{"status": "done"}], "merge", "a new item has no label"),
        (
            [{"label": "n", "subtasks": [{"id": "t2", "label": "s"}]}],
            "merge",
            "t2 ('s') is not in the subtasks of a new item",
        ),
        ([{"id": "t5"}], "replace", "t5 has no label"),
        ([{"id": "t1"}, {"id": "t1"}], "merge", "t1 is given twice"),
        ([{"id": "t3", "status": "in_progress"}], "merge", "t3 ('b') can't be in_progress"),
        ([{"id": "t1", "status": "done"}], "merge", "t1 ('a') is done, but its subtask t2 is not"),
        ([{"label": str(n)} for n in range(98)], "merge", "the list would have 101 items"),
    ],
)  # fmt: skip
def test_a_broken_rule_names_the_item_and_changes_nothing(
    given_items: list[dict[str, Any]], mode: str, message: str
) -> None:
    """invalid_todo: all or nothing."""
    old = [item("t1", "a", "in_progress", sub("t2")), item("t3", "b")]
    before = repr(old)
    with pytest.raises(InvalidTodo) as caught:
        change(old, given_items, mode=mode)
    assert message in str(caught.value)
    assert repr(old) == before


_STATUS = st.sampled_from(["pending", "in_progress", "done", "skipped", "blocked"])
_LEAF = st.fixed_dictionaries(
    {"label": st.text(min_size=1, max_size=3), "status": _STATUS},
    optional={"id": st.sampled_from(["t1", "t2", "t3", "t4"])},
)
_ITEM = st.builds(
    lambda leaf, subs: {**leaf, **({"subtasks": subs} if subs is not None else {})},
    _LEAF,
    st.none() | st.lists(_LEAF, max_size=3),
)


@settings(deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink])
@given(
    st.lists(
        st.tuples(st.lists(_ITEM, max_size=4), st.sampled_from(["replace", "merge"])), max_size=4
    )
)
def test_every_accepted_list_keeps_every_rule(calls: list[tuple[list[Any], str]]) -> None:
    """Whatever sequence of calls: unique ids, one running item, no finished parent of open ones."""
    items: list[dict[str, Any]] = []
    for given_items, mode in calls:
        try:
            items = change(items, given_items, mode=mode)
        except InvalidTodo:
            continue
        flat = [part for top in items for part in (top, *top["subtasks"])]
        assert len({part["id"] for part in flat}) == len(flat) <= MAX_ITEMS
        assert sum(part["status"] == "in_progress" for part in flat) <= 1
        assert all("subtasks" not in part for top in items for part in top["subtasks"])
        for top in items:
            if top["status"] in FINISHED:
                assert all(part["status"] in FINISHED for part in top["subtasks"])


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    """A session with the tool."""
    config = raw_exec.load_config(write_config(tmp_path, ["builtin/todo"]))
    async with (
        raw_exec.open_runtime(config, cwd=tmp_path) as runtime,
        runtime.open_session() as opened,
    ):
        yield opened


async def _call(session: Session, **arguments: Any) -> raw_exec.ToolResult:
    return await session.dispatch("todo", {"mode": "merge", "todos": [], **arguments})


async def test_the_list_lives_in_its_panel(session: Session) -> None:
    """What people see is what the next call works on."""
    with trio.fail_after(SECONDS):
        first = [{"label": "A", "subtasks": [{"label": "A1"}]}, {"label": "B", "status": "done"}]
        await _call(session, mode="replace", todos=first, title="Plan")
        result = await _call(session, todos=[{"id": "t1", "status": "in_progress"}])
    (block,) = result.content
    assert block["value"] == {
        "todos": [
            item("t1", "A", "in_progress", {"id": "t2", "label": "A1", "status": "pending"}),
            item("t3", "B", "done"),
        ],
        "finished": 1,
        "total": 3,
        "title": "Plan",
    }
    view = session.panel("builtin/todo#todo")
    document = view.as_dict()["document"]
    assert (view.revision, document["title"], document["status"]) == (2, "Plan", "active")
    assert document["progress"] == {"done": 1, "total": 3}
    assert "t1 [in_progress] A" in session.reminder()


async def test_invalid_todo_leaves_panel_and_revision_as_they_were(session: Session) -> None:
    """The code is the tool's own, and the item is named."""
    with trio.fail_after(SECONDS):
        await _call(session, todos=[{"label": "A"}])
        result = await _call(session, todos=[{"label": "B"}, {"id": "t7"}])
    assert (result.code, result.origin) == ("invalid_todo", "tool")
    assert "t7" in result.text
    assert session.panel("builtin/todo#todo").revision == 1


async def test_calls_at_the_same_time_lose_nothing(session: Session) -> None:
    """Each works on what another one left, the first ones of all included."""
    with trio.fail_after(SECONDS):
        async with trio.open_nursery() as nursery:
            for number in range(4):
                nursery.start_soon(
                    lambda n=number: _call(session, todos=[{"label": f"n{n}"}])  # type: ignore[misc]
                )
        result = await _call(session)
    labels = sorted(i["label"] for i in result.content[0]["value"]["todos"])
    assert labels == ["n0", "n1", "n2", "n3"]


async def test_a_list_that_is_too_large_for_its_panel_is_refused_whole(session: Session) -> None:
    """64 KiB of panel: with its code, and nothing has changed."""
    with trio.fail_after(SECONDS):
        await _call(session, todos=[{"label": "A"}])
        notes = [{"label": "B" * 200, "note": "n" * 500} for _ in range(99)]
        result = await _call(session, todos=notes)
        kept = await _call(session)
    assert (result.is_error, result.code) == (True, "panel_too_large")
    assert [i["label"] for i in kept.content[0]["value"]["todos"]] == ["A"]


async def test_a_person_clears_finished_items_by_the_panels_action(session: Session) -> None:
    """The action is an ordinary call of the tool with its own source."""
    with trio.fail_after(SECONDS):
        await _call(session, todos=[{"label": "A", "status": "done"}, {"label": "B"}])
        action = session.resolve_action("builtin/todo#todo", "clear_done")
        result = await session.run_action(action)
    assert isinstance(result, raw_exec.ToolResult)
    assert [i["label"] for i in result.content[0]["value"]["todos"]] == ["B"]
    (newest, _) = await session.history.calls(session.id)
    assert newest.source == "user_action"


async def test_without_a_session_there_is_no_list(tmp_path: Path) -> None:
    """Said in the panels' own words, and not as an empty list."""
    config = raw_exec.load_config(write_config(tmp_path, ["builtin/todo"]))
    with trio.fail_after(SECONDS):
        async with raw_exec.open_runtime(config, cwd=tmp_path) as runtime:
            result = await runtime.registry.dispatch("todo", {"mode": "merge", "todos": []})
    assert (result.is_error, result.code) == (True, "panel_closed_context")
