"""Settings of a federated Service: annotations of its member Services, the oldest's counts."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from hanse.features.federated.join_requests import FederatedName
from hanse.features.federated.names import DOMAIN
from hanse.features.federated.records import Identity, Origin
from hanse.model.affinity import FORMAT, AffinityRule, parse_affinity
from hanse.model.internal_addresses import CLUSTERS_FORMAT, INTERNAL_FROM, parse_clusters
from hanse.model.numbers import parse_number
from hanse.model.objects import ClusterId
from hanse.model.weights import MOST_PRIORITY, MOST_WEIGHT

_HEALTH_RULES = ("lease", "probe", "none")


class Setting(Struct, frozen=True):
    """A setting: its annotation, what may stand there, and its text in an `Origin`."""

    annotation: str
    format: str
    parse: Callable[[str], object]
    """What a text means; None or empty if it is not valid."""
    value: Callable[[Origin], str]

    def is_valid(self, text: str) -> bool:
        """Whether the setting can be parsed from a text; an empty text is not valid."""
        return bool(self.parse(text))


HEALTH = Setting(
    f"{DOMAIN}/health",
    "lease, probe or none",
    lambda text: text if text in _HEALTH_RULES else None,
    lambda o: o.health,
)
"""`lease`: a member that answers nothing is drained after a time; `probe`: an address that accepts
no connections is; `none`: nothing ever is."""
AFFINITY = Setting(f"{DOMAIN}/affinity", FORMAT, parse_affinity, lambda o: o.affinity)
"""Which endpoints are used in a cluster: its own, those of others, or all alike."""

PUBLISH_FROM = Setting(
    f"{DOMAIN}/publish-from",
    CLUSTERS_FORMAT,
    parse_clusters,
    lambda o: o.publish_from,
)
"""The clusters that publish the external name, the first that answers; without it, all do."""


WEIGHT, PRIORITY = f"{DOMAIN}/weight", f"{DOMAIN}/priority"
"""Each member Service's own share of the traffic: no other member's counts instead."""


def ruling_member(members: Iterable[Origin], setting: Setting) -> Origin | None:
    """The first of `members`, given in order of joining, with a valid setting; None if none has."""
    return next((m for m in members if setting.is_valid(setting.value(m))), None)


def drains_silent_members(members: Iterable[Origin]) -> bool:
    """Whether endpoints of members that answer nothing are drained: health is `lease`, or unset."""
    ruling = ruling_member(members, HEALTH)
    return ruling is None or ruling.health == "lease"


def probes_members(members: Iterable[Origin]) -> bool:
    """Whether health is `probe`: addresses that accept no connections are drained."""
    ruling = ruling_member(members, HEALTH)
    return ruling is not None and ruling.health == "probe"


def affinity_rule(members: Iterable[Origin]) -> AffinityRule:
    """The affinity of a federated Service, as its oldest member with a valid one sets it.

    The default if none does.
    """
    ruling = ruling_member(members, AFFINITY)
    return (parse_affinity(ruling.affinity) if ruling is not None else None) or AffinityRule()


def publishing_clusters(members: Iterable[Origin]) -> tuple[ClusterId, ...]:
    """The clusters that may publish the external name, the preferred first; empty: all do."""
    ruling = ruling_member(members, PUBLISH_FROM)
    return (parse_clusters(ruling.publish_from) if ruling is not None else None) or ()


def format_clusters(text: str) -> str:
    """A list of clusters, normalised as comma-joined ids; an invalid text unchanged."""
    return ",".join(parse_clusters(text) or (text,))


def setting_faults(
    annotations: Mapping[str, str],
    identity: Identity,
    joined: Iterable[tuple[FederatedName, Iterable[Origin]]],
) -> Iterator[str]:
    """A message for each invalid annotation, and for each setting that an older member overrules.

    An older member overrules with another valid value. `joined` are the federated Services that the
    member Service `identity` joins, with their members in the order of joining.
    """
    if parse_clusters(text := annotations.get(INTERNAL_FROM, "")) is None:
        yield f"annotation {INTERNAL_FROM}: {text[:40]!r} is not {CLUSTERS_FORMAT}"
    for name, most in ((WEIGHT, MOST_WEIGHT), (PRIORITY, MOST_PRIORITY)):
        if name in annotations and parse_number(annotations[name], most) is None:
            yield f"annotation {name}: {annotations[name][:40]!r} is no number from 0 to {most}"
    services = [(federated, list(members)) for federated, members in joined]
    for setting in (HEALTH, AFFINITY, PUBLISH_FROM):
        name, text = setting.annotation, annotations.get(setting.annotation, "")
        if text and not setting.is_valid(text):
            yield f"annotation {name}: {text[:40]!r} is not {setting.format}"
        for federated, members in services if setting.is_valid(text) else ():
            oldest = ruling_member(members, setting)
            used = setting.value(oldest) if oldest is not None else text
            is_same = setting.parse(used) == setting.parse(text)
            if oldest is not None and not is_same and oldest.identity != identity:
                yield f"annotation {name}: {federated} uses {used!r} of {oldest}, the oldest"
