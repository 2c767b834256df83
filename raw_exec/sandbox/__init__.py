"""What a tool's process may do, as plain data: derived, explained, compared.

Nothing here talks to the kernel. The launcher (``workers/launcher``) enforces what
``host_plan`` says and answers with what is in force, which ``Enforcement`` reads.
"""

from __future__ import annotations

from .doctor import Finding, best_tier, derive_findings
from .explain import (
    PathVerdict,
    explain_effects,
    explain_network,
    explain_path,
    explain_plan,
)
from .host import host_plan
from .plan import SandboxPlan, derive_plan, descriptor_plan, in_view
from .report import Enforcement, parse_enforcement
from .runtime_files import RuntimeFiles, node_files, program_files, python_files

__all__ = [
    "Enforcement",
    "Finding",
    "PathVerdict",
    "RuntimeFiles",
    "SandboxPlan",
    "best_tier",
    "derive_findings",
    "derive_plan",
    "descriptor_plan",
    "explain_effects",
    "explain_network",
    "explain_path",
    "explain_plan",
    "host_plan",
    "in_view",
    "node_files",
    "parse_enforcement",
    "program_files",
    "python_files",
]
