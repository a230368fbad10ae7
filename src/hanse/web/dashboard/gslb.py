"""The section of global load balancing: hosts, members, weights and health."""

from collections.abc import Iterable, Sequence

from hanse.features.gslb.terms import leader_term
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.globalservice import GlobalMember, GlobalService, MemberHealth
from hanse.model.snapshot import Change, FactChange, Watch
from hanse.model.view import ClusterPart, FeatureItem


class HostsSection:
    """Every host name that is load balanced."""

    name = "gslb"
    reads: tuple[Watch, ...] = ()

    def keys(self, snapshot: MultiClusterSnapshot) -> Iterable[str]:
        return {_service_key(one) for _, one in snapshot.everywhere(GlobalService)}

    def keys_for(self, change: Change) -> Iterable[str]:
        """The key of a changed GlobalService; none for anything else."""
        if isinstance(change, FactChange) or not isinstance(change.object, GlobalService):
            return ()
        return (_service_key(change.object),)

    def render(self, key: str, snapshot: MultiClusterSnapshot) -> FeatureItem | None:
        """The item of a GlobalService as the first cluster has it; None if no cluster has it.

        Bad if no member is up, warn if some are down.
        """
        namespace, _, name = key.partition("/")
        found = ((w, snapshot.get(w, GlobalService, name, namespace)) for w in snapshot.clusters)
        standing = [(where, service) for where, service in found if service is not None]
        if not standing:
            return None
        _, service = standing[0]
        health = {(h.cluster, h.address): h for h in service.status.members}
        up = [m for m in service.spec.members if _is_up(m, health)]
        serving = _serving(up)
        return FeatureItem(
            namespace=service.namespace,
            name=service.spec.host,
            state="bad" if not up else "good" if len(up) == len(service.spec.members) else "warn",
            told=f"{len(up)}/{len(service.spec.members)} up",
            facts=(
                ("Algorithm", _readable_enum(service.spec.algorithm)),
                ("TTL", "" if service.spec.ttl is None else f"{service.spec.ttl} s"),
                ("When all are down", _readable_enum(service.spec.when_down or "")),
                ("Led by", _leader(service)),
                ("Known in", ", ".join(dict.fromkeys(where for where, _ in standing))),
            ),
            parts=tuple(_member_part(m, serving, health) for m in service.spec.members),
            problems=tuple(
                f"{h.cluster} {h.address} is down: {h.reason}"
                for h in service.status.members
                if not h.up
            ),
        )


def _leader(service: GlobalService) -> str:
    """The leader that wrote it, and its epoch."""
    term = leader_term(service)
    return f"{term.context}, epoch {term.epoch}" if term is not None else ""


def _service_key(service: GlobalService) -> str:
    return f"{service.namespace}/{service.name}"


Known = dict[tuple[str, str], MemberHealth]


def _is_up(member: GlobalMember, health: Known) -> bool:
    """Whether a member is reported as up; without a report it is not."""
    state = health.get((member.cluster, member.address))
    return state is not None and state.up


def _serving(up: Sequence[GlobalMember]) -> list[GlobalMember]:
    """The members that get traffic: those of the highest priority that is up."""
    highest = max((member.priority for member in up), default=0)
    return [member for member in up if member.priority == highest]


def _member_part(member: GlobalMember, serving: list[GlobalMember], health: Known) -> ClusterPart:
    """A member with its percentage of the serving weight.

    Good if it has a share, idle if it is up without one, else bad.
    """
    whole = sum(one.weight for one in serving)
    share = round(100 * member.weight / whole) if member in serving and whole else 0
    up = _is_up(member, health)
    return ClusterPart(
        cluster=member.cluster,
        state="good" if share else "idle" if up else "bad",
        text=f"{member.advertised_address}, weight {member.weight}, priority {member.priority}",
        share=share,
    )


def _readable_enum(name: str) -> str:
    """An enum name in lower case with spaces, without its GSLB prefix."""
    for begin in ("GSLB_ALGORITHM_", "GSLB_SERVICE_DOWN_RESPONSE_"):
        name = name.removeprefix(begin)
    return name.replace("_", " ").lower()
