"""The two engines that scenarios run on, and what each of them has."""

from typing import Literal

EngineName = Literal["embedded", "kubernetes"]

ENGINES: dict[str, frozenset[str]] = {
    "embedded": frozenset(),
    "kubernetes": frozenset({"rbac", "vap", "scheduler"}),
}
"""What scenarios may need beyond a plain API server, by the engine that has it."""


def missing(engine: str, needs: frozenset[str]) -> frozenset[str]:
    """What an engine lacks of what a scenario needs; a need that nobody knows is a mistake."""
    unknown = needs - frozenset().union(*ENGINES.values())
    if unknown:
        raise ValueError(f"no engine has {', '.join(sorted(unknown))}")
    return needs - ENGINES[engine]
