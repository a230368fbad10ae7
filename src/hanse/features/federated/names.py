"""Marks and names of federated Services."""

from hanse.model.objects import ClusterId

GLOBAL = "svc.global.federated"
NAMESPACED = "svc.federated"
"""Marks of members, in any spelling of the domain."""

FEDERATED = "fed-svc.antreaplus.vmware-tanzu.com"
"""Annotation of every federated Service."""
CLUSTER = "cluster.federated.antreaplus.vmware-tanzu.com"
"""Annotation of its slices: the cluster they come from."""

DOMAIN = "federated.hanse.dev"

RECORD = f"{DOMAIN}/record"
"""Label of records, by which they are watched: the name of the federated Service."""
RECORD_NAMESPACE = f"{DOMAIN}/namespace"
"""Label of records: the namespace of the federated Service."""
ORIGIN = f"{DOMAIN}/origin"
"""Annotation of slices: whose they are, as much as is needed while that cluster is out of sight."""
MANAGED_HOSTNAME = f"{DOMAIN}/hostname"
"""Annotation of federated Services: the outside name that we set, to know a person's from it."""

EXTERNAL_DNS = ("external-dns.alpha.kubernetes.io", "external-dns.kubernetes.io")
"""Both prefixes of ExternalDNS: the first was read until 0.21, the second since."""

RECORD_TOPIC = "record"
SERVICE_TOPIC = "service"


def member_topic(topic: str, member: ClusterId) -> str:
    """Keys part by the member they serve, so that no plan grows with the federation."""
    return f"{topic}@{member}"


def topic_member(topic: str) -> ClusterId:
    """The member that a key serves."""
    return topic.partition("@")[2]
