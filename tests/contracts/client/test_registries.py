"""The file and the server are one interface: the same calls, values and refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from raw_exec.contracts.client.embedded import EmbeddedRegistry
from raw_exec.contracts.errors import (
    Conflict,
    Invalid,
    NotFound,
    PublishingDisabled,
    RegistryError,
    StoreError,
    Unauthenticated,
)
from raw_exec.contracts.model import FileFormat, Page, PromptKind, Provider, Status
from raw_exec.contracts.service import create_key, revoke_key

SCHEMA = {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}


def _comparable(value: Any) -> Any:
    """Return a view without what differs between any two registries: ids and times."""
    if dataclasses.is_dataclass(value):
        return {
            field.name: _comparable(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name != "id"
        }
    if isinstance(value, datetime):
        return "a time" if value.tzinfo is not None else "a time without a zone"
    if isinstance(value, tuple | list):
        return [_comparable(one) for one in value]
    if isinstance(value, dict):
        return {key: _comparable(one) for key, one in value.items()}
    return value


def _everything(registry: Any, clock: Any) -> list[Any]:
    """Do every operation once and return what each answered."""
    r, acme, tool, prompt = registry, "acme", "fetch-page", "daily.brief"
    pin = {"tool_workspace": "vendor", "tool_name": "search"}
    answers: list[Any] = []

    def does(answer: Any) -> None:
        # Lists are ordered by time.
        clock.advance(1)
        answers.append(answer)

    does(r.create_tool("vendor", "search", description=None))
    does(r.publish_tool_version("vendor", "search", "1.2.0"))
    does(r.create_tool(acme, tool, description="Fetches pages"))
    does(r.get_tool(acme, tool))
    does(r.list_tools(acme, take=1))
    does(r.list_tools(acme, search="FETCH"))
    does(r.update_tool(acme, tool, description=None, tags=("web", "io")))
    does(r.update_tool_version(acme, tool, "draft", input_schema=SCHEMA, output_schema=SCHEMA))
    does(r.update_tool_version(acme, tool, "draft", model_description="Fetch.", readme="# Hé"))
    does(r.update_tool_version(acme, tool, "draft", metadata={"a": [1, {"b": None}], "x": 1.5}))
    does(r.patch_tool_metadata(acme, tool, "draft", set={"k": True}, delete=("a",)))
    does(r.update_tool_version(acme, tool, "draft", output_schema=None))
    does(r.find_tool_version(acme, tool, "^1"))
    does(r.publish_tool_version(acme, tool, "1.0.0"))
    does(r.find_tool_version(acme, tool, "^1"))
    does(r.get_tool_version(acme, tool))
    does(r.create_tool_draft(acme, tool))
    does(r.get_tool_version(acme, tool, "draft", status=Status.DRAFT))
    does(r.list_tool_versions(acme, tool))
    does(r.list_tool_versions(acme, tool, status=Status.PUBLISHED))
    does(r.create_prompt(acme, prompt, description="Daily", kind=PromptKind.SYSTEM_ONE))
    does(r.create_prompt(acme, "other"))
    does(r.get_prompt(acme, prompt))
    does(r.list_prompts(acme))
    does(r.update_prompt(acme, prompt, description=None))
    does(r.create_prompt_file(acme, prompt, "draft", "part", "Hi {{name}}"))
    does(
        r.create_prompt_file(
            acme, prompt, "draft", "y", "a: {{b}}", is_entrypoint=True, format=FileFormat.YAML
        )
    )
    does(r.update_prompt_file(acme, prompt, "draft", "part", content="{{#a}}{{b}}{{/a}}"))
    does(r.update_prompt_file(acme, prompt, "draft", "part", new_name="piece"))
    does(r.set_prompt_file_entrypoint(acme, prompt, "draft", "piece", True))
    does(r.delete_prompt_file(acme, prompt, "draft", "y"))
    does(r.set_prompt_metadata(acme, prompt, "draft", set={"a": 1, "b": "t", "c": 0.5}))
    does(r.set_prompt_metadata(acme, prompt, "draft", set={"d": False}, delete=("a",)))
    does(r.set_prompt_metadata(acme, prompt, "draft", set={"only": 1}, replace=True))
    does(r.set_prompt_output_schema(acme, prompt, "draft", {"type": "array"}))
    does(r.set_prompt_output_schema(acme, prompt, "draft", None))
    does(r.set_prompt_readme(acme, prompt, "draft", "# Readme\n"))
    does(
        r.set_prompt_model_config(
            acme,
            prompt,
            "draft",
            provider=Provider.ANTHROPIC,
            model="m-1",
            parameters={"temperature": 0.5, "n": 1},
        )
    )
    does(r.link_tool(acme, prompt, "draft", **pin, constraint="^1.0.0"))
    does(r.rename_pin(acme, prompt, "draft", **pin, alias="web_search"))
    link = {"tool_workspace": acme, "tool_name": tool}
    does(r.link_tool(acme, prompt, "draft", **link, constraint="1.0.0", alias="Fetch"))
    does(r.unlink_tool(acme, prompt, "draft", **pin))
    does(r.find_prompt_version(acme, prompt, "^1"))
    does(r.publish_prompt_version(acme, prompt, "1.0.0"))
    does(r.dependent_count(acme, tool))
    does(r.create_prompt_draft(acme, prompt))
    does(r.get_prompt_version(acme, prompt, "1.0.0"))
    does(r.list_prompt_versions(acme, prompt, status=Status.PUBLISHED))
    does(r.list_prompt_versions(acme, prompt, skip=1))
    does(r.delete_prompt_version(acme, prompt, "draft"))
    does(r.delete_tool_version(acme, tool, "draft"))
    return answers


def test_every_operation_answers_alike_from_a_database_and_from_a_server(pair, clock) -> None:
    """Contract: one interface over the embedded file and over a server, on both databases."""
    local = _everything(pair.local, clock)
    served = _everything(pair.served, clock)
    assert len(served) == 51
    assert [_comparable(one) for one in served] == [_comparable(one) for one in local]
    assert all(isinstance(one, type(other)) for one, other in zip(served, local, strict=True))


REFUSALS: dict[str, tuple[type[RegistryError], Callable[[Any], Any]]] = {
    "tool_unknown": (NotFound, lambda r: r.get_tool("acme", "nothing")),
    "workspace_unknown": (NotFound, lambda r: r.list_tools("nowhere")),
    "prompt_unknown": (NotFound, lambda r: r.get_prompt("acme", "nothing")),
    "version_unknown": (NotFound, lambda r: r.get_tool_version("acme", "known", "^9")),
    "version_unknown draft": (NotFound, lambda r: r.get_prompt_version("acme", "p", "draft")),
    "name_taken": (Conflict, lambda r: r.create_tool("acme", "known")),
    "one_draft": (Conflict, lambda r: r.create_tool_draft("acme", "drafted")),
    "version_frozen": (
        Conflict,
        lambda r: r.update_tool_version("acme", "known", "1.0.0", readme="x"),
    ),
    "stale_revision": (
        Conflict,
        lambda r: r.update_tool_version(
            "acme", "drafted", "draft", readme="x", expected_revision=99
        ),
    ),
    "bad_constraint": (Invalid, lambda r: r.find_tool_version("acme", "known", "latest")),
    "tool_name": (Invalid, lambda r: r.create_tool("acme", "Fétch")),
    "object_root": (
        Invalid,
        lambda r: r.update_tool_version("acme", "drafted", "draft", input_schema={}),
    ),
    "bad_schema": (
        Invalid,
        lambda r: r.update_tool_version(
            "acme", "drafted", "draft", input_schema={"type": "object", "required": 5}
        ),
    ),
    "already_published": (Conflict, lambda r: r.publish_tool_version("acme", "known", "1.0.0")),
    "pin_exists": (
        NotFound,
        lambda r: r.unlink_tool("acme", "q", "draft", tool_workspace="acme", tool_name="known"),
    ),
    "wire_name": (
        Invalid,
        lambda r: r.link_tool(
            "acme",
            "q",
            "draft",
            tool_workspace="acme",
            tool_name="known",
            constraint="*",
            alias="a b",
        ),
    ),
}


def test_a_refusal_is_the_same_exception_from_a_database_and_from_a_server(pair) -> None:
    """Message, rule and places are the user interface, wherever the registry is."""
    for registry in (pair.local, pair.served):
        registry.create_tool("acme", "known")
        registry.publish_tool_version("acme", "known", "1.0.0")
        registry.create_tool("acme", "drafted")
        registry.create_prompt("acme", "p")
        registry.publish_prompt_version("acme", "p", "1.0.0")
        registry.create_prompt("acme", "q")
    # A refusal changes nothing, so all of them can follow each other.
    told = {
        case: (_refusal(pair.local, ask), _refusal(pair.served, ask))
        for case, (_, ask) in REFUSALS.items()
    }
    assert {case: served for case, (_, served) in told.items()} == {
        case: local for case, (local, _) in told.items()
    }
    assert {case: local[:2] for case, (local, _) in told.items()} == {
        case: (kind, case.partition(" ")[0]) for case, (kind, _) in REFUSALS.items()
    }


def _refusal(registry: Any, ask: Callable[[Any], Any]) -> tuple[Any, ...]:
    with pytest.raises(RegistryError) as caught:
        ask(registry)
    exc = caught.value
    places = [(one.pointer, one.message) for one in getattr(exc, "problems", ()) if one.message]
    return type(exc), exc.code, exc.message, exc.hint, places


def test_a_server_whose_workspace_does_not_let_command_lines_publish_says_so(
    store, people, remote_of
) -> None:
    """Contract: the publishing gate; whoever holds the file is not a command line."""
    EmbeddedRegistry(store, "registry.db").create_tool("acme", "t")
    token = store.write(lambda s: create_key(s, people.operator, email="owner@acme.test")).token
    with pytest.raises(PublishingDisabled):
        remote_of(store, token).publish_tool_version("acme", "t", "1.0.0")
    made = EmbeddedRegistry(store, "registry.db").publish_tool_version("acme", "t", "1.0.0")
    assert made.status is Status.PUBLISHED


def test_a_revoked_key_ends_in_unauthenticated_and_nobody_in_particular_still_reads(
    store, people, remote_of
) -> None:
    """Security: revoked is revoked; what is public stays readable without a key."""
    made = store.write(lambda s: create_key(s, people.operator, email="owner@acme.test"))
    client = remote_of(store, made.token)
    assert client.me()["email"] == "owner@acme.test"
    store.write(lambda s: revoke_key(s, people.operator, made.key.id))
    with pytest.raises(Unauthenticated) as caught:
        client.list_tools("acme")
    assert caught.value.code == "key_revoked"
    assert remote_of(store, None).list_tools("acme") == Page((), 0)


def test_logging_out_revokes_the_key_of_the_caller(store, people, remote_of) -> None:
    """A second time it says that it was revoked already, as the key is not good any more."""
    made = store.write(lambda s: create_key(s, people.operator, email="owner@acme.test"))
    client = remote_of(store, made.token)
    assert client.revoke_key(made.key.id) is True
    with pytest.raises(Unauthenticated):
        client.revoke_key(made.key.id)


def test_a_publication_whose_answer_was_lost_is_told_as_published_when_it_is_repeated(
    store, people, remote, monkeypatch
) -> None:
    """Fault: the server dies between publish and answer; nothing is published twice."""
    remote.create_tool("acme", "t")
    transport = remote._transport
    send = transport._send

    def lose_the_answer(*args: Any) -> Any:
        send(*args)
        raise StoreError("registry_unreachable", "the connection ended")

    with monkeypatch.context() as patch:
        patch.setattr(transport, "_send", lose_the_answer)
        with pytest.raises(StoreError):
            remote.publish_tool_version("acme", "t", "1.0.0")
    with pytest.raises(Conflict) as caught:
        remote.publish_tool_version("acme", "t", "1.0.0")
    assert caught.value.code == "already_published"
    assert "it worked the first time" in caught.value.message
    assert remote.list_tool_versions("acme", "t").total == 1
