"""Writes that a cluster refuses, and who refuses them by the message of its API server; pure.

An agent knows them as facts. For people who read its cluster they stand in an annotation of its
Lease, as long as they last.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Protocol

import msgspec

from hanse.model.facts import (
    AgentLeaseRefused,
    ElectionFailure,
    F,
    Fact,
    HeartbeatState,
    KindServed,
    WriteOutcome,
)
from hanse.model.findings import Ref
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.json_input import decode_json
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import AGENT, WEBHOOK_DOMAIN
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
    leases: bool = False
    """Whether Leases are among the objects: who does not renew its Lease is taken for dead."""

    @property
    def key(self) -> Ref:
        """Who refuses the writes."""
        return self.refuser

    @property
    def is_down(self) -> bool:
        """Whether, by the message, a webhook does not answer; other refusers answer, and refuse."""
        return _DOWN.search(self.message) is not None

    @property
    def is_by_agent(self) -> bool:
        """Whether the agent of the cluster is to answer: the webhook is one of ours."""
        return self.refuser.kind == WEBHOOK and self.refuser.name.endswith(f".{WEBHOOK_DOMAIN}")


def refuser_in(message: str, where: ClusterId, namespace: str = "") -> Ref | None:
    """Who refuses a write in a cluster, by the API server's message about it.

    None if the message names nobody. `namespace` is that of a quota, which the message does not
    name. The refuser of a second connection (`gslb/lubeck`) is in the same cluster.
    """
    for pattern, kind in _REFUSERS:
        if (found := pattern.search(message)) is not None:
            space = found.groupdict().get("space") or (namespace if kind == QUOTA else "")
            return Ref(kind, found["name"], space, where.rpartition("/")[2])
    return None


def admission_refusal(error: object) -> str:
    """The message of an error, if a webhook, a policy or a quota refuses a write by it; else empty.

    Missing rights of an account are no such refusal.
    """
    refuser = refuser_in(str(error), "")
    return str(error) if refuser is not None and refuser.kind != ACCOUNT else ""


def write_causes(where: ClusterId, message: str, snapshot: MultiClusterSnapshot) -> tuple[Ref, ...]:
    """Subjects that may explain why a write failed: who refuses it by the message, if it names one.

    Then the CRDs of all kinds that any agent finds not served in the cluster. A quota is without
    its namespace, which the message does not name.
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
    """The writes of an agent, in all clusters, that are refused, grouped by who refuses them.

    First the RefusedWrites facts, which readers other than the agent have from its Lease; then the
    failed writes of its own facts, by refuser.
    """
    yield from snapshot.facts(RefusedWrites)
    yield from _by_refuser(failed_writes(snapshot.facts, snapshot.local))


class FactSource(Protocol):
    """All facts of a type."""

    def __call__(self, type_: type[F], /) -> Iterator[F]: ...


def failed_writes(facts: FactSource, local: ClusterId) -> Iterator[WriteOutcome]:
    """All writes of the agent of a cluster that fail: those of plans, and renewals of Leases.

    The latter are those of members in whose election it cannot take part, and, only if admission
    refuses them, those of its own Lease and of its heartbeat Lease on a broker.
    """
    yield from facts(WriteOutcome)
    for failure in facts(ElectionFailure):
        yield _failed_lease(failure.member, SYSTEM, failure.member, failure.message, failure.since)
    for own in facts(AgentLeaseRefused):
        if admission_refusal(own.message):  # what its account may not do is told of its cluster
            yield _failed_lease(own.cluster, own.namespace, AGENT, own.message, own.since)
    for beat in facts(HeartbeatState):
        if beat.refusal:
            yield _failed_lease(beat.where, beat.namespace, local, beat.refusal, beat.since)


def _failed_lease(
    where: ClusterId, namespace: str, name: str, message: str, since: datetime
) -> WriteOutcome:
    """The failed renewal of a Lease as an outcome `Failed` with this message."""
    place = ClusterObjectRef(where, ObjectRef(Lease.kind, name, namespace))
    return WriteOutcome(place, "Failed", message, since)


def lease_refusers(cluster: ClusterId, snapshot: MultiClusterSnapshot) -> tuple[Ref, ...]:
    """Who refuses the renewals of Leases in a cluster, as any agent says; each once.

    A webhook there that does not answer counts, whatever writes it refuses, unless it is one of
    Hanse's: an agent that is refused its own Lease cannot say so in it, and Hanse's own webhooks do
    not answer since the agent is silent.
    """
    found = (one for agent in snapshot.by_agent.values() for one in refused_writes(agent))
    refusers = (one.refuser for one in found if one.leases or (one.is_down and not one.is_by_agent))
    return tuple(dict.fromkeys(one for one in refusers if one.cluster == cluster))


def _by_refuser(outcomes: Iterable[WriteOutcome]) -> Iterator[RefusedWrites]:
    """The failed writes by the refuser that their message names, sorted by it; others are skipped.

    Each group has the first object by cluster and name, its message (cut to 300 characters), and
    the earliest `since`.
    """
    groups: dict[Ref, list[WriteOutcome]] = {}
    for one in outcomes:
        place = one.target
        if (refuser := refuser_in(one.message, place.where, place.ref.namespace)) is not None:
            groups.setdefault(refuser, []).append(one)
    for refuser, several in sorted(groups.items()):
        first = min(several, key=lambda one: one.target)
        since = min(one.since for one in several)
        message = first.message[:_LONGEST]
        leases = any(one.target.ref.kind == Lease.kind for one in several)
        yield RefusedWrites(refuser, len(several), str(first.target.ref), message, since, leases)


def refusal_annotations(outcomes: Iterable[WriteOutcome]) -> dict[str, str]:
    """The annotation of an agent's Lease: JSON of the first 5 refusers and what they refuse.

    Without any its value is empty, which removes it.
    """
    found = [*_by_refuser(outcomes)][:MOST_REPORTED]
    return {REFUSED_WRITES: msgspec.json.encode(found).decode() if found else ""}


def reported_refusals(lease: Lease | None) -> tuple[RefusedWrites, ...]:
    """The refused writes in a Lease's annotation; none if it is missing or cannot be parsed."""
    text = lease.metadata.annotations.get(REFUSED_WRITES, "") if lease is not None else ""
    try:
        return decode_json(text, tuple[RefusedWrites, ...]) if text else ()
    except msgspec.DecodeError:
        return ()
