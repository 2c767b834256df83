"""Questions to the supervisor, which alone decides: how they wait, and ``context.vars``.

In a synchronous handler, and in threads, a question blocks until its answer. Where an event
loop runs, which is so in an asynchronous handler, the same call returns an awaitable.
"""

from __future__ import annotations

import builtins
import sys
from _thread import allocate_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

globals()["__builtins__"] = dict(vars(builtins))

__all__ = ["RequestError", "VariableError", "Variables", "Waiter", "check_text"]

_modules = sys.modules


class RequestError(Exception):
    """The supervisor refuses what was asked.

    Args:
        code: Class of failure, for example ``"not_selected"`` or ``"timeout"``.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class VariableError(RequestError):
    """A variable can't be had."""


class Waiter:
    """Waits for one answer, in the way of the thread that asks.

    Args:
        error: What a refusal is raised as.
    """

    __slots__ = ("_error", "_error_type", "_future", "_gate", "_loop", "_value")

    def __init__(self, error: type[RequestError] = VariableError) -> None:
        self._error_type = error
        self._value: Any = None
        self._error: dict[str, str] | None = None
        self._loop = _running_loop()
        self._future: Any = None
        if self._loop is not None:
            self._future = self._loop.create_future()
        else:
            self._gate = allocate_lock()  # held until the answer
            self._gate.acquire()

    def deliver(self, value: Any, error: dict[str, str] | None) -> None:
        """Take the answer, on any thread, once."""
        self._value, self._error = value, error
        if self._loop is None:
            self._gate.release()
            return
        try:
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            pass  # the loop is closed: nobody waits

    def _settle(self) -> None:
        if self._future.done():
            return  # cancelled meanwhile
        if self._error is None:
            self._future.set_result(self._value)
        else:
            self._future.set_exception(self._exception(self._error))

    def result(self) -> Any:
        """Return the answer, an awaitable for it, or raise why there is none."""
        if self._loop is not None:
            return self._future
        self._gate.acquire()
        if self._error is not None:
            raise self._exception(self._error)
        return self._value

    def _exception(self, error: dict[str, str]) -> RequestError:
        return self._error_type(error["code"], error["message"])


class Variables:
    """The variables that the agent selects. Read only.

    Args:
        ask: Sends ``(method, params, waiter)`` for the running call.
    """

    __slots__ = ("_ask",)

    def __init__(self, ask: Callable[[str, dict[str, Any], Waiter], None]) -> None:
        self._ask = ask

    def list(self) -> Any:
        """Return ``{name, description, type, access}`` of each variable."""
        return self._question("vars.list", {})

    def read(self, name: str) -> Any:
        """Return ``{name, value, observed_at, cached}`` of a variable that may be read.

        Raises:
            VariableError: It may not be read, or can't be resolved.
        """
        return self._question("vars.read", {"name": check_text(name, "name")})

    def validate_env_refs(self, refs: dict[str, str]) -> Any:
        """Check references from environment names to variables; nothing is resolved.

        Raises:
            VariableError: One of them is wrong.
        """
        return self._question("vars.validate_env_refs", {"refs": _references(refs)})

    def resolve_env(self, refs: dict[str, str]) -> Any:
        """Return the text for each environment name, to be given to a child process.

        Raises:
            VariableError: One of them is wrong or can't be resolved.
        """
        return self._question("vars.resolve_env", {"refs": _references(refs)})

    validateEnvRefs = validate_env_refs  # noqa: N815 - the contract's spelling
    resolveEnv = resolve_env  # noqa: N815

    def _question(self, method: str, params: dict[str, Any]) -> Any:
        waiter = Waiter()
        self._ask(method, params, waiter)
        return waiter.result()


def _running_loop() -> Any:
    # Not imported here: a loop can only run where somebody imported it.
    module = _modules.get("_asyncio")
    return None if module is None else module._get_running_loop()


def check_text(value: object, what: str) -> str:
    if type(value) is not str:
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    value.encode()  # a lone surrogate can't be sent
    return value


def _references(refs: object) -> dict[str, str]:
    if type(refs) is not dict:
        raise TypeError(f"refs must be a dict, not {type(refs).__name__}")
    return {
        check_text(name, "a name"): check_text(value, "a variable") for name, value in refs.items()
    }
