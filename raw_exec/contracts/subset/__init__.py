"""The part of JSON Schema that bindings can be generated from, checked before anything is sent.

Contract source: seed 3, "Write schemas the generators can express".
"""

from .check import check_subset, find_subset_problems, format_problems, parse_schema
from .differences import DIFFERENCES, Difference

__all__ = [
    "DIFFERENCES",
    "Difference",
    "check_subset",
    "find_subset_problems",
    "format_problems",
    "parse_schema",
]
