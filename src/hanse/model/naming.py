"""Well-known names, and names that are computed to be valid and unique."""

import re
from hashlib import blake2b

MAX_NAME_LENGTH = 63
"""Characters of a Service's name and of a label's value."""

SYSTEM_NAMESPACE = "hanse-system"
"""The namespace of an agent and its own objects."""
GUARDS_NAMESPACE = "hanse-guards"
"""The namespace of the Leases of nodes' guards, which may write nothing else."""
BROKER_NAMESPACE = "hanse-broker"
"""The default namespace on the broker of what clusters share."""
IDENTITY_NAMESPACE = "kube-system"
"""The namespace whose uid identifies a cluster: every cluster has it, and nobody deletes it."""
AGENT = "hanse-agent"
"""The name of the agent's ServiceAccount, roles, Deployment and Lease."""
DNS = "hanse-dns"
"""The name of the ServiceAccount, roles, Deployment and Service of our DNS."""
BROKER_SECRET = "hanse-broker"  # noqa: S105 - the name of an object
"""The Secret in a member with the kubeconfig of the broker."""

ZONE = "clusterset.local"
"""The default DNS zone of multi-cluster services."""

WEBHOOK_DOMAIN = "webhooks.hanse.dev"
"""The domain of the names of the agents' own webhooks."""
CLUSTER_ID = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""A cluster's id becomes part of names, so it is a label (RFC 1123)."""

_SERVICE_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


def unique_name(*parts: str, most: int = MAX_NAME_LENGTH) -> str:
    """A readable name of at most `most` characters: the parts joined by `-`, cut, and their hash.

    Letters become lower case, and each run of other characters than a-z and 0-9 one `-`. The hash
    is over the separated parts, so that `a-b` in `c` and `a` in `b-c` differ.
    """
    digest = blake2b("\0".join(parts).encode(), digest_size=10).hexdigest()
    readable = re.sub("[^a-z0-9]+", "-", "-".join(parts).lower()).lstrip("-")
    return f"{readable[: most - len(digest) - 1].rstrip('-')}-{digest}"


def account_user(namespace: str, name: str) -> str:
    """The user name of a ServiceAccount, and the subject of its tokens."""
    return f"system:serviceaccount:{namespace}:{name}"


AGENT_USER = account_user(SYSTEM_NAMESPACE, AGENT)


def holder_cluster(holder: str) -> str:
    """The cluster of a Lease holder `<cluster>_<agent>`; an identity without `_` as it is."""
    return holder.partition("_")[0]  # cluster ids have no underscore


def is_label(text: str) -> bool:
    """Whether it is a DNS label (RFC 1123), as port names and cluster ids are."""
    return CLUSTER_ID.fullmatch(text) is not None


def is_service_name(text: str) -> bool:
    """Whether it is valid as the name of a Service (RFC 1035) in every Kubernetes version."""
    return _SERVICE_NAME.fullmatch(text) is not None


SLOT_LEASES = tuple(f"hanse-slot-{number}" for number in range(8))
"""Leases in the agent's namespace, one per replica that allocates from a shared pool."""
