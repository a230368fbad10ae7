"""Names, labels and annotations of federated StatefulSets, and how long names may be."""

import re
from hashlib import blake2b

import msgspec

from hanse.model.objects import ClusterId, Wire

PREFIX = "statefulsets.hanse.dev"

SET = f"{PREFIX}/set"
"""Label of all that a cluster holds of a set: the set's name."""
CLUSTER = f"{PREFIX}/cluster"
"""Annotation of a replica's Service at the door: the one cluster that has it."""
REVISION = f"{PREFIX}/revision"
"""Annotation of a cluster's StatefulSet: the revision of the set that it was last told to run."""
RELEASED = f"{PREFIX}/released"
"""Annotation of what an orphaned set left behind: a set of that name takes it up again."""
LOST = f"{PREFIX}/lost"
"""Annotation of a report: the broker knew no such set, and what runs stays all the same."""
ORPHANED = f"{PREFIX}/orphaned"
"""Annotation of a set as its host passed it on: it was deleted, and what runs is to run on."""
REBALANCE = f"{PREFIX}/rebalance"
"""Annotation of a set: a new value asks for shares as if the set were new."""
ON_LEAVE = f"{PREFIX}/on-leave"
"""Annotation of a set: `keep` or `redistribute` the share of a cluster that has left for good."""
UPDATE = f"{PREFIX}/update"
"""Annotation of a set: new templates go `everywhere` at once, or `cluster-by-cluster`."""

KUBEFED_PREFIX = "federation.kubernetes.io"
LB_NEEDED = f"{KUBEFED_PREFIX}/statefulset-lb-needed"
REPLICAS = f"{KUBEFED_PREFIX}/stateful-replica-list"
PREFERENCES = f"{KUBEFED_PREFIX}/statefulset-preferences"

REPLICA_LABEL = "federated-statefulset"
"""Label of a pod: its own name, as the design has it."""
POD_NAME = "statefulset.kubernetes.io/pod-name"
"""Label of every pod of a StatefulSet, there from the start."""
REMOTE_LB_CLASS = "hanse.dev/elsewhere"
"""Class of load balancers that stand in another cluster: no controller here makes one."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

MAX_SET_NAME = 52
"""Characters of a StatefulSet's name: its pods' revision label adds a dash and ten more."""

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def cluster_set_name(name: str, cluster: ClusterId) -> str:
    """What a set is called in one cluster."""
    return f"{name}-{cluster}"


def replica_name(name: str, cluster: ClusterId, ordinal: int) -> str:
    """What a replica is called, in the whole fleet."""
    return f"{name}-{cluster}-{ordinal}"


def name_error(name: str, clusters: tuple[ClusterId, ...]) -> str:
    """What is wrong with a set's name and what to do; empty if nothing is."""
    if not _LABEL.fullmatch(name):
        return (
            f"metadata.name: {name!r} cannot be part of its pods' host names; use lower-case "
            "letters, digits and dashes, beginning with a letter"
        )
    if not clusters and len(name) > MAX_SET_NAME - 2:
        return (
            f"metadata.name: {name!r} has {len(name)} characters; with a dash and a cluster's name "
            f"it may have {MAX_SET_NAME}, which leaves room for the revision in its pods' labels"
        )
    longest = max(clusters, key=lambda c: (len(c), c), default="")
    local = cluster_set_name(name, longest)
    if len(local) > MAX_SET_NAME:
        most = MAX_SET_NAME - len(longest) - 1
        return (
            f"metadata.name: in cluster {longest} it becomes {local!r}, {len(local)} characters; "
            f"{MAX_SET_NAME} leave room for the revision in its pods' labels, so the name may "
            f"have {max(most, 0)} here"
        )
    return ""


def template_revision(name: str, template: Wire) -> str:
    """The name of one state of the pod template, the same for everybody."""
    told = msgspec.json.encode(template, order="sorted")
    return f"{name}-{blake2b(told, digest_size=5).hexdigest()}"


def part_name(namespace: str, name: str, cluster: ClusterId) -> str:
    """The name of a cluster's report on the broker."""
    digest = blake2b("\0".join((namespace, name, cluster)).encode(), digest_size=10).hexdigest()
    return f"{name[:100]}-{cluster}-{digest}"


def users(marks: dict[str, str]) -> dict[str, str]:
    """Labels or annotations as the user wrote them, for copies: without anybody's bookkeeping."""
    return {
        name: value
        for name, value in marks.items()
        if not name.startswith(("hanse.dev/", f"{PREFIX}/"))
        and name not in (LAST_APPLIED, REPLICAS)
    }
