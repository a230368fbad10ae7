"""Labels, annotations and derived names of tenant networks."""

from hashlib import blake2b

from msgspec import Struct

from hanse.model.ownership import OWNER

GROUP = "arktos.futurewei.com"
TENANT = f"{GROUP}/tenant"
"""Label of a namespace, and of what is in it: whose it is."""
NETWORK = f"{GROUP}/network"
"""Label of pods, Services and slices: their network, by the name it has within its tenant."""
DNS = f"{GROUP}/dns"
"""Label of the pods that answer a network's names."""
FINALIZER = f"{GROUP}/network"
READINESS = f"{GROUP}/network-readiness"
"""Annotation of a pod, and its scheduling gate: whether its port is prepared."""
NIC = f"{GROUP}/nic"
CNI_ARGS = f"{GROUP}/cni-args"

DEFAULT = "default"
"""The network of what names none."""

NAMESPACE_NAME = "kubernetes.io/metadata.name"
FEATURE_DOMAIN = "networks.hanse.dev"
RANGE_OF = f"{FEATURE_DOMAIN}/network"
"""Label of a ServiceCIDR: the network whose range it is."""

MAX_NAME_LENGTH = 63


class NetworkName(Struct, frozen=True, order=True):
    """A network: whose, and which of theirs."""

    tenant: str
    network: str = DEFAULT

    def __str__(self) -> str:
        return f"{self.tenant}.{self.network}"

    @property
    def alias_namespace(self) -> str:
        """Where the network's `kubernetes` stands."""
        return namespace_name(self.tenant, "default")

    @property
    def dns_namespace(self) -> str:
        """Where the network's DNS stands."""
        return namespace_name(self.tenant, "kube-system")

    @property
    def kubernetes(self) -> str:
        return shorten_name(f"kubernetes-{self.network}")

    @property
    def kube_dns(self) -> str:
        return shorten_name(f"kube-dns-{self.network}")


def parse_network_name(name: str) -> NetworkName:
    """The network that an object's name tells; a tenant without a dot has no network."""
    tenant, _, network = name.partition(".")
    return NetworkName(tenant, network)


def namespace_name(tenant: str, what: str) -> str:
    """A namespace of the tenant's that stands for one which every cluster has."""
    return shorten_name(f"{tenant}-{what}")


def shorten_name(name: str, most: int = MAX_NAME_LENGTH) -> str:
    """The name, or where it is too long a shorter one that is still nobody else's."""
    if len(name) <= most:
        return name
    digest = blake2b(name.encode(), digest_size=5).hexdigest()
    return f"{name[: most - len(digest) - 1].rstrip('-.')}-{digest}"


def is_managed(labels: dict[str, str]) -> bool:
    """Whether labels are of something that this feature made; others of Hanse's have theirs."""
    return labels.get(OWNER, "").startswith("networks-")
