"""Values from literals, the environment and files; their types; references to them."""

from __future__ import annotations

import datetime
import json
import os
import traceback
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from raw_exec.variables import Resolved, VariableError
from raw_exec.variables.envrefs import check_refs, env_text
from raw_exec.variables.failures import FAILURE_CLASSES
from tests.variables.support import TOKEN, configure, opened, variable

MOMENT = datetime.datetime(2030, 1, 31, 23, 59, 58, 7_500, tzinfo=datetime.UTC)
SHOWN = "2030-01-31T23:59:58.007Z"


async def read(root: Path, entry: dict[str, Any], **options: Any) -> Any:
    async with opened(configure(root, {"v": entry}), now=lambda: MOMENT, **options) as service:
        return await service.read("v")


async def fails(root: Path, entry: dict[str, Any], **options: Any) -> str:
    """Return the class of failure, after a look for leaks."""
    with pytest.raises(VariableError) as caught:
        await read(root, entry, **options)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
    assert TOKEN not in repr(caught.value)
    assert "'v'" in str(caught.value)
    assert caught.value.code in FAILURE_CLASSES
    return caught.value.code


@pytest.mark.parametrize("value", ["text", 1, 1.5, True, None, [1, {"a": None}], {"k": "v"}])
async def test_a_literal_is_its_value(tmp_path: Path, value: Any) -> None:
    """Contract: four sources, of which this is the simplest."""
    assert await read(tmp_path, variable("literal", value=value)) == Resolved("v", value, SHOWN)


async def test_an_environment_variable_is_read_at_each_call(tmp_path: Path) -> None:
    """Contract: without a TTL every call resolves anew."""
    environ = {"NAME": "one"}
    config = configure(tmp_path, {"v": variable("env", name="NAME")})
    async with opened(config, environ=environ, now=lambda: MOMENT) as service:
        first = await service.read("v")
        environ["NAME"] = "two"
        second = await service.read("v")
    assert [first, second] == [Resolved("v", "one", SHOWN), Resolved("v", "two", SHOWN)]


async def test_system_time_is_built_in(tmp_path: Path) -> None:
    """Contract: built-in provider ``system.time``; no process is started for it."""
    entry = variable("provider", name="system.time", type="string")
    assert await read(tmp_path, entry) == Resolved("v", SHOWN, SHOWN)
    with_params = variable("provider", name="system.time", params={"zone": "x"})
    assert await fails(tmp_path, with_params) == "params_refused"


@pytest.mark.parametrize(
    ("content", "form", "value"),
    [
        (b"line\r\n\xc3\xa9\n", "text", "line\r\né\n"),
        (b"", "text", ""),
        (b"x" * 65536, "text", "x" * 65536),
        (b' {"a": [1, 2.5]}\n', "json", {"a": [1, 2.5]}),
    ],
)
async def test_a_file_is_its_text_or_its_json(
    tmp_path: Path, content: bytes, form: str, value: Any
) -> None:
    """Contract: text as it is, line ends included; paths are relative to the configuration."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").write_bytes(content)
    entry = variable("file", path="sub/file", format=form)
    assert await read(tmp_path, entry) == Resolved("v", value, SHOWN)


@pytest.mark.parametrize(
    ("content", "form", "code"),
    [
        (b"x" * 65537, "text", "file_too_large"),
        (TOKEN.encode() + b"\xff", "text", "not_utf8"),
        (f'{{"{TOKEN}": 1, "{TOKEN}": 2}}'.encode(), "json", "invalid_json"),
        (f"{TOKEN}".encode(), "json", "invalid_json"),
        (b'"a" "b"', "json", "invalid_json"),
        (b"NaN", "json", "invalid_json"),
        (b"", "json", "invalid_json"),
        (b"[" * 1000, "json", "invalid_json"),
    ],
)
async def test_a_bad_file_is_a_failure_that_shows_nothing_of_it(
    tmp_path: Path, content: bytes, form: str, code: str
) -> None:
    """Corpus R07; the parser's own words could quote a key."""
    (tmp_path / "file").write_bytes(content)
    assert await fails(tmp_path, variable("file", path="file", format=form)) == code


async def test_what_is_not_a_readable_regular_file_is_told_apart(tmp_path: Path) -> None:
    """Contract: regular file; a FIFO must not make anyone wait."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("x")
    codes = {
        path: await fails(tmp_path, variable("file", path=path))
        for path in ("missing", "plain/x", "fifo", "folder", "/dev/zero")
    }
    assert codes == {
        "missing": "source_missing",
        "plain/x": "source_missing",
        "fifo": "source_unreadable",
        "folder": "source_unreadable",
        "/dev/zero": "source_unreadable",
    }


async def test_an_unset_or_undecodable_environment_variable_is_a_failure(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 come from the system as lone surrogates."""
    entry = variable("env", name="NAME")
    assert await fails(tmp_path, entry, environ={}) == "source_missing"
    odd = os.fsdecode(TOKEN.encode() + b"\xff")
    assert await fails(tmp_path, entry, environ={"NAME": odd}) == "not_utf8"


TYPES = {
    "string": ("text",),
    "number": (1, 1.5),
    "boolean": (True,),
    "object": ({},),
    "array": ([],),
    "null": (None,),
}
SOME = [value for values in TYPES.values() for value in values]


@pytest.mark.parametrize("kind", [*TYPES, "json"])
async def test_a_value_must_be_of_the_declared_type(tmp_path: Path, kind: str) -> None:
    """Contract: types; a boolean is no number, whatever Python thinks."""
    accepted: list[Any] = []
    refused: set[str] = set()
    for value in SOME:
        (tmp_path / "file").write_text(json.dumps(value))
        try:
            await read(tmp_path, variable("file", path="file", format="json", type=kind))
        except VariableError as exc:
            refused.add(exc.code)
        else:
            accepted.append(value)
    assert refused <= {"wrong_type"}
    assert accepted == (SOME if kind == "json" else list(TYPES[kind]))


async def test_a_success_is_kept_for_its_time_and_then_resolved_again(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Contract: TTL on the monotonic clock; ``cached`` says where a value came from."""
    file = tmp_path / "file"
    file.write_text("one")
    config = configure(tmp_path, {"v": variable("file", path="file", cache_ttl_ms=1000)})
    async with opened(config, now=lambda: MOMENT) as service:
        assert await service.read("v") == Resolved("v", "one", SHOWN)
        file.write_text("two")
        mock_clock.jump(0.999)
        assert await service.read("v") == Resolved("v", "one", SHOWN, cached=True)
        mock_clock.jump(0.001)
        assert await service.read("v") == Resolved("v", "two", SHOWN)


async def test_a_failure_is_neither_kept_nor_covered_by_an_older_value(
    tmp_path: Path, mock_clock: MockClock
) -> None:
    """Contract: successes only, no stale value."""
    file = tmp_path / "file"
    file.write_text("one")
    config = configure(tmp_path, {"v": variable("file", path="file", cache_ttl_ms=1000)})
    async with opened(config, now=lambda: MOMENT) as service:
        await service.read("v")
        file.unlink()
        mock_clock.jump(1)
        with pytest.raises(VariableError) as caught:
            await service.read("v")
        assert caught.value.code == "source_missing"
        file.write_text("two")
        assert await service.read("v") == Resolved("v", "two", SHOWN)


async def test_two_runtimes_share_no_cache(tmp_path: Path) -> None:
    """Contract: per runtime."""
    config = configure(tmp_path, {"v": variable("env", name="N", cache_ttl_ms=60_000)})
    async with opened(config, environ={"N": "1"}) as one, opened(config, environ={"N": "2"}) as two:
        values = [(await service.read("v")).value for service in (one, two)]
    assert values == ["1", "2"]


# ---------------------------------------------------------------- access


async def test_only_selected_readable_variables_can_be_read(tmp_path: Path) -> None:
    """Contract: unselected names and use-only reads fail; the rest is readable."""
    config = configure(
        tmp_path,
        {
            "open": variable("literal", value="shown"),
            "key": variable("literal", "use", value=TOKEN),
            "other": variable("literal", value=TOKEN),
        },
        select=["open", "key"],
    )
    async with opened(config) as service:
        assert (await service.read("open")).value == "shown"
        failures = {}
        for name in ("key", "other", "missing"):
            with pytest.raises(VariableError) as caught:
                await service.read(name)
            assert TOKEN not in str(caught.value)
            failures[name] = (caught.value.code, str(caught.value).replace(name, "NAME"))
    assert failures["key"][0] == "access_denied"
    assert failures["other"] == failures["missing"]  # what exists is not the tool's to know
    assert failures["other"][0] == "not_selected"


async def test_the_list_shows_the_selected_ones_and_runs_nothing(tmp_path: Path) -> None:
    """Contract: list_vars → name, description, type, access."""
    config = configure(
        tmp_path,
        {
            "z": variable("provider", "use", name="p", type="string"),
            "a": variable("literal", value=TOKEN),
            "not": variable("literal", value=1),
        },
        {"p": {"command": "/no/such/program"}},
        select=["z", "a"],
    )
    async with opened(config) as service:
        assert service.describe() == [
            {"name": "z", "description": "a provider", "type": "string", "access": "use"},
            {"name": "a", "description": "a literal", "type": "json", "access": "read"},
        ]


# ---------------------------------------------------------------- references


async def test_references_are_resolved_to_texts(tmp_path: Path) -> None:
    """Contract: strings, finite numbers and booleans; both accesses may be referenced."""
    values = {"s": "a b", "i": 7, "f": 0.5, "w": 2.0, "t": True, "n": False}
    config = configure(
        tmp_path,
        {name: variable("literal", "use", value=value) for name, value in values.items()},
    )
    async with opened(config) as service:
        env = await service.resolve_env({name.upper() * 2: name for name in values})
    assert env == {"SS": "a b", "II": "7", "FF": "0.5", "WW": "2", "TT": "true", "NN": "false"}


@pytest.mark.parametrize(
    ("refs", "code"),
    [
        (None, "env_refs_invalid"),
        (["A"], "env_refs_invalid"),
        ({"1A": "fine"}, "env_refs_invalid"),
        ({"A-B": "fine"}, "env_refs_invalid"),
        ({"A=B": "fine"}, "env_refs_invalid"),
        ({"": "fine"}, "env_refs_invalid"),
        ({"A\n": "fine"}, "env_refs_invalid"),
        ({"Ä": "fine"}, "env_refs_invalid"),
        ({"A": 1}, "env_refs_invalid"),
        ({f"A{n}": "fine" for n in range(257)}, "env_refs_invalid"),
        ({"A": "unselected"}, "not_selected"),
        ({"A": "declared"}, "not_scalar"),
    ],
)
async def test_all_references_are_checked_before_any_source_is_touched(
    tmp_path: Path, refs: Any, code: str
) -> None:
    """Contract: the whole set first; the file that would fail is never looked at."""
    config = configure(
        tmp_path,
        {
            "lost": variable("file", path="missing"),
            "fine": variable("literal", value=1),
            "declared": variable("literal", value={}, type="object"),
            "unselected": variable("literal", value=1),
        },
        select=["lost", "fine", "declared"],
    )
    if isinstance(refs, dict):
        refs = {"FIRST": "lost", **refs}
    async with opened(config) as service:
        with pytest.raises(VariableError) as checked:
            service.validate_env_refs(refs)
        with pytest.raises(VariableError) as resolved:
            await service.resolve_env(refs)
        assert (checked.value.code, resolved.value.code) == (code, code)
        service.validate_env_refs({"FIRST": "lost", "A": "fine"})


@pytest.mark.parametrize(
    ("value", "code"),
    [(None, "not_scalar"), ([], "not_scalar"), ({}, "not_scalar"), ("a\0b", "contains_nul")],
)
async def test_a_value_that_no_environment_can_hold_is_a_failure(
    tmp_path: Path, value: Any, code: str
) -> None:
    """Contract: no NUL, no structure; known only once it is resolved."""
    config = configure(tmp_path, {"v": variable("literal", "use", value=value)})
    async with opened(config) as service:
        with pytest.raises(VariableError) as caught:
            await service.resolve_env({"A": "v"})
    assert caught.value.code == code


@given(st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
def test_a_number_as_text_is_the_same_number(value: Any) -> None:
    """Nothing is lost on the way into an environment."""
    text = env_text("v", value)
    assert text.isascii()
    if isinstance(value, bool):
        assert text == str(value).lower()
    else:
        assert float(text) == float(value)


@given(st.dictionaries(st.text(), st.text()))
def test_accepted_names_are_plain_identifiers(refs: dict[str, str]) -> None:
    """Nothing that a shell or an environment could take for more than a name."""
    try:
        accepted = check_refs(refs)
    except VariableError:
        return
    assert accepted == refs
    assert all(name.isascii() and name.isidentifier() for name in accepted)


# ---------------------------------------------------------------- secrets


async def test_a_use_value_that_was_given_out_is_taken_out_of_the_hosts_words(
    tmp_path: Path,
) -> None:
    """Corpus R13; values that may be read stay as they are."""
    config = configure(
        tmp_path,
        {
            "key": variable("env", "use", name="K"),
            "longer": variable("literal", "use", value=f"{TOKEN}-longer"),
            "open": variable("literal", value="readable"),
            "short": variable("literal", "use", value="abc"),
        },
    )
    environ = {"K": TOKEN}
    said = {"text": [f"failed with {TOKEN}-longer and {TOKEN}", 1, None], "readable": "abc"}
    async with opened(config, environ=environ) as service:
        assert service.redact(said) == said
        await service.resolve_env({"A": "key", "B": "longer", "C": "open", "D": "short"})
        environ["K"] = "rotated-value"
        await service.resolve_env({"A": "key"})
        assert service.redact(said) == {
            "text": ["failed with [redacted longer] and [redacted key]", 1, None],
            "readable": "abc",
        }
        assert service.redact("rotated-value") == "[redacted key]"


async def test_a_resolved_value_is_not_in_its_repr(tmp_path: Path) -> None:
    """An assertion or a log line must not show it."""
    resolved = await read(tmp_path, variable("literal", value=TOKEN))
    assert TOKEN not in repr(resolved)
    assert resolved.as_dict()["value"] == TOKEN


async def test_a_closed_service_resolves_nothing_more(tmp_path: Path) -> None:
    """Whoever kept it gets a failure of a class of its own."""
    config = configure(tmp_path, {"v": variable("env", name="PATH")})
    async with opened(config) as service:
        pass
    with pytest.raises(VariableError) as caught:
        await service.read("v")
    assert caught.value.code == "aborted"
    await trio.lowlevel.checkpoint()
