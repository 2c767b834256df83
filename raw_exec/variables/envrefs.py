"""References to variables from a child's environment: checked first, then resolved."""

from __future__ import annotations

import json
from typing import Any

from ..config.sources import ENV_NAME
from .failures import VariableError

__all__ = ["MAX_REFS", "check_refs", "env_text"]

MAX_REFS = 256


def check_refs(refs: object) -> dict[str, str]:
    """Return a copy of the references, if they have the right form.

    Raises:
        VariableError: ``env_refs_invalid``.
    """
    if not isinstance(refs, dict):
        raise _invalid("env_refs is not an object of environment names to variable names")
    if len(refs) > MAX_REFS:
        raise _invalid(f"env_refs has {len(refs)} entries; {MAX_REFS} are allowed")
    out: dict[str, str] = {}
    for name, variable in refs.items():
        if not isinstance(name, str) or ENV_NAME.fullmatch(name) is None:
            raise _invalid(
                f"environment name {name!r:.80} is not like [A-Za-z_][A-Za-z0-9_]*, "
                "at most 256 characters"
            )
        if not isinstance(variable, str):
            raise _invalid(f"env_refs {name!r} does not name a variable")
        out[name] = variable
    return out


def _invalid(message: str) -> VariableError:
    return VariableError("env_refs_invalid", message)


def env_text(variable: str, value: Any) -> str:
    """Return a value as the text of an environment variable.

    Numbers are written as JavaScript does where both can: ``1.0`` is ``1``.

    Raises:
        VariableError: ``not_scalar`` or ``contains_nul``.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):  # finite, as every JSON value here
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else json.dumps(value)
    if not isinstance(value, str):
        raise VariableError(
            "not_scalar",
            f"variable {variable!r} is not a text, number or boolean, "
            "so it can't be an environment variable",
            variable=variable,
        )
    if "\0" in value:
        raise VariableError(
            "contains_nul",
            f"variable {variable!r} contains NUL, so it can't be an environment variable",
            variable=variable,
        )
    return value
