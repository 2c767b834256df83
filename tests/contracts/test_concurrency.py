"""Several people at once: transactions decide, one clear error, nothing lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from raw_exec.contracts import service as registry
from raw_exec.contracts.errors import RegistryError
from raw_exec.contracts.model import Status, Visibility
from raw_exec.contracts.store import Store

ROUNDS = 4
AT_ONCE = 5


def at_once(store: Store, works: list[Callable[[Any], Any]]) -> list[str]:
    """Run transactions from as many threads; return "done" or an error's code for each.

    Where the database lets transactions overlap, the first attempts are held together after
    their work and before their commits, so that they really do.
    """
    start = threading.Barrier(len(works))
    together = threading.Barrier(len(works))
    outcomes: list[str] = ["lost"] * len(works)

    def run(index: int, work: Callable[[Any], Any]) -> None:
        first = store.dialect == "postgresql"

        def held(session: Any) -> None:
            nonlocal first
            try:
                work(session)
                session.flush()
            finally:
                if first:
                    first = False
                    try:
                        together.wait(1)
                    except threading.BrokenBarrierError:
                        pass  # One waits for another's lock; the database already decides.

        start.wait(30)
        try:
            store.write(held)
            outcomes[index] = "done"
        except RegistryError as exc:
            outcomes[index] = exc.code

    threads = [threading.Thread(target=run, args=(index, work)) for index, work in enumerate(works)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    return outcomes


def test_of_many_publishers_one_wins_and_the_others_are_told(any_store: Store, any_people) -> None:
    """Two publishers."""
    p = any_people
    p.ask(p.member, registry.create_tool, "acme", "t")
    for number in range(1, ROUNDS + 1):
        outcomes = at_once(
            any_store,
            [
                lambda s, n=number: registry.publish_tool_version(
                    s, p.member, "acme", "t", f"{n}.0.0"
                )
            ]
            * AT_ONCE,
        )
        assert Counter(outcomes) == {"done": 1, "already_published": AT_ONCE - 1}
        p.ask(p.member, registry.create_tool_draft, "acme", "t")
    found = p.ask(p.member, registry.list_tool_versions, "acme", "t", status=Status.PUBLISHED)
    assert [one.version for one in found.data] == [f"{n}.0.0" for n in range(ROUNDS, 0, -1)]


def test_of_publishers_with_different_numbers_one_gets_the_draft(
    any_store: Store, any_people
) -> None:
    """The draft is published once, whatever the numbers."""
    p = any_people
    p.ask(p.member, registry.create_tool, "acme", "t")

    def publisher(number: str) -> Callable[[Any], Any]:
        return lambda s: registry.publish_tool_version(s, p.member, "acme", "t", number)

    outcomes = at_once(any_store, [publisher(f"1.{i}.0") for i in range(AT_ONCE)])
    assert Counter(outcomes) == {"done": 1, "draft_exists": AT_ONCE - 1}
    found = p.ask(p.member, registry.list_tool_versions, "acme", "t")
    assert [one.version for one in found.data] == [f"1.{outcomes.index('done')}.0"]


@pytest.mark.parametrize("kind", ["tool", "prompt"])
def test_of_many_drafts_one_is_opened(any_store: Store, any_people, kind: str) -> None:
    """Two drafts."""
    p = any_people
    create = {"tool": registry.create_tool, "prompt": registry.create_prompt}[kind]
    publish = {"tool": registry.publish_tool_version, "prompt": registry.publish_prompt_version}
    draft = {"tool": registry.create_tool_draft, "prompt": registry.create_prompt_draft}[kind]
    p.ask(p.member, create, "acme", "t")
    p.ask(p.member, publish[kind], "acme", "t", "1.0.0")
    outcomes = at_once(any_store, [lambda s: draft(s, p.member, "acme", "t")] * AT_ONCE)
    assert Counter(outcomes) == {"done": 1, "one_draft": AT_ONCE - 1}


def test_of_many_that_create_one_name_one_does(any_store: Store, any_people) -> None:
    """One clear conflict error."""
    p = any_people
    outcomes = at_once(
        any_store, [lambda s: registry.create_tool(s, p.member, "acme", "t")] * AT_ONCE
    )
    assert Counter(outcomes) == {"done": 1, "name_taken": AT_ONCE - 1}


def test_keys_that_different_people_set_at_once_are_all_there(any_store: Store, any_people) -> None:
    """Lost metadata update."""
    p = any_people
    p.ask(p.member, registry.create_tool, "acme", "t")
    p.ask(p.member, registry.create_prompt, "acme", "t")

    def patcher(index: int) -> Callable[[Any], Any]:
        def patch(session: Any) -> None:
            registry.patch_tool_metadata(
                session, p.member, "acme", "t", "draft", set={f"k{index}": index}
            )
            registry.set_prompt_metadata(
                session, p.member, "acme", "t", "draft", set={f"k{index}": index}
            )

        return patch

    outcomes = at_once(any_store, [patcher(i) for i in range(AT_ONCE)])
    assert outcomes == ["done"] * AT_ONCE
    wanted = {f"k{i}": i for i in range(AT_ONCE)}
    assert p.ask(p.member, registry.get_tool_version, "acme", "t", "draft").metadata == wanted
    assert p.ask(p.member, registry.get_prompt_version, "acme", "t", "draft").metadata == wanted


def test_of_edits_of_one_revision_one_is_kept_and_the_others_are_told(
    any_store: Store, any_people
) -> None:
    """A read-modify-write that lost is refused instead of overwriting."""
    p = any_people
    p.ask(p.member, registry.create_tool, "acme", "t")
    seen = p.ask(p.member, registry.get_tool_version, "acme", "t", "draft").revision

    def writer(index: int) -> Callable[[Any], Any]:
        return lambda s: registry.update_tool_version(
            s, p.member, "acme", "t", "draft", metadata={"by": index}, expected_revision=seen
        )

    outcomes = at_once(any_store, [writer(i) for i in range(AT_ONCE)])
    assert Counter(outcomes) == {"done": 1, "stale_revision": AT_ONCE - 1}
    kept = p.ask(p.member, registry.get_tool_version, "acme", "t", "draft").metadata
    assert kept == {"by": outcomes.index("done")}


def test_a_tool_is_not_withdrawn_while_a_prompt_that_pins_it_is_published(
    any_store: Store, any_people
) -> None:
    """Race: each alone is allowed, and both together would strand the prompt."""
    p = any_people
    tool = {"tool_workspace": "vendor", "tool_name": "t"}
    p.publish(p.vendor, "vendor", "t", "1.0.0")
    for number in range(ROUNDS):
        name = f"p{number}"
        p.ask(p.vendor, registry.set_tool_visibility, "vendor", "t", Visibility.PUBLIC)
        p.ask(p.member, registry.create_prompt, "acme", name)
        p.ask(p.member, registry.link_tool, "acme", name, "draft", **tool)
        outcomes = at_once(
            any_store,
            [
                lambda s, n=name: registry.publish_prompt_version(s, p.member, "acme", n, "1.0.0"),
                lambda s: registry.set_tool_visibility(
                    s, p.vendor, "vendor", "t", Visibility.PRIVATE
                ),
            ],
        )
        assert outcomes in (["done", "tool_not_withdrawn"], ["pinned_tools_readable", "done"])
        if outcomes[0] == "done":
            return


def test_of_pins_under_one_wire_name_one_is_made(any_store: Store, any_people) -> None:
    """Seed 3: two pins cannot share a wire name."""
    p = any_people
    p.ask(p.member, registry.create_prompt, "acme", "brief")
    for index in range(AT_ONCE):
        p.publish(p.member, "acme", f"t{index}", "1.0.0")

    def linker(index: int) -> Callable[[Any], Any]:
        return lambda s: registry.link_tool(
            s,
            p.member,
            "acme",
            "brief",
            "draft",
            tool_workspace="acme",
            tool_name=f"t{index}",
            alias="same",
        )

    outcomes = at_once(any_store, [linker(i) for i in range(AT_ONCE)])
    assert Counter(outcomes) == {"done": 1, "wire_name_taken": AT_ONCE - 1}


def test_a_login_is_collected_once_by_however_many_polls(any_store: Store, any_people) -> None:
    """Fault: a device code that is reused."""
    p = any_people
    login = any_store.write(lambda s: registry.start_device_login(s, "laptop"))
    p.ask(p.member, registry.approve_device, login.user_code)
    polled: list[str] = []

    def poll(session: Any) -> None:
        status = registry.poll_device(session, login.device_code).status
        session.flush()
        polled.append(status)

    outcomes = at_once(any_store, [poll] * AT_ONCE)
    assert outcomes == ["done"] * AT_ONCE
    keys = p.ask(p.member, registry.list_keys)
    assert [one.label for one in keys].count("laptop") == 1
