"""Names that are computed: valid where they go, and different whenever what they name differs."""

import re
from hashlib import blake2b

MAX_NAME_LENGTH = 63
"""Characters of a Service's name and of a label's value."""

SYSTEM_NAMESPACE = "hanse-system"
"""Where an agent and its own objects are."""
AGENT = "hanse-agent"
"""The agent's account and roles, its Deployment, and the Lease of its replicas."""

ZONE = "clusterset.local"
"""Below which multi-cluster services have their names, unless somebody chooses another."""

CLUSTER_ID = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A cluster's id becomes part of names, so it is a label (RFC 1123)."""

_SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


def unique_name(*parts: str, most: int = MAX_NAME_LENGTH) -> str:
    """A name that differs whenever a part does, and still tells people what it is about.

    Parts are joined with what no part contains, so that `a-b` in `c` and `a` in `b-c` differ.
    """
    digest = blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()
    readable = re.sub("[^a-z0-9]+", "-", "-".join(parts).lower()).lstrip("-")
    return f"{readable[: most - len(digest) - 1].rstrip('-')}-{digest}"


def holder_cluster(holder: str) -> str:
    """The cluster whose agent holds a Lease: agents are called by it and a name of their own."""
    return holder.partition("_")[0]  # ids have no underscore


def is_label(text: str) -> bool:
    """Whether it is a label (RFC 1123), as names of ports and ids of clusters are."""
    return CLUSTER_ID.fullmatch(text) is not None


def is_service_name(text: str) -> bool:
    """Whether every API server takes it as the name of a Service (RFC 1035)."""
    return _SERVICE_NAME.fullmatch(text) is not None


SLOT_LEASES = tuple(f"hanse-slot-{number}" for number in range(8))
"""Leases in an agent's own namespace: replicas that give out the same things keep apart by them."""
