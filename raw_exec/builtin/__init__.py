"""The tools of this package: folders like any other, with descriptors in plain Python.

Each folder beside this file is a tool with a manifest and a handler that runs in a sandboxed
worker. What has to be known before a call is approved is trusted code of this package, so it
runs in the supervisor: ``BUILTIN_DESCRIPTORS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .bash.running.request import find_problem as find_bash_problem
from .descriptors import BuiltinDescriptor
from .process.asking.request import find_problem as find_process_problem
from .read_file.reading.request import find_problem as find_read_problem
from .write_file.changes.request import describe_effects as describe_write
from .write_file.changes.request import find_problem as find_write_problem

__all__ = ["BUILTIN_DESCRIPTORS", "BuiltinDescriptor"]

BUILTIN_DESCRIPTORS: Mapping[str, BuiltinDescriptor] = MappingProxyType(
    {
        "bash": BuiltinDescriptor(validate_args=find_bash_problem),
        "process": BuiltinDescriptor(validate_args=find_process_problem),
        "read_file": BuiltinDescriptor(validate_args=find_read_problem),
        "write_file": BuiltinDescriptor(
            validate_args=find_write_problem, describe_effects=describe_write
        ),
    }
)
"""By tool ID. Pure functions of frozen arguments: no I/O, linear in the size of the arguments."""
