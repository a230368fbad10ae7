"""Which endpoints of a service are preferred in a cluster: its own, those of others, or all alike.

One vocabulary for all features: `local`, `remote` or `none`, and `local:50` for "as long as at
least half of the local endpoints are ready".
"""

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from hanse.model.kinds.discovery import (
    Endpoint,
    EndpointConditions,
    EndpointHints,
    EndpointSlice,
    ForZone,
)
from hanse.model.numbers import parse_number

AffinityMode = Literal["local", "remote", "none"]
MODES: tuple[AffinityMode, ...] = ("local", "remote", "none")
FORMAT = "local, remote or none, with a percentage as in local:50"

DRAINING = EndpointConditions(ready=False, serving=True, terminating=True)
"""Not ready and still serving: kube-proxy uses such endpoints only while no others are ready."""


ZONE_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
"""Traffic distributions that prefer endpoints of the client's zone, in any Kubernetes version."""


class AffinityRule(Struct, frozen=True):
    """Which side is preferred while enough of its endpoints are ready."""

    mode: AffinityMode = "none"
    min_ready: int = 0
    """The percentage of the preferred side that has to be ready; one endpoint in any case."""


def parse_affinity(text: str) -> AffinityRule | None:
    """The rule in an annotation's value, such as `remote` or `local:50`; None if it is invalid.

    The percentage is 0 to 100, and 0 if it is left out; `none` takes none.
    """
    name, colon, percentage = text.partition(":")
    mode = next((mode for mode in MODES if mode == name), None)
    if mode is None or (colon and mode == "none"):
        return None
    if not colon:
        return AffinityRule(mode)
    number = parse_number(percentage, 100)
    return AffinityRule(mode, number) if number is not None else None


def format_affinity(rule: AffinityRule) -> str:
    """The rule as a text for people: the preferred side, and how many endpoints have to be ready.

    For mode `none`: that all endpoints are alike.
    """
    if rule.mode == "none":
        return "none: all endpoints alike"
    side = "its own endpoints" if rule.mode == "local" else "those of other clusters"
    enough = f"{rule.min_ready}% of them are" if rule.min_ready else "one of them is"
    return f"{rule.mode}: each cluster uses {side} while {enough} ready"


def preferred_side(
    rule: AffinityRule, local: Iterable[bool], remote: Iterable[bool]
) -> Literal["local", "remote"] | None:
    """The side of the rule if one of its endpoints and `min_ready` percent are ready; None: both.

    The readiness of the other side does not count.
    """
    if rule.mode == "none":
        return None
    states = list(local if rule.mode == "local" else remote)
    ready = sum(states)
    return rule.mode if ready and ready * 100 >= rule.min_ready * len(states) else None


def preferred_side_of(
    rule: AffinityRule,
    slices: Iterable[EndpointSlice],
    is_local: Callable[[EndpointSlice], bool],
) -> Literal["local", "remote"] | None:
    """The side that alone is used now, by the ready endpoints of slices; None: both.

    `is_local` says of a slice on which side it is.
    """
    if rule.mode == "none":
        return None
    states: tuple[list[bool], list[bool]] = ([], [])
    for endpoint_slice in slices:
        ready = (endpoint.ready for endpoint in endpoint_slice.endpoints or ())
        states[is_local(endpoint_slice)].extend(ready)
    remote, local = states
    return preferred_side(rule, local, remote)


def with_zone_hint(endpoint: Endpoint) -> Endpoint:
    """The endpoint with its zone as its only hint; unchanged if it has no zone.

    A proxy ignores hints unless all endpoints of a Service have them.
    """
    if not endpoint.zone:
        return endpoint
    return replace(endpoint, hints=EndpointHints(for_zones=(ForZone(name=endpoint.zone),)))


def drained(endpoint_slice: EndpointSlice) -> EndpointSlice:
    """The slice with its ready endpoints as not ready, serving and terminating."""
    return replace(
        endpoint_slice,
        endpoints=tuple(
            replace(endpoint, conditions=DRAINING) if endpoint.ready else endpoint
            for endpoint in endpoint_slice.endpoints or ()
        ),
    )
