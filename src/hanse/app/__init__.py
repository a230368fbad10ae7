"""The composition root: the only package that knows every part.

The lists of all parts are in `composition`, which is imported with the first of its names: programs
of nodes, such as the guard, do without it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hanse.app.composition import (
        BROKER,
        Options,
        broker_access,
        configured_name_server,
        features,
        hooks,
        own_kinds,
        publishing_features,
        supervisor_rules,
        watches,
        watches_by_feature,
        zone_sources,
    )
else:

    def __getattr__(name: str) -> object:
        """A name of `composition`; raises `AttributeError` for one that is not public there."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from hanse.app import composition

        return getattr(composition, name)


__all__ = [
    "BROKER",
    "Options",
    "broker_access",
    "configured_name_server",
    "features",
    "hooks",
    "own_kinds",
    "publishing_features",
    "supervisor_rules",
    "watches",
    "watches_by_feature",
    "zone_sources",
]
