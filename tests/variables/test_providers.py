"""Provider protocol 1 with real executables: every class of failure, and no leak in any."""

from __future__ import annotations

import os
import socket
import traceback
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import raw_exec
from raw_exec.variables import VariableError, provider_plan
from raw_exec.variables.failures import FAILURE_CLASSES
from requires import require_node
from tests.variables.support import TOKEN, configure, launched, opened, provider, variable
from toolbox import footprint

ANSWER = "import json; print(json.dumps({}))"


def config_of(root: Path, source: str, *, var: dict[str, Any] | None = None, **fields: Any) -> Any:
    extra = fields.pop("extra", {})
    entry = variable("provider", **{"name": "p", **(var or {})})
    return configure(root, {"v": entry}, {"p": provider(root, "p", source, **fields)}, **extra)


async def read(config: raw_exec.Config, name: str = "v") -> Any:
    with trio.fail_after(30):
        async with opened(config) as service:
            return await service.read(name)


async def fails(config: raw_exec.Config) -> str:
    """Return the class of failure, after a look for leaks."""
    with pytest.raises(VariableError) as caught:
        await read(config)
    text = "".join(traceback.format_exception(caught.value))
    assert TOKEN not in text + repr(caught.value) + str(caught.value.hint)
    assert "variable 'v'" in str(caught.value)
    assert caught.value.code in FAILURE_CLASSES
    return caught.value.code


async def test_a_provider_is_asked_with_one_line_and_its_answer_is_the_value(
    tmp_path: Path,
) -> None:
    """Contract: one JSON line, then the end of the input; the answer may say when."""
    source = (
        "import sys, json\n"
        "line = sys.stdin.readline(); rest = sys.stdin.read()\n"
        "sys.stderr.write('a log line\\n')\n"
        "print(json.dumps({'value': [json.loads(line), line[-1:], rest],"
        " 'observed_at': '2030-01-31T23:59:59.5Z'}))\n"
    )
    resolved = await read(config_of(tmp_path, source, var={"params": {"é": [1]}}))
    assert resolved.as_dict() == {
        "name": "v",
        "value": [{"protocol_version": 1, "name": "p", "params": {"é": [1]}}, "\n", ""],
        "observed_at": "2030-01-31T23:59:59.5Z",
        "cached": False,
    }


async def test_the_seeds_own_provider_gives_the_host_name(tmp_path: Path) -> None:
    """Seed 2, "Variable consumers and providers", word for word."""
    require_node()
    (tmp_path / "host.mjs").write_text(
        'import { hostname } from "node:os";\n'
        'let input = "";\n'
        "for await (const part of process.stdin) input += part;\n"
        "const request = JSON.parse(input);\n"
        'if (request.protocol_version !== 1) throw new Error("unsupported protocol");\n'
        'process.stdout.write(JSON.stringify({value:hostname()}) + "\\n");\n'
    )
    config = configure(
        tmp_path,
        {"host": variable("provider", name="host", type="string")},
        {"host": {"command": "node", "args": ["host.mjs"]}},
    )
    resolved = await read(config, "host")
    assert resolved.value == socket.gethostname()


@pytest.mark.parametrize(
    "printed",
    [
        '{"value":1}',
        ' \\n{"value":1}\\r\\n\\n',
        '{"value":1,"observed_at":"2030-01-31T00:00:00Z"}',
        '{"observed_at":"2030-01-31T00:00:00.123Z","value":1}',
    ],
)
async def test_an_answer_may_have_space_around_it(tmp_path: Path, printed: str) -> None:
    """Corpus R07: CRLF and trailing newlines are no extra output."""
    resolved = await read(config_of(tmp_path, f"import sys; sys.stdout.write('{printed}')"))
    assert resolved.value == 1


WRONG_ANSWERS = {
    "no_output": ["''", "' \\n'"],
    "not_utf8": [f'b\'{{"value":"{TOKEN}\\xff"}}\''],
    "invalid_json": [
        f"'{TOKEN}'",
        f"'{{\"value\": {TOKEN}}}'",
        f'\'{{"{TOKEN}":1,"{TOKEN}":2}}\'',
        "'{\"value\": NaN}'",
        "'{\"value\": 1e999}'",
        "'{\"value\": 9007199254740993}'",
        '\'{"value": "\\\\ud800"}\'',
        "'{\"value\": ' + '[' * 5000",
        "b'\\xef\\xbb\\xbf{\"value\":1}'",
    ],
    "extra_output": [
        f"'{{\"value\":1}}\\n{TOKEN}'",
        '\'{"value":1}{"value":2}\'',
        "'{\"value\":1}\\0'",
        "'1 {\"value\":1}'",
    ],
    "not_an_object": [f"'\"{TOKEN}\"'", "'[1]'", "'null'"],
    "unknown_field": [f'\'{{"value":1,"{TOKEN}":1}}\'', '\'{"value":1,"Value":1}\''],
    "missing_value": ["'{}'", '\'{"observed_at":"2030-01-31T00:00:00Z"}\''],
    "wrong_observed_at": [
        f'\'{{"value":1,"observed_at":{shown}}}\''
        for shown in (
            "null",
            "1",
            '"2030-01-31"',
            '"2030-01-31T00:00:00"',
            '"2030-01-31T00:00:00+00:00"',
            '"2030-01-31T00:00:00.1234Z"',
            '"2030-02-30T00:00:00Z"',
            '"2030-01-31T24:00:01Z"',
            '"2030-01-31T00:00:00Z "',
            f'"{TOKEN}"',
        )
    ],
}


@pytest.mark.parametrize("code", WRONG_ANSWERS)
async def test_a_wrong_answer_is_a_failure_of_its_class_without_its_text(
    tmp_path: Path, code: str
) -> None:
    """Contract: exactly one object, strict UTF-8; corpus R07."""
    (tmp_path / "answers").mkdir()
    variables, providers = {}, {}
    for number, printed in enumerate(WRONG_ANSWERS[code]):
        source = (
            "import sys\n"
            f"said = {printed}\n"
            "said = said if isinstance(said, bytes) else said.encode()\n"
            f"sys.stderr.write({TOKEN!r})\n"
            "sys.stdout.buffer.write(said)\n"
        )
        providers[f"p{number}"] = provider(tmp_path, f"p{number}", source)
        variables[f"v{number}"] = variable("provider", name=f"p{number}")
    found = []
    async with opened(configure(tmp_path, variables, providers)) as service:
        for name in variables:
            with pytest.raises(VariableError) as caught:
                await service.read(name)
            assert TOKEN not in "".join(traceback.format_exception(caught.value))
            found.append(caught.value.code)
    assert found == [code] * len(variables)


@pytest.mark.parametrize(
    ("source", "fields", "code"),
    [
        (f"print({TOKEN!r}); raise SystemExit(3)", {}, "nonzero_exit"),
        ("print('{\"value\":1}'); raise SystemExit(1)", {}, "nonzero_exit"),
        (f"raise ValueError({TOKEN!r})", {}, "nonzero_exit"),
        ("import os; print('{\"value\":1}', flush=True); os.abort()", {}, "killed"),
        (f"print({TOKEN!r}, flush=True)\nwhile True: pass", {"timeout_ms": 1500}, "timeout"),
        (f"print({TOKEN!r} * 5000)", {}, "output_limit"),
        (f"import sys; sys.stderr.write({TOKEN!r} * 5000)", {}, "output_limit"),
        ("print('{\"value\":1}'.ljust(12))", {"max_output_bytes": 12}, "output_limit"),
        ("x = bytearray(10**12)", {}, "nonzero_exit"),
        ("open('/dev/tty')", {}, "nonzero_exit"),
    ],
)
async def test_a_bad_end_is_a_failure_of_its_class(
    tmp_path: Path, source: str, fields: dict[str, Any], code: str
) -> None:
    """Corpus R01, R02, R03, R06, R08, R09: whatever was printed before is not used."""
    assert await fails(config_of(tmp_path, source, **fields)) == code


async def test_an_answer_of_exactly_the_limit_is_taken(tmp_path: Path) -> None:
    """The other half of the byte bound: one byte less than what is refused above."""
    resolved = await read(config_of(tmp_path, "print('{\"value\":1}')", max_output_bytes=12))
    assert resolved.value == 1


async def test_a_value_of_another_type_is_refused(tmp_path: Path) -> None:
    """Contract: wrong type; the message names types only."""
    source = f'print(\'{{"value":"{TOKEN}"}}\')'
    assert await fails(config_of(tmp_path, source, var={"type": "number"})) == "wrong_type"


async def test_a_request_over_its_limit_is_not_sent(tmp_path: Path) -> None:
    """Contract: at most 65536 bytes, the newline included."""
    overhead = len(b'{"protocol_version":1,"name":"p","params":{"k":""}}\n')
    source = "import sys; n = len(sys.stdin.readline()); print('{\"value\":%d}' % n)"
    fits = config_of(tmp_path, source, var={"params": {"k": "x" * (65536 - overhead)}})
    assert (await read(fits)).value == 65536
    over = config_of(tmp_path, source, var={"params": {"k": "x" * (65537 - overhead)}})
    assert await fails(over) == "request_too_large"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("no-such-program-x", "program_missing"),
        ("./missing", "program_missing"),
        ("./raw.json", "program_not_executable"),
        ("./lost", "interpreter_missing"),
        ("./odd", "program_refused"),
    ],
)
async def test_a_provider_that_can_not_be_started_is_told_apart(
    tmp_path: Path, command: str, code: str
) -> None:
    """Corpus R10."""
    for name, text in (("lost", "#!/no/such\n"), ("odd", "not a program\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    entry = variable("provider", name="p")
    assert await fails(configure(tmp_path, {"v": entry}, {"p": {"command": command}})) == code


# ---------------------------------------------------------------- sandbox


def test_the_default_plan_reads_the_configurations_folder_and_nothing_more(
    tmp_path: Path,
) -> None:
    """Contract: a plan of their own; no glob for tools widens it."""
    extra = {"sandbox": {"tools": {"*": "shell"}}}
    config = config_of(tmp_path, "", cwd="sub", extra=extra)
    plan = provider_plan(config, config.var_providers["p"])
    assert plan.read == (str(tmp_path), str(tmp_path / "sub"))
    assert (plan.write, plan.network, plan.processes, plan.sandbox) == ((), "none", False, True)


@pytest.mark.parametrize("key", ["provider/p", "provider/*"])
def test_only_an_entry_for_providers_gives_one_another_profile(tmp_path: Path, key: str) -> None:
    """Contract: network allowed only by config."""
    sandbox = {
        "profiles": {"online": {"network": "host", "processes": "allowed", "read": ["/opt"]}},
        "tools": {key: "online"},
    }
    config = config_of(tmp_path, "", extra={"sandbox": sandbox})
    plan = provider_plan(config, config.var_providers["p"])
    assert (plan.profile, plan.network, plan.processes) == ("online", "host", True)
    assert plan.read == ("/opt", str(tmp_path))


PROBE = """
import json, os, _socket
def tries(act):
    try:
        act()
    except OSError:
        return False
    return True
def connect():
    sock = _socket.socket()
    sock.connect(("127.0.0.1", int(open("port").read())))
def fork():
    if os.fork() == 0:
        os._exit(0)
print(json.dumps({"value": {
    "reads_config": tries(lambda: open("raw.json")),
    "reads_neighbour": tries(lambda: open("../secret")),
    "writes": tries(lambda: open("new", "w")),
    "connects": tries(connect),
    "forks": tries(fork),
}}))
"""


async def test_a_provider_is_confined_unless_the_configuration_says_otherwise(
    tmp_path: Path,
) -> None:
    """A pair: what the default denies is really granted by a profile."""
    folder = tmp_path / "config"
    folder.mkdir()
    (tmp_path / "secret").write_text(TOKEN)
    wide = {
        "profiles": {
            "wide": {
                "network": "host",
                "processes": "allowed",
                "write": ["$CONFIG"],
                "read": [str(tmp_path)],
            }
        },
        "tools": {"provider/p": "wide"},
    }
    with socket.create_server(("127.0.0.1", 0)) as server:
        (folder / "port").write_text(str(server.getsockname()[1]))
        confined = (await read(config_of(folder, PROBE))).value
        free = (await read(config_of(folder, PROBE, extra={"sandbox": wide}))).value
    assert confined == {
        "reads_config": True,
        "reads_neighbour": False,
        "writes": False,
        "connects": False,
        "forks": False,
    }
    assert free == dict.fromkeys(confined, True)


async def test_a_sandbox_that_can_not_be_had_is_a_failure_of_its_own(tmp_path: Path) -> None:
    """Never continue with less than was asked."""
    from raw_exec.variables import open_variables

    config = config_of(tmp_path, "print('{\"value\":1}')")
    async with launched(("no-landlock",)) as launcher, open_variables(config, launcher) as service:
        with pytest.raises(VariableError) as caught:
            await service.read("v")
    assert caught.value.code == "sandbox_unavailable"


# ---------------------------------------------------------------- sharing


def counting(root: Path, name: str, body: str) -> dict[str, Any]:
    """Write a provider that leaves one file in ``runs/`` for each time it ran."""
    (root / "runs").mkdir(exist_ok=True)
    return provider(root, name, f"import os\nopen('runs/' + os.urandom(8).hex(), 'w')\n{body}")


def runs(root: Path) -> int:
    return len(os.listdir(root / "runs"))


WRITER = {
    "sandbox": {
        "profiles": {"writer": {"write": ["$CONFIG"]}},
        "tools": {"provider/*": "writer"},
    }
}


async def test_a_thousand_wishes_for_one_value_are_one_run(tmp_path: Path) -> None:
    """Corpus R14: single flight."""
    entry = counting(tmp_path, "p", "print('{\"value\":1}')")
    config = configure(tmp_path, {"v": variable("provider", name="p")}, {"p": entry}, **WRITER)
    values: list[Any] = []

    async def one() -> None:
        values.append((await service.read("v")).value)

    with trio.fail_after(30):
        async with opened(config) as service:
            async with trio.open_nursery() as nursery:
                for _ in range(1000):
                    nursery.start_soon(one)
            assert (values, runs(tmp_path)) == ([1] * 1000, 1)
            await service.read("v")
    assert runs(tmp_path) == 2  # without a TTL the next call is a new run


async def test_a_hundred_calls_that_want_a_hanging_provider_all_fail_at_its_limit(
    tmp_path: Path,
) -> None:
    """Contract: no retry; one run is all that is spent on them."""
    entry = counting(tmp_path, "p", "import time; time.sleep(999)") | {"timeout_ms": 1500}
    config = configure(tmp_path, {"v": variable("provider", name="p")}, {"p": entry}, **WRITER)
    errors: list[VariableError] = []

    async def one() -> None:
        with pytest.raises(VariableError) as caught:
            await service.read("v")
        errors.append(caught.value)

    with trio.fail_after(30):
        async with opened(config) as service, trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(one)
    assert [error.code for error in errors] == ["timeout"] * 100
    assert len(set(map(id, errors))) == 100
    assert runs(tmp_path) == 1


async def test_a_kept_value_needs_no_second_run(tmp_path: Path, mock_clock: MockClock) -> None:
    """Contract: TTL on the monotonic clock, with a real provider."""
    entry = counting(tmp_path, "p", "print('{\"value\":1}')")
    var = variable("provider", name="p", cache_ttl_ms=60_000)
    async with opened(configure(tmp_path, {"v": var}, {"p": entry}, **WRITER)) as service:
        await service.read("v")
        mock_clock.jump(59)
        assert ((await service.read("v")).cached, runs(tmp_path)) == (True, 1)
        mock_clock.jump(2)
        assert ((await service.read("v")).cached, runs(tmp_path)) == (False, 2)


async def test_a_cancelled_waiter_leaves_the_run_to_the_others(tmp_path: Path) -> None:
    """The value is theirs too."""
    source = "import os\nopen('go').read()\nprint('{\"value\":1}')"
    os.mkfifo(tmp_path / "go")
    config = config_of(tmp_path, source, timeout_ms=20_000)
    scope, values = trio.CancelScope(), []

    async def given_up() -> None:
        with scope:
            await service.read("v")

    async def patient() -> None:
        values.append((await service.read("v")).value)

    with trio.fail_after(30):
        async with opened(config) as service, trio.open_nursery() as nursery:
            nursery.start_soon(given_up)
            nursery.start_soon(patient)
            await wait_all_tasks_blocked()
            scope.cancel()
            await trio.to_thread.run_sync((tmp_path / "go").write_text, "")
    assert values == [1]


async def test_when_the_last_waiter_is_cancelled_the_provider_is_gone_before_he_goes_on(
    tmp_path: Path,
) -> None:
    """Cancellation leaves nothing behind, and the next wish begins anew."""
    source = "import os\nopen('up').read()\nimport time; time.sleep(999)"
    os.mkfifo(tmp_path / "up")
    config = config_of(tmp_path, source, timeout_ms=20_000)
    from raw_exec.variables import open_variables

    with trio.fail_after(30):
        async with launched() as launcher, open_variables(config, launcher) as service:
            for _ in range(2):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(service.read, "v")
                    # The provider runs for certain once it has opened the other end.
                    await trio.to_thread.run_sync((tmp_path / "up").write_text, "")
                    assert launcher.live_children == 1
                    nursery.cancel_scope.cancel()
                assert launcher.live_children == 0


async def test_closing_ends_a_running_provider_and_leaves_nothing(tmp_path: Path) -> None:
    """On exit every provider is ended and reaped; descriptors and folders too."""
    source = "import os\nopen('up').read()\nimport time; time.sleep(999)"
    os.mkfifo(tmp_path / "up")
    config = config_of(tmp_path, source, timeout_ms=20_000)
    failures: list[str] = []

    async def wish(service: Any) -> None:
        try:
            await service.read("v")
        except VariableError as exc:
            failures.append(exc.code)

    with trio.fail_after(30):
        await trio.to_thread.run_sync(int)  # the thread's own descriptors
        before = footprint()
        async with trio.open_nursery() as nursery, opened(config) as service:
            nursery.start_soon(wish, service)
            await trio.to_thread.run_sync((tmp_path / "up").write_text, "")
        assert footprint() == before
    assert failures == ["aborted"]


def test_every_class_of_failure_that_the_source_raises_is_in_the_table() -> None:
    """A class that is not listed could not be looked up."""
    import re

    folder = Path(raw_exec.__file__).parent / "variables"
    found = set()
    for path in folder.glob("*.py"):
        text = path.read_text()
        found |= set(re.findall(r'VariableError\(\s*"([a-z0-9_]+)"', text))
        found |= set(re.findall(r'_failed\(\s*var,\s*"([a-z0-9_]+)"', text))
    assert len(found) > 20
    assert found <= set(FAILURE_CLASSES)
