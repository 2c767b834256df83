"""How a hook's end and output become a decision: the whole table, without processes."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raw_exec.hooks.answer import Answer, read_answer
from raw_exec.hooks.receipt import FAILURE_CODES, MAX_MESSAGE_BYTES, HookFailure


@dataclass(frozen=True)
class Ended:
    """A made-up end of a process."""

    stdout: bytes = b""
    code: int | None = 0
    signal: int | None = None
    timed_out: bool = False
    overflowed: bool = False


def judged(end: Ended) -> Answer | str:
    try:
        return read_answer(end, timeout_ms=5000, max_output_bytes=65536)
    except HookFailure as exc:
        return exc.code if exc.code in FAILURE_CODES else f"undocumented {exc.code}"


DENY = b'{"decision":"deny","reason":"no rm"}'
GO = b'{"decision":"continue"}'
OUTPUTS: list[tuple[bytes, Answer | str]] = [
    (b"", Answer(False)),
    (b" \r\n\t", Answer(False)),
    (GO, Answer(False)),
    (b'\n {"decision":"continue","message":"fine"} \n', Answer(False, "fine")),
    (b'{"decision":"continue","message":""}', Answer(False)),
    (DENY, Answer(True, "no rm")),
    (b'{"decision":"deny","reason":"r","message":"m"}', Answer(True, "r")),
    (b'{"decision":"deny"}', "missing_reason"),
    (b'{"decision":"deny","reason":" "}', "missing_reason"),
    (b'{"decision":"deny","reason":1}', "wrong_message"),
    (b'{"decision":"deny","reason":null}', "wrong_message"),
    (b'{"decision":"continue","message":[]}', "wrong_message"),
    (b'{"decision":"continue","reason":"x"}', "unknown_field"),
    (b'{"decision":"continue","arguments":{}}', "unknown_field"),
    (b'{"decision":"allow"}', "wrong_decision"),
    (b'{"decision":"approve"}', "wrong_decision"),
    (b'{"decision":"DENY","reason":"x"}', "wrong_decision"),
    (b'{"decision":true}', "wrong_decision"),
    (b'{"decision":[]}', "wrong_decision"),
    (b"{}", "missing_decision"),
    (b'{"continue":true}', "missing_decision"),
    (b"[]", "not_an_object"),
    (b'"deny"', "not_an_object"),
    (b"null", "not_an_object"),
    (GO + GO, "extra_output"),
    (GO + b"\n" + DENY, "extra_output"),
    (GO + b" done", "extra_output"),
    (b"starting\n" + GO, "invalid_json"),
    (b"{'decision':'continue'}", "invalid_json"),
    (b'{"decision":"continue","decision":"deny"}', "invalid_json"),
    (b'{"decision":NaN}', "invalid_json"),
    (b"\xef\xbb\xbf" + GO, "invalid_json"),
    (GO + b"\0", "extra_output"),
    (b"[" * 5000, "invalid_json"),
    (b'{"decision":"continue","message":"\xff"}', "not_utf8"),
    (GO.decode().encode("utf-16"), "not_utf8"),
]


@pytest.mark.parametrize(("stdout", "expected"), OUTPUTS)
def test_exit_0_lets_the_output_speak(stdout: bytes, expected: Answer | str) -> None:
    """Contract: empty, or exactly one object of two forms; anything else is a failure."""
    assert judged(Ended(stdout)) == expected


@pytest.mark.parametrize(("stdout", "expected"), OUTPUTS)
def test_exit_2_denies_whatever_was_printed(stdout: bytes, expected: Answer | str) -> None:
    """Contract: exit 2 wins over JSON; a proper denial's reason is kept."""
    reason = "exited with status 2"
    if isinstance(expected, Answer) and expected.deny:
        reason = expected.message or reason
    assert judged(Ended(stdout, code=2)) == Answer(True, reason)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (Ended(GO, code=1), "nonzero_exit"),
        (Ended(GO, code=137), "nonzero_exit"),
        (Ended(GO, code=255), "nonzero_exit"),
        (Ended(GO, code=None, signal=9), "killed"),
        (Ended(GO, code=None, signal=11), "killed"),
        (Ended(GO, code=None), "launcher_lost"),
        (Ended(GO, timed_out=True), "timeout"),
        (Ended(GO, code=2, timed_out=True), "timeout"),
        (Ended(GO, overflowed=True), "output_limit"),
    ],
)
def test_every_other_end_is_a_failure_although_it_printed_continue(end: Ended, code: str) -> None:
    """Contract: other exit codes, timeouts and floods are no answer."""
    assert judged(end) == code


def test_a_long_reason_is_cut_with_a_mark_and_between_characters() -> None:
    """Contract: receipts are bounded."""
    printed = json.dumps({"decision": "deny", "reason": "é" * 5000}, ensure_ascii=False)
    answer = judged(Ended(printed.encode()))
    assert isinstance(answer, Answer)
    assert answer.message == "é" * (MAX_MESSAGE_BYTES // 2) + "… [truncated 7952 bytes]"


def test_failures_do_not_quote_what_was_printed() -> None:
    """Contract: standard output is not logged."""
    for stdout in (
        b"tok-secret",
        b'{"tok-secret":1}',
        b'{"decision":"tok-secret"}',
        b'"tok-secret"',
    ):
        with pytest.raises(HookFailure) as caught:
            read_answer(Ended(stdout), timeout_ms=1, max_output_bytes=1)
        assert "tok-secret" not in str(caught.value)


@given(st.binary(max_size=200), st.sampled_from([0, 2, 1]))
def test_any_output_is_an_answer_or_a_documented_failure(stdout: bytes, code: int) -> None:
    """style §5: no input may lead to any other exception."""
    answer = judged(Ended(stdout, code=code))
    assert isinstance(answer, Answer) or answer in FAILURE_CODES
