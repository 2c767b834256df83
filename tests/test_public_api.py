"""The names that users write."""

from __future__ import annotations

import subprocess
import sys

import raw_exec


def test_public_names_are_exactly_these() -> None:
    """Adding a name is a decision that shows in a diff."""
    assert sorted(raw_exec.__all__) == [
        "Answer",
        "ApprovalRequest",
        "Config",
        "ConfigError",
        "ManifestError",
        "PolicyError",
        "Problem",
        "RawExecError",
        "Runtime",
        "SandboxError",
        "ToolResult",
        "WorkerError",
        "__version__",
        "load_config",
        "open_runtime",
    ]
    for name in raw_exec.__all__:
        assert getattr(raw_exec, name) is not None


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`raw --help` must not pay for the runtime."""
    code = (
        "import sys, raw_exec; "
        "print(sorted({'trio', 'jsonschema', 'wasmtime', 're2', 'click'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
