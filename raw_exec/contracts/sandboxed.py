"""Let generated bindings run a prompt's tools in the sandbox.

``SandboxedTools(runtime.registry, ToolExecutionError)["fetch-page"]`` is an implementation
for ``dispatch_tool_async``: it gives the arguments to the runtime, where they take every step
of a call (schema, validation, effects, rules, approval, sandbox). ``BlockingTools`` is the same
for ``dispatch_tool``, on a runtime of ``raw_exec.blocking``.

A refusal and a failure are raised as the generated file's ``ToolExecutionError``, whose text
the model may read: it is the text that a model gets from ``dispatch`` itself. The exception's
cause is a ``ToolFailed`` with the whole result.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Literal, Protocol, TypeVar

from ..dispatch import ToolResult
from ..errors import ContractError
from ..jsontext import JsonTextError, parse

__all__ = ["BlockingTool", "BlockingTools", "SandboxedTool", "SandboxedTools", "ToolFailed"]

Results = Literal["text", "json"]

Dispatch = Callable[[str, Any], Awaitable[ToolResult]]
BlockingDispatch = Callable[[str, Any], ToolResult]
D = TypeVar("D")
T = TypeVar("T")


class ToolSource(Protocol):
    """What is needed of ``runtime.registry``."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def dispatch(self, name: str, arguments: Any, /) -> Awaitable[ToolResult]: ...


class BlockingToolSource(Protocol):
    """What is needed of ``runtime.registry`` of ``raw_exec.blocking``."""

    @property
    def names(self) -> tuple[str, ...]: ...

    def dispatch(self, name: str, arguments: Any, /) -> ToolResult: ...


class _Dumps(Protocol):
    def model_dump(self, *, mode: str, by_alias: bool, exclude_unset: bool) -> dict[str, Any]: ...


class ToolFailed(ContractError):
    """A call ended in an error.

    Args:
        result: Its outcome: code, stage, evidence.
    """

    def __init__(self, name: str, result: ToolResult) -> None:
        super().__init__(result.code or "tool_error", result.text or "the tool failed", where=name)
        self.result = result


class _Tool(Generic[D]):
    """One tool of a runtime as an implementation of a contract.

    Args:
        dispatch: ``dispatch`` of a runtime's registry, or of a session.
        name: What the runtime calls it.
        failure: The generated file's ``ToolExecutionError``.
        results: What to return: the result's text, or the JSON value that it is.
    """

    def __init__(
        self,
        dispatch: D,
        name: str,
        failure: type[Exception],
        results: Results = "text",
    ) -> None:
        self._dispatch = dispatch
        self._name = name
        self._failure = failure
        self._results = results

    def _value_of(self, result: ToolResult) -> Any:
        if result.is_error:
            cause = ToolFailed(self._name, result)
            raise self._failure(cause.message) from cause
        if self._results == "text":
            return result.text
        for block in result.content:
            if block["type"] == "json":
                return block["value"]
        try:
            return parse(result.text, max_bytes=len(result.text.encode()) + 1)
        except JsonTextError as exc:
            raise ContractError(
                "result_not_json",
                "returned a text that is not JSON",
                where=self._name,
                hint="return one JSON value, or take its results as text",
            ) from exc


# The contract's own types are in the generated file; a Protocol there takes ``Any`` for any.


class SandboxedTool(_Tool[Dispatch]):
    __doc__ = _Tool.__doc__

    async def __call__(self, input: Any) -> Any:  # noqa: A002 - the bindings' word
        """Run one call.

        Raises:
            ToolExecutionError: The call was refused or failed.
            ContractError: ``result_not_json``, a bug of the tool.
        """
        return self._value_of(await self._dispatch(self._name, _arguments(input)))


class BlockingTool(_Tool[BlockingDispatch]):
    __doc__ = _Tool.__doc__

    def __call__(self, input: Any) -> Any:  # noqa: A002 - the bindings' word
        """Run one call and wait for it.

        Raises:
            ToolExecutionError: The call was refused or failed.
            ContractError: ``result_not_json``, a bug of the tool.
        """
        return self._value_of(self._dispatch(self._name, _arguments(input)))


def _arguments(value: Any) -> Any:
    """Return the arguments under their own names, without what the model left out."""
    if isinstance(value, Mapping):
        return dict(value)
    model: _Dumps = value
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


class _Tools(Mapping[str, T], Generic[D, T]):
    """The tools of a runtime by the names that a prompt's model emits."""

    def __init__(
        self,
        known: tuple[str, ...],
        dispatch: D,
        failure: type[Exception],
        names: Mapping[str, str] | None,
        results: Results,
    ) -> None:
        self._dispatch = dispatch
        self._failure = failure
        self._results: Results = results
        self._names = {name: name for name in known} | dict(names or {})
        for wire_name, name in self._names.items():
            if name not in known:
                raise self._missing(wire_name, known)

    @abstractmethod
    def _tool(self, name: str) -> T:
        """Return a tool by the runtime's name for it."""

    def __getitem__(self, wire_name: str) -> T:
        name = self._names.get(wire_name)
        if name is None:
            raise self._missing(wire_name, self._names)
        return self._tool(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @staticmethod
    def _missing(wire_name: str, known: Iterable[str]) -> ContractError:
        return ContractError(
            "tool_not_selected",
            f"the runtime has no tool for {wire_name!r:.80}",
            hint=f"select it; it has {', '.join(known) or 'none'}",
        )


class SandboxedTools(_Tools[Dispatch, SandboxedTool]):
    """The tools of a runtime by the names that a prompt's model emits.

    Args:
        source: ``registry`` of an open runtime; that of ``raw_exec.aio`` will do as well.
        failure: The generated file's ``ToolExecutionError``.
        dispatch: ``dispatch`` of a session, for calls in it.
        names: What the runtime calls a tool whose wire name is another.
        results: As for ``SandboxedTool``; a contract with an output schema wants ``"json"``.

    Raises:
        ContractError: ``tool_not_selected``, for a name in ``names`` that is no tool.
    """

    def __init__(
        self,
        source: ToolSource,
        failure: type[Exception],
        *,
        dispatch: Dispatch | None = None,
        names: Mapping[str, str] | None = None,
        results: Results = "text",
    ) -> None:
        super().__init__(source.names, dispatch or source.dispatch, failure, names, results)

    def _tool(self, name: str) -> SandboxedTool:
        return SandboxedTool(self._dispatch, name, self._failure, self._results)


class BlockingTools(_Tools[BlockingDispatch, BlockingTool]):
    """The same for programs without an event loop, on a runtime of ``raw_exec.blocking``.

    Args and errors are those of ``SandboxedTools``.
    """

    def __init__(
        self,
        source: BlockingToolSource,
        failure: type[Exception],
        *,
        dispatch: BlockingDispatch | None = None,
        names: Mapping[str, str] | None = None,
        results: Results = "text",
    ) -> None:
        super().__init__(source.names, dispatch or source.dispatch, failure, names, results)

    def _tool(self, name: str) -> BlockingTool:
        return BlockingTool(self._dispatch, name, self._failure, self._results)
