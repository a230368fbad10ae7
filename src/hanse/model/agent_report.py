"""What an agent says in its own cluster of its connection to the broker; pure.

It stands as an annotation of the agent's Lease while something is wrong, so that people who read
the cluster know the cause also where nothing is exported.
"""

from datetime import datetime

from msgspec import Struct

from hanse.model.facts import ClusterState, HeartbeatState
from hanse.model.kinds.coordination import Lease
from hanse.model.objects import parse_time

BROKER_CONNECTION = "hanse.dev/broker-connection"
"""Annotation of an agent's Lease: a reason, since when, and what it may not read, if that is it."""

DISCONNECTED = "Disconnected"
"""The agent does not reach the broker."""
REJECTED = "CredentialsRejected"
"""The broker rejects the token of the agent."""
UNTRUSTED = "CertificateUntrusted"
"""The agent does not trust the certificate of a cluster."""
FORBIDDEN = "AgentForbidden"
"""The broker does not let the agent read what it needs, or renew its Lease."""
CUT_OFF = (DISCONNECTED, REJECTED, FORBIDDEN)
"""The reasons of an agent, or of its exports, that are cut off from the broker."""


class LostConnection(Struct, frozen=True):
    """Why an agent is cut off from the broker, and since when, if that is known."""

    reason: str
    since: datetime | None
    resources: tuple[str, ...] = ()
    """What the agent's account lacks rights for, if the reason is FORBIDDEN."""

    @property
    def rejected(self) -> bool:
        """Whether the broker answers, and rejects the agent's credentials."""
        return self.reason == REJECTED

    @property
    def denied(self) -> tuple[str, ...]:
        """The resources that the broker does not let the agent use; empty if the reason is another.

        Leases, if the reason is FORBIDDEN and no resource is named.
        """
        return self.resources or (Lease.kind.plural,) if self.reason == FORBIDDEN else ()


def refused_resources(
    state: ClusterState | None, heartbeat: HeartbeatState | None
) -> tuple[str, ...]:
    """What a broker that answers does not let the agent use: watched kinds that it may not read.

    Without such kinds `leases`, if the agent may not renew its Lease; else empty.
    """
    if state is not None and state.forbidden:
        return state.forbidden
    return (Lease.kind.plural,) if heartbeat is not None and heartbeat.forbidden else ()


def report_annotations(
    state: ClusterState | None, heartbeat: HeartbeatState | None
) -> dict[str, str]:
    """The annotation of an agent's Lease: why, since when and for what the broker fails it.

    Its value is empty, which removes it, while the broker works for this agent, there is none, or
    it is not known since when it fails.
    """
    lost = _lost_connection(state, heartbeat)
    if lost is None or lost.since is None:
        return {BROKER_CONNECTION: ""}
    words = (lost.reason, lost.since.isoformat(), ",".join(lost.resources))
    return {BROKER_CONNECTION: " ".join(words).rstrip()}


def _lost_connection(
    state: ClusterState | None, heartbeat: HeartbeatState | None
) -> LostConnection | None:
    """Why the broker does not work for this agent; None if it does.

    Rejected credentials come first, then kinds that it may not read, then a Lease that is not
    renewed, as forbidden or else disconnected. None also if there is no other fault, and no renewal
    was tried yet.
    """
    if heartbeat is not None and heartbeat.rejected:
        return LostConnection(REJECTED, heartbeat.since)
    resources = refused_resources(state, heartbeat)
    if state is not None and state.forbidden:
        return LostConnection(FORBIDDEN, state.since, resources)
    if heartbeat is None or heartbeat.renewed:
        return None
    return LostConnection(FORBIDDEN if resources else DISCONNECTED, heartbeat.since, resources)


def reported_connection(lease: Lease | None) -> LostConnection | None:
    """Why the holder of a Lease is cut off from the broker, by its annotation.

    None without that annotation, or if its reason is unknown; `since` is None if it is no time.
    """
    text = lease.metadata.annotations.get(BROKER_CONNECTION, "") if lease is not None else ""
    reason, since, names = (*text.split(" "), "", "", "")[:3]
    if reason not in CUT_OFF:
        return None
    return LostConnection(reason, parse_time(since), tuple(n for n in names.split(",") if n))
