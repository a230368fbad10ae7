"""Labels, annotations and generated names of tenant networks."""

from functools import lru_cache
from hashlib import blake2b

from msgspec import Struct

from hanse.model.ownership import OWNER

GROUP = "arktos.futurewei.com"
TENANT = f"{GROUP}/tenant"
"""Label of a namespace and its objects: the tenant."""
NETWORK = f"{GROUP}/network"
"""Label of pods, Services and slices: the network, by its name within the tenant."""
DNS = f"{GROUP}/dns"
"""Label of the DNS pods of a network."""
APP = "app.kubernetes.io/name"
"""Label of the pods of an application, ours included."""
SHARED_DNS = "hanse-network-dns"
"""The Deployment and Service in our own namespace that answer for many networks."""
FINALIZER = f"{GROUP}/network"
READINESS = f"{GROUP}/network-readiness"
"""Annotation and scheduling gate of a pod that waits for its port."""
NIC = f"{GROUP}/nic"
CNI_ARGS = f"{GROUP}/cni-args"
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a mirror pod: the uid that its static pod has on the node."""

DEFAULT = "default"
"""The network of objects without a network label."""
DNS_NAMESPACE = "kube-system"
"""The namespace of the DNS of a tenant's networks, by its name within the tenant."""

NAMESPACE_NAME = "kubernetes.io/metadata.name"
FEATURE_NAME = "networks"
FEATURE_DOMAIN = "networks.hanse.dev"
RANGE_OF = f"{FEATURE_DOMAIN}/network"
"""Label of a ServiceCIDR: the network that owns the range."""

MAX_NAME_LENGTH = 63
DIGEST_LENGTH = 10
"""Characters of the hash that ends a shortened name, after a dash."""


class NetworkName(Struct, frozen=True, order=True):
    """The name of a network: its tenant, and its name within the tenant."""

    tenant: str
    network: str = DEFAULT

    def __str__(self) -> str:
        """`<tenant>.<network>`, as the Network object is named."""
        return f"{self.tenant}.{self.network}"

    @property
    def alias_namespace(self) -> str:
        """The namespace of the network's `kubernetes` Service: `<tenant>-default`.

        Shortened with a hash if it is too long.
        """
        return namespace_name(self.tenant, "default")

    @property
    def dns_namespace(self) -> str:
        """The namespace of the network's DNS: `<tenant>-kube-system`, shortened if too long."""
        return namespace_name(self.tenant, DNS_NAMESPACE)

    @property
    def kubernetes(self) -> str:
        """The name of the network's `kubernetes` Service: `kubernetes-<network>`.

        Shortened with a hash if it is too long.
        """
        return shorten_name(f"kubernetes-{self.network}")

    @property
    def kube_dns(self) -> str:
        """The name of the network's DNS objects: `kube-dns-<network>`.

        Shortened with a hash if it is too long.
        """
        return shorten_name(f"kube-dns-{self.network}")


@lru_cache(maxsize=16384)
def parse_network_name(name: str) -> NetworkName:
    """Split `<tenant>.<network>` at its first dot; without a dot the network is empty.

    Nothing is validated.
    """
    tenant, _, network = name.partition(".")
    return NetworkName(tenant, network)


def namespace_name(tenant: str, short: str) -> str:
    """The name of a tenant's namespace: `<tenant>-<short name>`, shortened if too long."""
    return shorten_name(f"{tenant}-{short}")


def shorten_name(name: str, limit: int = MAX_NAME_LENGTH) -> str:
    """The name; if it is longer than `limit`, its start with a dash and a hash of the whole name.

    The result has at most `limit` characters.
    """
    if len(name) <= limit:
        return name
    digest = blake2b(name.encode(), digest_size=DIGEST_LENGTH // 2).hexdigest()
    return f"{name[: limit - DIGEST_LENGTH - 1].rstrip('-.')}-{digest}"


def is_managed(labels: dict[str, str]) -> bool:
    """Whether the owner label is one of this feature: it begins with `networks-`."""
    return labels.get(OWNER, "").startswith(f"{FEATURE_NAME}-")
