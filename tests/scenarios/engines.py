"""The two engines that scenarios run on, and their capabilities."""

from typing import Literal

EngineName = Literal["embedded", "kubernetes"]

ENGINES: dict[str, frozenset[str]] = {
    "embedded": frozenset({"rbac", "vap"}),
    "kubernetes": frozenset({"rbac", "vap", "address-admission", "scheduler", "autoscaling"}),
}
"""What scenarios may need beyond a plain API server, by engine."""


def missing(engine: str, needs: frozenset[str]) -> frozenset[str]:
    """The needs of a scenario that an engine lacks; raises ValueError for an unknown need."""
    unknown = needs - frozenset().union(*ENGINES.values())
    if unknown:
        raise ValueError(f"no engine has {', '.join(sorted(unknown))}")
    return needs - ENGINES[engine]
