"""Whether a rule that asks after the run fits the tool it matches."""

from __future__ import annotations

from ..config import Config
from ..errors import PolicyError
from ..policy import ToolPolicy

__all__ = ["check_review"]


def check_review(config: Config, policy: ToolPolicy, profile: str) -> None:
    """See that what a call changes under ``profile`` can still be withheld after it ran.

    Args:
        config: The configuration.
        policy: The rules of one tool.
        profile: Name of the profile it runs under; one that is not configured has no view.

    Raises:
        PolicyError: ``rule_review_unfit``.
    """
    spec = config.sandbox.profiles.get(profile)
    for rule in policy.reviewing:
        reason = None
        if spec is None or spec.effects == "declared":
            reason = "effects 'declared', so its changes are made before anybody is asked"
        elif spec.network != "none":
            reason = f"network {spec.network!r}, so something may have left before anybody is asked"
        if reason is not None:
            raise PolicyError(
                "rule_review_unfit",
                f"rule {rule.index} has 'review', and profile {profile!r} has {reason}",
                where=f"tools.rules[{rule.index}].review for tool {policy.identity!r}",
                rule=rule.index,
                hint="give the tool a profile with effects 'observed' or 'enforced' and network "
                "'none', or ask before the run",
            )
