"""Variables: named values of the operator, read or referenced by selected tools."""

from __future__ import annotations

from .failures import VariableError
from .providers import provider_plan
from .service import Resolved, VariableService, describe_variables, open_variables

__all__ = [
    "Resolved",
    "VariableError",
    "VariableService",
    "describe_variables",
    "open_variables",
    "provider_plan",
]
