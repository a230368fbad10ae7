"""Names, labels and annotations of federated StatefulSets, and how long names may be."""

import re
from hashlib import blake2b

import msgspec

from hanse.model.objects import ClusterId, Wire

PREFIX = "statefulsets.hanse.dev"

SET = f"{PREFIX}/set"
"""Label of all objects of a set in a cluster: the set's name."""
CLUSTER = f"{PREFIX}/cluster"
"""Annotation of a replica's Service at the broker: the cluster that runs the replica."""
REVISION = f"{PREFIX}/revision"
"""Annotation of a cluster's StatefulSet: the template revision that was last applied to it."""
SET_UID = f"{PREFIX}/set-uid"
"""Annotation of a cluster's StatefulSet: the uid of the set that it runs for."""
REBUILT = f"{PREFIX}/rebuilt"
"""Annotation of a report: the uid of the cluster that waits to be accepted in place of another."""
ACCEPTED = f"{PREFIX}/accepted"
"""Annotation of a report: the uid of the rebuilt cluster that may start with empty volumes."""
RELEASED = f"{PREFIX}/released"
"""Annotation of objects released by an orphaned set: a new set of that name adopts them."""
LOST = f"{PREFIX}/lost"
"""Annotation of a report: the broker has no such set, and its StatefulSet runs on."""
ORPHANED = f"{PREFIX}/orphaned"
"""Annotation of a host's set at the broker: it was orphaned, and its StatefulSets run on."""
REBALANCE = f"{PREFIX}/rebalance"
"""Annotation of a set: a new value requests shares as for a new set."""
ON_LEAVE = f"{PREFIX}/on-leave"
"""Annotation of a set: `keep` or `redistribute` the share of a cluster that has left."""
UPDATE = f"{PREFIX}/update"
"""Annotation of a set: new templates roll out `everywhere` at once, or `cluster-by-cluster`."""
MAX_UNAVAILABLE = "hanse.dev/max-unavailable"
"""Annotation of a set: how many replicas of all clusters may be down by our doing; default 1."""
DISRUPT_WHILE_AWAY = "hanse.dev/disrupt-while-away"
"""Annotation of a set: `true` lets roll-outs and rebalances go on while a cluster is away."""
DISRUPT_WITHOUT = "hanse.dev/disrupt-without"
"""Annotation of a set: clusters that roll-outs do not wait for, separated by commas."""
OVERRIDES = f"{PREFIX}/overrides"
"""Annotation of a set: what differs in single clusters, as JSON."""
CLUSTER_SELECTOR = f"{PREFIX}/cluster-selector"
"""Annotation of a set: a selector by labels of ClusterMembers; only those get replicas."""
SPREAD_BY = f"{PREFIX}/spread-by"
"""Annotation of a set: a label of ClusterMembers whose values get equal parts."""
UPDATE_ORDER = f"{PREFIX}/update-order"
"""Annotation of a set: the clusters that get a new template first, separated by commas."""
CARRIED = f"{PREFIX}/carried"
"""Label of a ConfigMap that came along with sets."""
POD_REVISION = "controller-revision-hash"
"""Label of every pod of a StatefulSet: the ControllerRevision that it was created from."""

KUBEFED_PREFIX = "federation.kubernetes.io"
LB_NEEDED = f"{KUBEFED_PREFIX}/statefulset-lb-needed"
REPLICAS = f"{KUBEFED_PREFIX}/stateful-replica-list"
PREFERENCES = f"{KUBEFED_PREFIX}/statefulset-preferences"

REPLICA_LABEL = "federated-statefulset"
"""Label of a pod: its own name, as the kubefed design defines it."""
POD_NAME = "statefulset.kubernetes.io/pod-name"
"""Label of every pod of a StatefulSet, there from the start."""
REMOTE_LB_CLASS = "hanse.dev/elsewhere"
"""Class of load balancers that exist in another cluster: no controller here provisions one."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

FORBIDDEN_UPDATE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)
NO_AUTOSCALER = (
    "spec.scaleTargetRef: a HorizontalPodAutoscaler sees the pods of one cluster only, and this "
    "set has replicas in many: scale the set itself, by its metrics of all clusters"
)

MAX_SET_NAME = 52
"""The longest name of a StatefulSet: its pods' revision label adds a dash and ten characters."""

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def cluster_set_name(name: str, cluster: ClusterId) -> str:
    """The name of a set's StatefulSet in one cluster: `<set>-<cluster>`."""
    return f"{name}-{cluster}"


def replica_name(name: str, cluster: ClusterId, ordinal: int) -> str:
    """The name of a replica, unique in the fleet: `<set>-<cluster>-<ordinal>`."""
    return f"{name}-{cluster}-{ordinal}"


def name_error(name: str, clusters: tuple[ClusterId, ...]) -> str:
    """The error of a set's name with its remedy; empty if the name is valid.

    It must be a DNS label that begins with a letter. With the longest of the clusters' names it
    must fit into MAX_SET_NAME; without clusters, with one of a single letter.
    """
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
        allowed = MAX_SET_NAME - len(longest) - 1
        return (
            f"metadata.name: in cluster {longest} it becomes {local!r}, {len(local)} characters; "
            f"{MAX_SET_NAME} leave room for the revision in its pods' labels, so the name may "
            f"have {max(allowed, 0)} here"
        )
    return ""


def template_revision(name: str, template: Wire) -> str:
    """`<name>-<hash>` of a pod template, the same in all clusters."""
    encoded = msgspec.json.encode(template, order="sorted")
    return f"{name}-{blake2b(encoded, digest_size=5).hexdigest()}"


def part_name(namespace: str, name: str, cluster: ClusterId) -> str:
    """The name of a cluster's StatefulSetPart at the broker: `<set>-<cluster>-<hash>`.

    The hash is of namespace, name and cluster; the set's name is cut to 100 characters.
    """
    digest = blake2b("\0".join((namespace, name, cluster)).encode(), digest_size=10).hexdigest()
    return f"{name[:100]}-{cluster}-{digest}"


def user_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Labels or annotations without Hanse's, kubectl's last-applied one and the replica list."""
    return {
        name: value
        for name, value in metadata.items()
        if not name.startswith(("hanse.dev/", f"{PREFIX}/"))
        and name not in (LAST_APPLIED, REPLICAS)
    }


def without_external_dns(annotations: dict[str, str]) -> dict[str, str]:
    """Annotations without those that an ExternalDNS of the cluster would publish names by."""
    return {n: v for n, v in annotations.items() if not n.startswith("external-dns.")}
