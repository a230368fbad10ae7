"""Why a global host name is answered as it is: who serves, by which rule, and who does not."""

from hanse.features.gslb.health import current_health, list_serving_members
from hanse.features.gslb.zone import HASH, HOST, NEAR, GlobalZone
from hanse.model.dns.records import RRset
from hanse.model.dns.zones import View
from hanse.model.kinds.globalservice import GlobalMember, GlobalService
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot

LOWER = "others of a higher priority are up"


def global_service(name: str, snapshot: Snapshot) -> GlobalService | None:
    """The global service of a name, if it is one's."""
    host = name.lower().removesuffix(".")
    return snapshot.get(snapshot.local, GlobalService, host, NAMESPACE)


def global_answer(
    service: GlobalService, rtype: int, view: View, snapshot: Snapshot
) -> RRset | None:
    """What is answered about a type, by the server's own words."""
    nodes = GlobalZone(view).records_for(snapshot)(Key(HOST, service.metadata.name))
    return next((a for node in nodes for a in node.rrsets if a.type == rtype), None)


def global_rule(service: GlobalService, snapshot: Snapshot) -> str:
    """The rule by which one of the members is chosen."""
    spec = service.spec
    serving = list_serving_members(service, snapshot)
    if not serving:
        told = (spec.when_down or "nothing was said").removeprefix("GSLB_SERVICE_DOWN_RESPONSE_")
        return f"every member is down; what is answered then: {told.lower().replace('_', ' ')}"
    names = ", ".join(_named(member) for member in serving)
    if spec.algorithm == HASH:
        return f"the same for a network of {spec.hash_mask or 24} bits, among {names}"
    if spec.algorithm in NEAR:
        return f"the cluster near to the client, among {names}"
    return f"in turn by weight, priority {serving[0].priority}: {names}"


def left_out_of(service: GlobalService, snapshot: Snapshot) -> list[tuple[str, str]]:
    """The members that are not told, and why."""
    serving = {(m.cluster, m.address) for m in list_serving_members(service, snapshot)}
    return [
        (_named(member), LOWER if verdict.up else verdict.reason)
        for member, verdict in current_health(service, snapshot)
        if (member.cluster, member.address) not in serving
    ]


def _named(member: GlobalMember) -> str:
    return f"{member.cluster} ({member.told})"
