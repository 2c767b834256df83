"""The handler of ``bash``: one JSON block with a row per command, inside the budget."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass, field
from typing import Any

from .output import MARK_BYTES, Output, is_utf8, share_budget, show, trim, wanted_size
from .processes import Ended, Waker, become_subreaper, find_shell, run_command
from .request import Command, parse_request

__all__ = ["handler"]

_LONGEST_ROW = {
    "index": 15,
    "stdout": "",
    "stderr": "",
    "exit_code": None,
    "signal": "SIGRTMAX-15",
    "timed_out": False,
    "truncated": False,
    "elapsed_ms": 10**9,
    "ended_background": 10**5,
    "not_utf8": True,
}
_ENVELOPE = {"commands": [], "skipped": list(range(16))}

_REASONS = {"timeout": "timeout", "abort": "aborted"}
_START_HINTS = {
    errno.EPERM: "the sandbox profile of this tool does not allow processes",
    errno.E2BIG: "command and variables are too long together",
    errno.ENOENT: "there is no shell, or the working directory is not in the sandbox",
    errno.EAGAIN: "too many processes run already",
}


@dataclass(slots=True)
class _Row:
    """A row and the texts that belong in it, which are cut when all are known."""

    fields: dict[str, Any]
    texts: dict[str, Output] = field(default_factory=dict)


def handler(args: Any, context: Any) -> dict[str, Any]:
    """Run the commands of the arguments in order; see the tool's description.

    ``isError`` is set when commands were skipped or could not be started.
    """
    try:
        commands = parse_request(args)
    except ValueError as exc:
        return _refused("invalid_arguments", str(exc))
    needed = _encoded_bytes(_ENVELOPE) + len(commands) * _row_reserve()
    if context.max_output_bytes < needed:
        # Refused before anything ran: commands whose rows nobody sees are no use.
        return _refused(
            "output_budget_too_small",
            f"{len(commands)} commands need an output budget of {needed} bytes, "
            f"and it is {context.max_output_bytes}",
        )
    problem = _check_references(commands, context)
    if problem is not None:
        return _refused(*problem)
    become_subreaper()
    waker = Waker(context.signal)
    try:
        rows, code = _run_all(commands, context, waker)
    finally:
        waker.close()
    return _result(_assemble(rows, context.max_output_bytes), code)


def _check_references(commands: tuple[Command, ...], context: Any) -> tuple[str, str] | None:
    """Check every command's references before the first one runs."""
    for index, command in enumerate(commands):
        if command.env_refs:
            try:
                context.vars.validate_env_refs(command.env_refs)
            except Exception as exc:
                code = _variable_code(exc)
                return code, f"commands[{index}].env_refs: {exc}; nothing was run"
    return None


def _run_all(
    commands: tuple[Command, ...], context: Any, waker: Waker
) -> tuple[list[_Row], str | None]:
    """Run until one does not end by itself; return all rows and the code of an error."""
    shell = find_shell()
    rows: list[_Row] = []
    code = reason = None
    for index, command in enumerate(commands):
        if reason is None and waker.aborted:
            code = reason = "aborted"
        if reason is not None:
            rows.append(_Row({"index": index, "skipped": reason}))
            continue
        try:
            refs = command.env_refs
            values = context.vars.resolve_env(refs) if refs else {}
        except Exception as exc:
            code = _variable_code(exc)
            reason = "aborted" if code == "aborted" else "prior_var_error"
            rows.append(_error_row(index, code, str(exc)))
            continue
        try:
            ended = run_command(
                # "--": a command may begin with a dash.
                [shell, "-c", "--", command.text],
                env={**os.environ, **values},
                cwd=context.cwd,
                timeout_seconds=command.timeout_ms / 1000,
                capture_bytes=context.max_output_bytes,
                waker=waker,
            )
        except OSError as exc:
            code, reason = "process_unavailable", "prior_start_error"
            rows.append(_error_row(index, code, _start_problem(exc)))
            continue
        rows.append(_ended_row(index, ended))
        if ended.cause != "exit":
            code = reason = _REASONS[ended.cause]
        _shrink(rows, context.max_output_bytes)
    return rows, code


def _ended_row(index: int, ended: Ended) -> _Row:
    fields: dict[str, Any] = {
        "index": index,
        "stdout": "",
        "stderr": "",
        "exit_code": ended.exit_code,
        "signal": ended.signal,
        "timed_out": ended.cause == "timeout",
        "truncated": False,
        "elapsed_ms": ended.elapsed_ms,
    }
    if ended.cause == "abort":
        fields["aborted"] = True
    if ended.ended_background:
        fields["ended_background"] = ended.ended_background
    if not (is_utf8(ended.stdout) and is_utf8(ended.stderr)):
        fields["not_utf8"] = True
    return _Row(fields, {"stdout": ended.stdout, "stderr": ended.stderr})


def _error_row(index: int, code: str, message: str) -> _Row:
    data = message.encode("utf-8", "replace")
    fields = {"index": index, "error": code, "message": ""}
    return _Row(fields, {"message": Output(data, b"", len(data))})


def _start_problem(exc: OSError) -> str:
    number = exc.errno or 0
    hint = _START_HINTS.get(number)
    name = errno.errorcode.get(number, number)
    text = f"the command can't be started: {os.strerror(number)} ({name})"
    return text if hint is None else f"{text}; {hint}"


def _variable_code(exc: Exception) -> str:
    """Return our code for a variable that can't be had; anything else is a bug."""
    code = getattr(exc, "code", None)
    if code is None:
        raise exc
    return "aborted" if code == "aborted" else "vars_unavailable"


# ---------------------------------------------------------------- the budget


def _shrink(rows: list[_Row], budget: int) -> None:
    """Drop what no row can show any more; a later row only makes the shares smaller."""
    for row, name, share in _shares(rows, budget):
        row.texts[name] = trim(row.texts[name], share)


def _assemble(rows: list[_Row], budget: int) -> dict[str, Any]:
    """Put the texts into their rows, cut so that the whole fits the budget."""
    skipped = [row.fields["index"] for row in rows if "skipped" in row.fields]
    value: dict[str, Any] = {"commands": [row.fields for row in rows]}
    if skipped:
        value["skipped"] = skipped
    left = budget - _encoded_bytes(value)
    for row, name, share in _shares(rows, left):
        shown = show(row.texts[name], share)
        row.fields[name] = shown.text
        if shown.omitted and "truncated" in row.fields:
            row.fields["truncated"] = True
    return value


def _shares(rows: list[_Row], budget: int) -> list[tuple[_Row, str, int]]:
    takers = [(row, name) for row in rows for name in row.texts]
    wanted = [wanted_size(row.texts[name], budget) for row, name in takers]
    shares = share_budget(wanted, budget)
    return [(row, name, share) for (row, name), share in zip(takers, shares, strict=True)]


def _row_reserve() -> int:
    return _encoded_bytes(_LONGEST_ROW) + 1 + 2 * MARK_BYTES


def _encoded_bytes(value: Any) -> int:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8"))


def _result(value: dict[str, Any], code: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "json", "value": value}]}
    if code is not None:
        result["isError"] = True
        result["code"] = code
    return result


def _refused(code: str, message: str) -> dict[str, Any]:
    return _result({"commands": [], "error": {"code": code, "message": message}}, code)
