"""Names, labels, annotations and key topics of federated Services."""

from hanse.model.kinds.federation import SERVICE_RECORD
from hanse.model.objects import ClusterId

GLOBAL = "svc.global.federated"
NAMESPACED = "svc.federated"
"""Annotations of member Services, under any spelling of the domain."""

FEDERATED = "fed-svc.antreaplus.vmware-tanzu.com"
"""Annotation of every federated Service."""
CLUSTER = "cluster.federated.antreaplus.vmware-tanzu.com"
"""Annotation of its slices: the cluster they come from."""

DOMAIN = "federated.hanse.dev"
"""Prefix of our labels and annotations, and the manager of our EndpointSlices."""
JOIN = f"{DOMAIN}/join"
"""Annotation `true` of a user's Service: the federated Service of its name may add endpoints."""

RECORD = SERVICE_RECORD
"""Label of records, by which they are watched: the name of the federated Service."""
RECORD_NAMESPACE = f"{DOMAIN}/namespace"
"""Label of records: the namespace of the federated Service."""
ORIGIN = f"{DOMAIN}/origin"
"""Annotation of slices: the encoded Origin, to keep them while their cluster is unreachable."""
MANAGED_HOSTNAME = f"{DOMAIN}/hostname"
"""Annotation of federated Services: the host name that we set, to tell it from a user's."""
TARGETS = f"{DOMAIN}/targets"
"""Annotation of federated Services with a host name: its addresses, each with its named ports."""
SHARES = f"{DOMAIN}/shares"
"""Annotation beside the targets, where weights differ: each member's weight and addresses."""
MIRRORED_HOSTNAME = f"{DOMAIN}/mirrored-hostname"
"""Annotation `name=value`: which of both annotations we set beside a user's."""

EXTERNAL_DNS = ("external-dns.alpha.kubernetes.io", "external-dns.kubernetes.io")
"""Both prefixes of ExternalDNS: the first was read until 0.21, the second since."""

RECORD_TOPIC = "record"
SERVICE_TOPIC = "service"


def member_topic(topic: str, member: ClusterId) -> str:
    """The topic of keys of one member: `<topic>@<member>`, such as `service@east`."""
    return f"{topic}@{member}"


def topic_member(topic: str) -> ClusterId:
    """The member in the topic of a key, after the first `@`; empty if there is none."""
    return topic.partition("@")[2]
