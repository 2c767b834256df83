"""The state of one call on its way through the stages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..approval import AbortSignal, Approver
from ..hooks import HookReceipt
from ..limits import Limits
from ..policy import Evaluation
from ..pool.calls import CallTimer
from ..tools import Tool, ToolRegistry
from ..transactions.view import View, start_of_call

if TYPE_CHECKING:
    from ..jobs import JobService
    from ..mcp_client import McpService
    from ..panels import PanelCall
    from ..pool import WorkerPool, WorkerSpec
    from ..pool.calls import RequestHandler
    from ..sandbox import SandboxPlan
    from .descriptors import DescriptorService
    from .outcome import ToolResult

__all__ = ["Call", "Home", "HookRunner", "PostHookRunner", "Services"]


class HookRunner(Protocol):
    """Runs the selected hooks of one event. A hook can veto; it can change nothing."""

    async def __call__(self, call: Call) -> None:
        """Raise ``CallRefused`` with code ``hook_denied`` to stop the call."""


class PostHookRunner(Protocol):
    """Tells the selected hooks that a handler ran. Nothing can be stopped any more."""

    async def __call__(self, call: Call, result: Mapping[str, Any]) -> None:
        """Take ``{content, isError, code?}`` without panel blocks, before caps."""


class Home(Protocol):
    """The session of a call: keeps its jobs, and asks people its questions."""

    @property
    def jobs(self) -> JobService:
        """The background processes of the session."""

    async def ask(self, call: Call, params: Any) -> Any:
        """Answer ``interactions.request``; raises ``RequestRefused``."""


@dataclass(frozen=True, slots=True)
class Services:
    """What the stages work with; one set per runtime, the same for every call.

    Args:
        registry: The tools.
        pool: Workers.
        descriptors: Runs ``validateArgs`` and ``describeEffects``.
        spec_for: Says what worker a tool needs for a working directory.
        approve: Asked when a rule requires approval; ``None`` refuses.
        limits: Bounds of calls.
        record: Called with every finished call, where an audit log is kept.
        pre_hooks: ``PreToolUse``, when hooks are selected.
        post_hooks: ``PostToolUse`` and ``PostToolUseFailure``, when hooks are selected.
        requests: Says who answers what the handler of a call asks for (variables).
        redact: Takes values that only tools may know out of JSON data.
        servers: Calls tools of MCP servers, where any is selected.
        state_dir: Where commits are journaled; the user's own by default.
    """

    registry: ToolRegistry
    pool: WorkerPool
    descriptors: DescriptorService
    spec_for: Callable[[Tool, str], WorkerSpec]
    approve: Approver | None
    limits: Limits
    record: Callable[[Call, ToolResult], None] | None = None
    pre_hooks: HookRunner | None = None
    post_hooks: PostHookRunner | None = None
    requests: Callable[[Call], RequestHandler] | None = None
    redact: Callable[[Any], Any] | None = None
    servers: McpService | None = None
    state_dir: Path | None = None


@dataclass(slots=True)
class Call:
    """One call. Stages fill it in from left to right and never change what is there.

    Args:
        name: The model-visible name, as given.
        raw_arguments: The arguments, as given.
        cwd: Absolute directory for relative paths.
        max_output_bytes: Budget of text and JSON.
        tool_call_id: The call's ID.
        source: ``"model"`` or ``"user_action"``.
        call_ms: Wall time of the handler.
        signal: Made when somebody is asked; set when the caller gives the call up.
        session_id: Session that the call belongs to, when known.
        turn_id: Turn in it, when known.
        stage: Name of the stage that it is in.
        handler_ran: Whether a worker was given the call; only then are post hooks told.
        receipts: Of the hooks that ran, in order.
        home: The session that it belongs to, when there is one.
        panels: What it may do with panels; ``None`` where no session keeps any.
        panel_lines: What the model is told of its panel updates.
        timer: Of the handler's wall time.
        began_ns: When its dispatch began, ``time.time_ns()``.
        started_ns: From when on changes by others are in its way, where it runs on a view.
        dry_run: Run on a view and commit nothing.
        plan: What its worker was granted, once there was one.
        view: What it ran on, when it did not write in place; closed with the dispatch.
        changes: What it changed there, as many as an outcome lists.
        committed: Whether that was committed; ``None`` when there was nothing to decide.
        has_changed_files: Changes of it were committed, so it can't be given up any more.
        diff: What it changed, as a unified diff, for a dry run.
    """

    name: str
    raw_arguments: Any
    cwd: str
    max_output_bytes: int
    tool_call_id: str
    source: str
    call_ms: int
    signal: AbortSignal | None = None
    session_id: str | None = None
    turn_id: str | None = None
    stage: str = "exposure"
    handler_ran: bool = False
    receipts: list[HookReceipt] = field(default_factory=list)
    tool: Tool | None = None
    arguments: Any = None
    effects: Any = None
    evaluation: Evaluation | None = None
    value: Any = None
    content: tuple[dict[str, Any], ...] = ()
    is_error: bool = False
    code: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    enforced: Mapping[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    home: Home | None = None
    panels: PanelCall | None = None
    panel_lines: list[str] = field(default_factory=list)
    timer: CallTimer = field(default_factory=CallTimer)
    began_ns: int = 0
    started_ns: int = 0
    dry_run: bool = False
    plan: SandboxPlan | None = None
    view: View | None = None
    changes: tuple[dict[str, Any], ...] = ()
    committed: bool | None = None
    has_changed_files: bool = False
    diff: str | None = None

    async def note_start(self) -> None:
        """Wait for a moment that nothing done before this call is stamped with, and note it."""
        self.started_ns = await start_of_call(self.began_ns)

    def take_view(self, view: View) -> None:
        """Hold a view instead of the one held so far, which is closed."""
        if self.view is not None:
            self.view.close()
        self.view = view
        self.committed = False

    def chosen_tool(self) -> Tool:
        """Return the tool; the exposure stage, which is first, has set it."""
        assert self.tool is not None  # noqa: S101
        return self.tool


Stage = Callable[[Call, Services], Awaitable[None]]
