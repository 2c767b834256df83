"""The tools of this package: folders like any other, with descriptors in plain Python.

Each folder beside this file is a tool with a manifest and a handler that runs in a sandboxed
worker. What has to be known before a call is approved is trusted code of this package, so it
runs in the supervisor: ``BUILTIN_DESCRIPTORS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..panels.errors import PanelError
from ..panels.forms import check_form
from .bash.running.request import find_problem as find_bash_problem
from .descriptors import BuiltinDescriptor
from .process.asking.request import find_problem as find_process_problem
from .read_file.reading.request import find_problem as find_read_problem
from .write_file.changes.request import describe_effects as describe_write
from .write_file.changes.request import find_problem as find_write_problem

__all__ = ["BUILTIN_DESCRIPTORS", "BuiltinDescriptor"]


def find_question_problem(args: Any) -> str | None:
    """Say what is wrong with the questions of ``ask_user``, before anybody is asked."""
    try:
        check_form({"id": "form", "kind": "form", "fields": args["questions"]}, "")
    except PanelError as exc:
        return f"{exc.pointer.replace('/fields', '/questions', 1)}: {exc.message}"
    return None


BUILTIN_DESCRIPTORS: Mapping[str, BuiltinDescriptor] = MappingProxyType(
    {
        "ask_user": BuiltinDescriptor(validate_args=find_question_problem),
        "bash": BuiltinDescriptor(validate_args=find_bash_problem),
        "process": BuiltinDescriptor(validate_args=find_process_problem),
        "read_file": BuiltinDescriptor(validate_args=find_read_problem),
        "write_file": BuiltinDescriptor(
            validate_args=find_write_problem, describe_effects=describe_write
        ),
    }
)
"""By tool ID. Pure functions of frozen arguments: no I/O, linear in the size of the arguments."""
