"""The namespace on a broker of what clusters share: whose accounts belong to it, and its loss."""

from hanse.model.clusterset import is_broker_lost
from hanse.model.facts import HeartbeatState
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.core import Namespace, ServiceAccount
from hanse.model.objects import ClusterId

MEMBER = "hanse.dev/member"
"""Label of the objects that a broker has for one member."""
GIVEN_UP = "hanse.dev/given-up"
"""Annotation of a member's account: whether the member was made to leave."""


def accounts_namespace(broker_namespace: str) -> str:
    """`<broker namespace>-accounts`, the namespace of the members' accounts.

    It is another one so that losing the broker's own revokes nobody.
    """
    return f"{broker_namespace}-accounts"


def shared_namespace(accounts: str) -> str:
    """The broker's namespace by that of its members' accounts: `-accounts` is removed from the end.

    Names without that end stay unchanged.
    """
    return accounts.removesuffix(accounts_namespace(""))


def lost_broker_namespace(broker: ClusterId, snapshot: MultiClusterSnapshot) -> str:
    """The broker's namespace if it is gone or being deleted, although clusters have joined there.

    First as an agent that renews a Lease there and is synced with the broker sees it; else as the
    snapshot of the broker itself does, by accounts of members that were not given up. Empty if it
    is there or that is not known.
    """
    for agent in snapshot.by_agent.values():
        renewal = agent.fact(HeartbeatState, broker)
        if renewal is None or not agent.synced(broker):
            continue
        if is_broker_lost(agent, broker, renewal.namespace):
            return renewal.namespace
    own = snapshot.by_agent.get(broker)
    if own is None or not own.synced(broker, Namespace):
        return ""
    joined = {
        shared_namespace(one.namespace)
        for one in own.all(broker, ServiceAccount)
        if MEMBER in one.metadata.labels and one.metadata.annotations.get(GIVEN_UP) != "true"
    }
    return next((name for name in sorted(joined) if is_broker_lost(own, broker, name)), "")
