"""Writes that a cluster refuses, and who refuses them by the message of its API server; pure.

An agent knows them as facts. For people who read its cluster they stand in an annotation of its
Lease, as long as they last.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from hanse.model.facts import ElectionFailure, Fact, KindServed, WriteOutcome
from hanse.model.findings import Ref
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.json_input import decode_json
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.federation import SYSTEM
from hanse.model.objects import ClusterId, ClusterObjectRef, ObjectRef
from hanse.model.snapshot import Snapshot

REFUSED_WRITES = "hanse.dev/refused-writes"
"""Annotation of an agent's Lease: JSON of `RefusedWrites`, the first of them."""
WEBHOOK, POLICY, QUOTA, ACCOUNT = (
    "Webhook",
    "ValidatingAdmissionPolicy",
    "ResourceQuota",
    "ServiceAccount",
)
"""The kinds of what refuses writes; an account does by the rights that it lacks."""

MOST_REPORTED = 5
_LONGEST = 300
_DOWN = re.compile(r'failed calling webhook "(?P<name>[^"]+)"')
_REFUSERS = (
    (_DOWN, WEBHOOK),
    (re.compile(r'admission webhook "(?P<name>[^"]+)" denied'), WEBHOOK),
    (re.compile(r"ValidatingAdmissionPolicy '(?P<name>[^']+)'"), POLICY),
    (re.compile(r"exceeded quota: (?P<name>[\w.-]+)"), QUOTA),
    (
        re.compile(r'User "system:serviceaccount:(?P<space>[^:"]+):(?P<name>[^"]+)" cannot'),
        ACCOUNT,
    ),
)


class RefusedWrites(Fact, frozen=True):
    """What one refuser keeps an agent from writing in one cluster."""

    refuser: Ref
    """A webhook, an admission policy, a quota, or an account without rights, in that cluster."""
    count: int
    first: str
    """The first of the objects, by kind and name."""
    message: str
    since: datetime

    @property
    def key(self) -> Ref:
        """Who refuses the writes."""
        return self.refuser

    @property
    def is_down(self) -> bool:
        """Whether it is a webhook that does not answer; others answer, and refuse."""
        return _DOWN.search(self.message) is not None


def refuser_in(message: str, where: ClusterId, namespace: str = "") -> Ref | None:
    """Who refuses a write in a cluster and namespace by the message about it; None if nobody.

    A second connection for another purpose (`gslb/lubeck`) is one to the same cluster.
    """
    for pattern, kind in _REFUSERS:
        if (found := pattern.search(message)) is not None:
            space = found.groupdict().get("space") or (namespace if kind == QUOTA else "")
            return Ref(kind, found["name"], space, where.rpartition("/")[2])
    return None


def write_causes(where: ClusterId, message: str, snapshot: MultiClusterSnapshot) -> tuple[Ref, ...]:
    """Subjects that may explain why a write failed: who refuses it by the message, unserved kinds.

    A quota is without its namespace, which the message does not name.
    """
    refuser = refuser_in(message, where)
    unserved = (
        Ref("CustomResourceDefinition", one.kind.definition, cluster=where)
        for agent in snapshot.by_agent.values()
        for one in agent.facts(KindServed)
        if one.cluster == where and not one.served
    )
    return (*((refuser,) if refuser is not None else ()), *dict.fromkeys(unserved))


def refused_writes(snapshot: Snapshot) -> Iterator[RefusedWrites]:
    """What an agent cannot write anywhere, by who refuses it: as it knows, or as its Lease says."""
    yield from snapshot.facts(RefusedWrites)
    yield from _by_refuser(
        failed_writes(snapshot.facts(WriteOutcome), snapshot.facts(ElectionFailure))
    )


def failed_writes(
    outcomes: Iterable[WriteOutcome], elections: Iterable[ElectionFailure]
) -> Iterator[WriteOutcome]:
    """All writes that fail: those of plans, and the Leases of members that cannot be led."""
    yield from outcomes
    for one in elections:
        lease = ObjectRef(Lease.kind, one.member, SYSTEM)
        place = ClusterObjectRef(one.member, lease)
        yield WriteOutcome(place, "Failed", one.message, one.since)


def refusers_of(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> tuple[Ref, ...]:
    """Who refuses writes in a cluster, by the failed writes of any agent, each once."""
    found = (one.refuser for agent in snapshot.by_agent.values() for one in refused_writes(agent))
    return tuple(dict.fromkeys(one for one in found if one.cluster == cluster))


def _by_refuser(outcomes: Iterable[WriteOutcome]) -> Iterator[RefusedWrites]:
    """The failed writes of each refuser that a message names, with the first object by name."""
    groups: dict[Ref, list[WriteOutcome]] = {}
    for one in outcomes:
        place = one.target
        if (refuser := refuser_in(one.message, place.where, place.ref.namespace)) is not None:
            groups.setdefault(refuser, []).append(one)
    for refuser, several in sorted(groups.items()):
        first = min(several, key=lambda one: one.target)
        since = min(one.since for one in several)
        message = first.message[:_LONGEST]
        yield RefusedWrites(refuser, len(several), str(first.target.ref), message, since)


def refusal_annotations(outcomes: Iterable[WriteOutcome]) -> dict[str, str]:
    """The annotation of an agent's Lease; without refusals it is empty, which removes it."""
    found = [*_by_refuser(outcomes)][:MOST_REPORTED]
    return {REFUSED_WRITES: msgspec.json.encode(found).decode() if found else ""}


def reported_refusals(lease: Lease | None) -> tuple[RefusedWrites, ...]:
    """What the holder of a Lease reports; nothing of what cannot be parsed."""
    text = lease.metadata.annotations.get(REFUSED_WRITES, "") if lease is not None else ""
    try:
        return decode_json(text, tuple[RefusedWrites, ...]) if text else ()
    except msgspec.DecodeError:
        return ()
