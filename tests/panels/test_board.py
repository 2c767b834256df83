"""The board: ownership, revisions, limits, staging, restoring."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from panels.boards import OWNER, Clock, call, make_board, replace, todo

from raw_exec.manifest import PanelDeclaration
from raw_exec.panels import PanelBoard, PanelCall, PanelError, PanelRevision
from raw_exec.panels.board import MAX_SESSION_PANELS
from raw_exec.panels.requests import answer_panel_request


def code_of(panels: PanelCall, panel: object, body: object) -> str:
    """Return the code that an update is refused with."""
    with pytest.raises(PanelError) as caught:
        panels.update(panel, body)
    return caught.value.code


# ---------------------------------------------------------------- updates


def test_an_update_is_seen_at_once_and_returns_revisions_that_rise_by_one() -> None:
    """Contract: update resolves with the new revision; get returns the last one."""
    board, frames = make_board()
    panels = call(board)
    assert panels.get("todo") is None
    assert panels.update("todo", replace(todo(("a", "pending")))) == 1
    patch = [{"op": "upsert_items", "block": "list", "items": [{"id": "a", "status": "done"}]}]
    assert panels.update("todo", {"op": "patch", "patches": patch, "base_revision": 1}) == 2
    assert panels.get("todo") == {"revision": 2, "document": todo(("a", "done"))}
    assert [(f.id, f.revision, f.committed) for f in frames] == [
        (f"{OWNER}#todo", 1, False),
        (f"{OWNER}#todo", 2, False),
    ]


def test_settling_returns_the_last_revision_and_shows_it_as_committed() -> None:
    """Contract: streaming updates commit with the result."""
    board, frames = make_board()
    panels = call(board)
    panels.update("todo", replace(todo()))
    panels.update("todo", replace(todo(title="second")))
    expected = PanelRevision(
        OWNER,
        "todo",
        None,
        2,
        "open",
        todo(title="second"),
        1002,
        "c1",  # type: ignore[arg-type]
    )
    assert panels.settle() == (expected,)
    assert panels.settle() == ()
    assert [f.committed for f in frames] == [False, False, True]


def test_an_update_after_the_handler_settled_is_panel_closed_context() -> None:
    """Fault: update after the handler settled."""
    board, frames = make_board()
    panels = call(board)
    panels.update("todo", replace(todo()))
    panels.settle()
    seen = len(frames)
    assert code_of(panels, "todo", replace(todo(title="late"))) == "panel_closed_context"
    with pytest.raises(PanelError, match="over"):
        panels.get("todo")
    assert panels.apply_results([{"panel": "todo", **replace(todo())}], only=True) == [
        "panel todo update rejected: panel_closed_context "
        "the call that this update belongs to is over"
    ]
    assert len(frames) == seen
    assert board.view(f"{OWNER}#todo").revision == 1


def test_a_streaming_update_between_the_result_and_the_end_is_panel_closed_context() -> None:
    """The handler has returned by then: whatever still asks is something it left behind."""
    board, _ = make_board()
    panels = call(board)
    panels.apply_results([], only=False)
    assert code_of(panels, "todo", replace(todo())) == "panel_closed_context"


def test_a_stale_base_revision_is_a_conflict_and_changes_nothing() -> None:
    """Fault: stale base revision."""
    board, _ = make_board()
    panels = call(board)
    panels.update("todo", replace(todo()))
    panels.update("todo", replace(todo(title="new")))
    patch = {"op": "patch", "base_revision": 1, "patches": [{"op": "remove_block", "id": "list"}]}
    assert code_of(panels, "todo", patch) == "panel_revision_conflict"
    assert panels.get("todo") == {"revision": 2, "document": todo(title="new")}


def test_201_updates_of_one_panel_in_a_call_are_rate_limited_and_a_new_call_is_not() -> None:
    """Fault: 201 updates. Refused ones count, since looking at them costs the same."""
    board, _ = make_board()
    panels = call(board)
    for _ in range(199):
        panels.update("todo", replace(todo()))
    assert code_of(panels, "todo", {"op": "explode"}) == "panel_invalid"
    assert code_of(panels, "todo", replace(todo())) == "panel_rate_limited"
    assert panels.update("inline", replace(todo())) == 1
    assert call(board, "c2").update("todo", replace(todo())) == 200


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (None, ""),
        ({}, ""),
        ({"op": "explode"}, "/op"),
        ({"op": ["replace"]}, "/op"),
        ({"op": "replace"}, ""),
        ({"op": "replace", "document": {}, "patches": []}, "/patches"),
        ({"op": "replace", "document": {"blocks": [{"id": "x"}]}}, "/document/blocks/0"),
        ({"op": "close", "document": {}}, "/document"),
        ({"op": "patch", "patches": [], "base_revision": "1"}, "/base_revision"),
    ],
)
def test_a_malformed_update_is_panel_invalid_with_a_pointer(body: object, pointer: str) -> None:
    """Nothing that a handler may send is anything but accepted or refused."""
    board, frames = make_board()
    with pytest.raises(PanelError) as caught:
        call(board).update("todo", body)
    assert (caught.value.code, caught.value.pointer) == ("panel_invalid", pointer)
    assert frames == []


# ---------------------------------------------------------------- ownership


@pytest.mark.parametrize(
    ("panel", "code"),
    [
        ("nope", "panel_undeclared"),
        ("notes", "panel_undeclared"),
        ("local/other#notes", "panel_not_owned"),
        (f"{OWNER}#nope", "panel_undeclared"),
        (f"{OWNER}#inline@c2", "panel_not_owned"),
        (f"{OWNER}#todo@c1", "panel_not_owned"),
        (7, "panel_invalid"),
        ("", "panel_undeclared"),
    ],
)
def test_a_call_can_not_reach_what_is_not_its_own(panel: object, code: str) -> None:
    """Fault: foreign owner; neither by update nor by get."""
    board, _ = make_board()
    call(board, "c2", "local/other").update("notes", replace(todo()))
    call(board, "c2").update("inline", replace(todo()))
    before = board.views()
    panels = call(board)
    assert code_of(panels, panel, replace(todo(title="mine"))) == code
    with pytest.raises(PanelError) as caught:
        panels.get(panel)
    assert caught.value.code == code
    assert board.views() == before


@pytest.mark.parametrize("panel", ["todo", f"{OWNER}#todo"])
def test_a_call_still_reaches_its_own_panel_by_either_name(panel: str) -> None:
    """The pair of the test above."""
    board, _ = make_board()
    assert call(board).update(panel, replace(todo())) == 1


def test_a_chat_panel_is_one_instance_per_call() -> None:
    """Contract: chat placement makes one instance per call, the sidebar has one a session."""
    board, _ = make_board()
    first, second = call(board, "c1"), call(board, "c2")
    assert first.update("inline", replace(todo(title="one"))) == 1
    assert second.update("inline", replace(todo(title="two"))) == 1
    assert second.update(f"{OWNER}#inline@c2", {"op": "close"}) == 2
    assert [v.id for v in board.views()] == [f"{OWNER}#inline@c1", f"{OWNER}#inline@c2"]


@pytest.mark.parametrize("owner", ["mcp/files/read", "acp:editor"])
def test_mcp_and_acp_panels_are_declared_by_their_first_accepted_update(owner: str) -> None:
    """Contract: declared implicitly, without actions; four at most, like declared ones."""
    board, _ = make_board()
    panels = call(board, owner=owner)
    assert code_of(panels, "p0", replace({"title": 7})) == "panel_invalid"
    for number in range(1, 5):
        assert panels.update(f"p{number}", replace(todo())) == 1
    assert code_of(panels, "p5", replace(todo())) == "panel_limit"
    assert code_of(panels, "No Id", replace(todo())) == "panel_undeclared"
    assert board.view(f"{owner}#p1").declaration == PanelDeclaration("p1", "p1")


# ---------------------------------------------------------------- concurrent calls


def test_concurrent_calls_on_one_sidebar_panel_share_one_document() -> None:
    """No update is lost, revisions are given once, and the highest settled one is whole."""
    board, _ = make_board()
    one, two = call(board, "c1"), call(board, "c2")
    add = "upsert_items"

    def patch(key: str) -> dict[str, object]:
        item = {"id": key, "label": f"do {key}", "status": "pending"}
        return {"op": "patch", "patches": [{"op": add, "block": "list", "items": [item]}]}

    assert one.update("todo", replace(todo())) == 1
    assert two.update("todo", patch("b")) == 2
    assert one.update("todo", patch("a")) == 3
    assert one.get("todo") == two.get("todo")
    # The one that settles first has the older revision; the other order is as good.
    assert [r.revision for r in two.settle()] == [2]
    assert not board.view(f"{OWNER}#todo").committed
    (last,) = one.settle()
    assert (last.revision, last.document) == (3, todo(("b", "pending"), ("a", "pending")))
    assert board.view(f"{OWNER}#todo").committed


def test_an_older_revision_that_settles_last_does_not_win() -> None:
    """The history keeps both; the highest is the panel's."""
    board, _ = make_board()
    one, two = call(board, "c1"), call(board, "c2")
    one.update("todo", replace(todo(title="old")))
    two.update("todo", replace(todo(title="new")))
    settled = [*two.settle(), *one.settle()]
    assert [r.revision for r in settled] == [2, 1]
    again, _ = make_board(restore=settled)
    assert again.view(f"{OWNER}#todo").document == todo(title="new")


# ---------------------------------------------------------------- room


def full_board() -> tuple[PanelBoard, list[PanelCall]]:
    """Return a board with sixteen open panels of four tools."""
    owners = [f"local/t{i}" for i in range(5)]
    ids = [f"p{i}" for i in range(4)]
    declarations = {o: [PanelDeclaration(i, i) for i in ids] for o in owners}
    declarations["local/t4"].append(PanelDeclaration("chat", "Chat", placement="chat"))
    board = PanelBoard(declarations, Clock())
    calls = [board.open_call(owner, f"call-{owner}") for owner in owners]
    for panels in calls[:4]:
        for panel in ids:
            panels.update(panel, replace(todo()))
    assert len(board.views()) == MAX_SESSION_PANELS
    return board, calls


def test_the_17th_open_panel_is_refused_with_panel_limit() -> None:
    """Fault: 17 panels."""
    board, calls = full_board()
    before = board.views()
    assert code_of(calls[4], "p0", replace(todo())) == "panel_limit"
    assert board.views() == before
    assert calls[0].update("p0", replace(todo())) == 2


def test_the_closed_panel_that_was_updated_longest_ago_makes_room() -> None:
    """Contract: a closed panel is evicted to make room, and revisions are not given again."""
    _, calls = full_board()
    calls[1].update("p1", {"op": "close"})
    calls[0].update("p0", {"op": "close"})
    assert calls[4].update("p0", replace(todo())) == 1
    assert calls[1].get("p1") is None
    assert calls[0].get("p0") == {"revision": 2, "document": todo()}
    calls[4].update("p0", {"op": "close"})
    assert calls[1].update("p1", replace(todo())) == 3
    # What the first call did is still settled with it, though it was evicted meanwhile.
    assert [r.id for r in calls[0].settle()] == [f"local/t0#p{i}" for i in range(4)]


def test_an_invalid_document_evicts_nothing() -> None:
    """All or nothing: room is made when everything else is known to be right."""
    _, calls = full_board()
    calls[0].update("p0", {"op": "close"})
    assert code_of(calls[4], "p0", replace({"title": 1})) == "panel_invalid"
    assert calls[0].get("p0") is not None


def test_chat_panels_of_settled_calls_make_room() -> None:
    """A long conversation does not run into the limit by panels that nobody can update."""
    board, calls = full_board()
    calls[0].update("p0", {"op": "close"})
    for number in range(40):
        panels = board.open_call("local/t4", f"chat-{number}")
        assert panels.update("chat", replace(todo(title=str(number)))) == 1
        panels.settle()
    assert len(board.views()) == MAX_SESSION_PANELS
    assert board.views()[-1].id == "local/t4#chat@chat-39"


# ---------------------------------------------------------------- results


def test_a_result_of_panel_blocks_only_gets_one_line_per_panel() -> None:
    """Contract: `panel <id> updated (revision N): <summary>`."""
    board, _ = make_board()
    panels = call(board)
    blocks = [
        {"type": "panel", "panel": "todo", **replace(todo(("a", "pending")))},
        {"type": "panel", "panel": "todo", **replace(todo(("a", "done"), ("b", "in_progress")))},
        {"type": "panel", "panel": "inline", **replace({"title": "Inline one"})},
    ]
    assert panels.apply_results(blocks, only=True) == [
        "panel todo updated (revision 2): 1/2 done, now: do b",
        "panel inline updated (revision 1): Inline one",
    ]
    assert [r.revision for r in panels.settle()] == [2, 1]


def test_a_result_with_other_content_gets_no_confirmation() -> None:
    """Contract: panel state never goes to the model, but for one line when nothing else does."""
    board, _ = make_board()
    block = {"type": "panel", "panel": "todo", **replace(todo())}
    assert call(board).apply_results([block], only=False) == []


def test_closing_is_confirmed_too() -> None:
    """The same line, with what happened in place of a summary."""
    board, _ = make_board()
    panels = call(board)
    panels.update("todo", replace(todo()))
    block = {"type": "panel", "panel": "todo", "op": "close"}
    assert panels.apply_results([block], only=True) == ["panel todo updated (revision 2): closed"]


def test_a_rejected_block_is_a_line_and_the_others_are_applied() -> None:
    """Contract: a rejected update never fails the tool; the history records the error."""
    board, _ = make_board()
    panels = call(board)
    lines = panels.apply_results(
        [
            {"type": "panel", "panel": "nope\x1b[31m\nand more", "op": "close"},
            {"type": "panel", "panel": "todo", **replace(todo())},
            {"type": "panel", "op": "close"},
            {"type": "panel", "panel": "todo", "op": "patch", "patches": [{"op": "fly"}]},
        ],
        only=False,
    )
    assert [line.split(" ", 7)[:6] for line in lines] == [
        ["panel", "nope\\x1b[31m\\x0aand", "more", "update", "rejected:", "panel_undeclared"],
        ["panel", "(unnamed)", "update", "rejected:", "panel_invalid", "/panel:"],
        ["panel", "todo", "update", "rejected:", "panel_invalid", "/patches/0/op:"],
    ]
    assert board.view(f"{OWNER}#todo").revision == 1
    assert [(r.code, r.pointer) for r in panels.rejections] == [
        ("panel_undeclared", ""),
        ("panel_invalid", "/panel"),
        ("panel_invalid", "/patches/0/op"),
    ]


def test_a_flood_of_rejected_blocks_is_bounded_everywhere() -> None:
    """A result may hold a thousand blocks; the model and the history get a few."""
    board, _ = make_board()
    panels = call(board)
    name = "x" * 5000
    lines = panels.apply_results([{"panel": name, "op": "close"}] * 1000, only=True)
    assert len(lines) == 21
    assert lines[-1] == "980 more panel updates rejected"
    assert max(len(line) for line in lines) <= 400
    assert len(panels.rejections) == 32
    assert panels.rejected_count == 1000
    assert max(len(r.panel) + len(r.message) for r in panels.rejections) < 1000


# ---------------------------------------------------------------- restoring


def test_a_board_is_restored_from_what_was_settled() -> None:
    """A killed host loses no committed revision; numbers go on where they were."""
    board, _ = make_board()
    panels = call(board)
    panels.update("todo", replace(todo(("a", "done"))))
    panels.update("inline", replace(todo(title="inline")))
    kept = [PanelRevision.from_dict(r.as_dict()) for r in panels.settle()]
    assert kept == [v.latest for v in board.views()]
    again, _ = make_board(restore=reversed(kept))
    assert again.views() == board.views()
    assert call(again, "c9").update("todo", replace(todo())) == 2


def test_restoring_leaves_out_what_nobody_declares_and_what_is_too_many() -> None:
    """Declarations may change between two runs; open panels come first."""
    document = make_document()
    many = [
        PanelRevision(f"mcp/s/t{n // 4}", f"p{n}", None, 5, state, document, n, "c")
        for n, state in enumerate(["closed", "open"] * 12)
    ]
    gone = PanelRevision("local/gone", "p", None, 1, "open", document, 99, "c")
    moved = PanelRevision(OWNER, "inline", None, 1, "open", document, 99, "c")
    board, _ = make_board(restore=[*many, gone, moved])
    states = [view.state for view in board.views()]
    assert (len(states), states.count("open")) == (MAX_SESSION_PANELS, 12)
    panels = board.open_call("mcp/s/t0", "c2")
    assert panels.get("p0") is None
    # Its number is remembered, though there was no room for it.
    assert panels.update("p0", replace(todo())) == 6


def make_document() -> object:
    """Return a small checked document."""
    board, _ = make_board()
    panels = call(board)
    panels.update("todo", replace(todo()))
    (revision,) = panels.settle()
    return revision.document


@pytest.mark.parametrize(
    "change",
    [
        {"revision": 0},
        {"revision": True},
        {"revision": 2.0},
        {"state": "absent"},
        {"document": {"title": 1}},
        {"owner": "a\nb"},
        {"instance": 4},
        {"extra": 1},
    ],
)
def test_a_revision_from_a_changed_file_is_refused(change: dict[str, object]) -> None:
    """A history is a file on disk, so it is checked like anything else."""
    good = PanelRevision(OWNER, "todo", None, 1, "open", make_document(), 5, "c1")  # type: ignore[arg-type]
    with pytest.raises(PanelError):
        PanelRevision.from_dict({**good.as_dict(), **change})


def test_a_view_for_clients_holds_derived_values_and_not_what_actions_do() -> None:
    """A client names an action by its id; what it means is resolved by the host."""
    board, _ = make_board()
    call(board).update("todo", replace(todo(("a", "done"))))
    assert board.views()[0].as_dict() == {
        "id": f"{OWNER}#todo",
        "owner": OWNER,
        "panel": "todo",
        "instance": None,
        "title": "Tasks",
        "icon": "panel",
        "placement": "sidebar",
        "open": "never",
        "actions": [],
        "revision": 1,
        "state": "open",
        "committed": False,
        "updated_at": 1001,
        "document": {
            **todo(("a", "done")),
            "status": "active",
            "progress": {"done": 1, "total": 1},
            "summary": "1/1 done",
        },
    }


def test_view_of_an_unknown_panel_is_panel_unknown() -> None:
    """By its full ID only."""
    board, _ = make_board()
    with pytest.raises(PanelError) as caught:
        board.view("todo")
    assert caught.value.code == "panel_unknown"


def test_a_panel_without_data_is_first_filled_by_one_call() -> None:
    """Another call waits for the first one's data; none waits twice over, so none for ever."""
    board, _ = make_board()
    first, second = call(board, "c1"), call(board, "c2")
    assert first.first_filling("todo") is None
    assert first.get("todo") is None
    assert first.first_filling("todo") is None
    waiting = second.first_filling("todo")
    assert waiting is not None
    assert not waiting.is_set()
    first.update("todo", replace(todo(("a", "pending"))))
    assert waiting.is_set()
    assert second.first_filling("todo") is None


@pytest.mark.parametrize("end", ["settle", "apply_results"])
def test_a_first_call_that_ends_without_data_gives_its_turn_away(end: str) -> None:
    """However it ends."""
    board, _ = make_board()
    first, second, third = (call(board, f"c{n}") for n in range(3))
    assert first.first_filling("todo") is None
    waiting = second.first_filling("todo")
    assert waiting is not None
    if end == "settle":
        first.settle()
    else:
        first.apply_results([], only=False)
        first.settle()
    assert waiting.is_set()
    assert second.first_filling("todo") is None
    assert third.first_filling("todo") is not None


def test_a_call_that_fills_one_panel_waits_for_no_other() -> None:
    """Two calls that each fill a panel and read the other's must not wait for each other."""
    declared = {OWNER: [PanelDeclaration("a", "A"), PanelDeclaration("b", "B")]}
    board, _ = make_board(declarations=declared)
    one, two = call(board, "c1"), call(board, "c2")
    assert one.first_filling("a") is None
    assert two.first_filling("b") is None
    assert one.first_filling("b") is None
    assert two.first_filling("a") is None


def test_chat_panels_are_each_calls_own_and_wait_for_nobody() -> None:
    """One instance for each call."""
    board, _ = make_board()
    assert call(board, "c1").first_filling("inline") is None
    assert call(board, "c2").first_filling("inline") is None


async def test_a_handler_reads_what_another_call_was_about_to_write() -> None:
    """``panels.get`` of the second call is answered once the first has filled the panel."""
    board, _ = make_board()
    first, second = call(board, "c1"), call(board, "c2")
    seen: list[Any] = []

    async def read(panels: PanelCall) -> None:
        seen.append(await answer_panel_request(panels, "panels.get", {"panel": "todo"}))

    await read(first)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, second)
        await trio.testing.wait_all_tasks_blocked()
        assert seen == [None]
        first.update("todo", replace(todo(("a", "pending"))))
    assert seen[1]["revision"] == 1


async def test_a_handler_does_not_wait_for_ever_for_another_call(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """One that read a panel and goes on without writing it holds the others up for a while."""
    board, _ = make_board()
    first, second = call(board, "c1"), call(board, "c2")
    for panels in (first, second):
        assert await answer_panel_request(panels, "panels.get", {"panel": "todo"}) is None
