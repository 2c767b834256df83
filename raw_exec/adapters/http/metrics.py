"""What Prometheus is told. Labels are the tool's identity and the outcome's code, never more.

Security: neither arguments nor names that a client makes up become labels, so nobody can
fill the memory or write into somebody's dashboard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from ...dispatch import CODES, ToolResult
from .admission import Admission
from .answers import ERROR_STATUS
from .homes import Homes

__all__ = ["Metrics"]

_UNKNOWN_TOOL: Final = "unknown"
_TOOLS_OWN: Final = "tool_error"
"""Label for codes that tools make up."""

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120)


class Metrics:
    """The metrics of one service, in a registry of their own."""

    def __init__(self, homes: Homes, admission: Admission) -> None:
        self._registry = CollectorRegistry()
        self._calls = Counter(
            "raw_calls", "Calls with an outcome.", ["tool", "code"], registry=self._registry
        )
        self._seconds = Histogram(
            "raw_call_seconds",
            "From the call's turn to its outcome.",
            ["tool"],
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._refused = Counter(
            "raw_requests_refused",
            "Requests that ran nothing.",
            ["code"],
            registry=self._registry,
        )
        self._registry.register(_Present(lambda: _present(homes, admission)))

    def count(self, identity: str | None, result: ToolResult) -> None:
        """Count an outcome.

        Args:
            identity: The tool's; ``None`` when there is no such tool.
        """
        tool = identity or _UNKNOWN_TOOL
        code = "ok"
        if result.is_error:
            ours = result.origin == "host" and result.code in CODES
            code = str(result.code) if ours else _TOOLS_OWN
        self._calls.labels(tool, code).inc()
        self._seconds.labels(tool).observe(result.elapsed_ms / 1000)

    def refuse(self, code: str) -> None:
        """Count a request that ran nothing."""
        if code in ERROR_STATUS:
            self._refused.labels(code).inc()

    def render(self) -> tuple[bytes, str]:
        """Return the text and its media type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


class _Present(Collector):
    """Numbers that are looked up when somebody asks."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterator[Metric]:
        return self._collect()


def _present(homes: Homes, admission: Admission) -> Iterator[Metric]:
    runtimes = [home.opened for home in homes.all if home.opened is not None]
    pools = [runtime.statistics().pool for runtime in runtimes]
    trees = sum(runtime.statistics().live_trees for runtime in runtimes)
    gauges = {
        "raw_calls_running": ("Calls whose turn it is.", admission.running),
        "raw_calls_queued": ("Calls that wait for their turn.", admission.held - admission.running),
        "raw_sessions_open": ("Sessions.", sum(len(home.session_names) for home in homes.all)),
        "raw_runtimes_open": ("Principals with an open runtime.", len(runtimes)),
        "raw_workers": ("Worker processes.", sum(pool.live for pool in pools)),
        "raw_workers_idle": ("Workers without a call.", sum(pool.idle for pool in pools)),
        "raw_process_trees": ("Process trees that are not known to be dead.", trees),
        "raw_kept_bytes": (
            "Outcomes that can still be asked for.",
            sum(home.calls.kept_bytes for home in homes.all),
        ),
    }
    for name, (text, value) in gauges.items():
        yield GaugeMetricFamily(name, text, value=value)
    started = sum(pool.started for pool in pools) + homes.closed_workers
    yield CounterMetricFamily("raw_workers_started", "Workers started so far.", value=started)
