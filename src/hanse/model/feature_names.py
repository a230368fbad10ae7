"""The features that an installation switches on or off, by the names of their objects."""

from collections.abc import Iterable
from typing import Literal, get_args

FeatureName = Literal[
    "services",
    "statefulsets",
    "gslb",
    "publishing",
    "membership",
    "federated",
    "policies",
    "machines",
    "networks",
]
"""The name of a feature."""

FEATURES: tuple[FeatureName, ...] = get_args(FeatureName)
"""Every feature that can be switched, in the order of printing."""

HOOKED = ("membership", "networks", "statefulsets", "policies")
"""The features that have admission webhooks."""

ADMISSION = "admission"
"""The feature of webhooks, which is on where one of `HOOKED` is."""

_REQUIRED = {"federated": ("membership",), "policies": ("membership",)}


class UnknownFeature(ValueError):
    """A name that no feature has, or no name at all; the message lists the names."""


def parse_features(text: str) -> tuple[str, ...]:
    """The features of a comma-separated list, with those they need; `all` alone stands for all.

    In the order of `FEATURES`. Raises `UnknownFeature`, also for an empty list.
    """
    names = [name for part in text.split(",") if (name := part.strip())]
    if names == ["all"]:
        return FEATURES
    known = ", ".join(FEATURES)
    if not names:
        raise UnknownFeature(f"no feature is named; choose of {known}, or say all")
    unknown = [name for name in names if name not in FEATURES]
    if unknown:
        raise UnknownFeature(f"there is no feature {unknown[0]!r}; choose of {known}, or say all")
    return with_required(names)


def with_required(names: Iterable[str]) -> tuple[str, ...]:
    """The named features and those that they need, in the order of `FEATURES`.

    Names of no feature are ignored.
    """
    chosen = set(names)
    for name in tuple(chosen):
        chosen.update(_REQUIRED.get(name, ()))
    return tuple(name for name in FEATURES if name in chosen)


def needed_by(feature: str) -> tuple[str, ...]:
    """The features that switch a feature on: itself, and those that need it."""
    return tuple(n for n in FEATURES if n == feature or feature in _REQUIRED.get(n, ()))
