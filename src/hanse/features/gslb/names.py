"""Names that users and AMKO rely on: conditions, annotations, the Secret of contexts."""

from hanse.model.objects import ClusterId

SECRET = "gslb-config-secret"  # noqa: S105 - its name
SECRET_KEY = "gslb-members"  # noqa: S105 - a key's name
UUID = "amko.vmware.com/amko-uuid"
TERM = "gslb.hanse.dev/epoch"
"""Annotation of the leader's AMKOCluster: the number of its term."""
LED_BY = "gslb.hanse.dev/leader"
"""Annotation of copies: the term of the leader that wrote them, as `<epoch>/<context>`."""
PARENTS = "gslb.hanse.dev/home"
"""Annotation of copies: the uids of the original's namespace and definition."""
WITHDRAWN = "gslb.hanse.dev/withdrawn"
"""Annotation of a GlobalService that its leader is about to delete."""
LEADER_LEASE = "hanse-gslb-leader"
"""The Lease that the leader renews in every cluster of the federation set."""
UNSEEN = "gslb.hanse.dev/unseen"
"""Annotation of that Lease: the contexts of clusters that the leader does not see now."""
HOSTS = "gslb.hanse.dev/hosts"
"""Annotation of that Lease: the set of hosts of a leader that has decided about all of them."""
HOSTNAMES = "external-dns.alpha.kubernetes.io/hostname"
VS_UUIDS = "ako.vmware.com/host-fqdn-vs-uuid-map"
"""Annotation that AKO writes: the virtual service of each host, as JSON."""
CONTROLLER_UUID = "ako.vmware.com/controller-cluster-uuid"

CURRENT = "current AMKOCluster Validation"
VALID = "valid AMKOCluster object"
INVALID = "invalid AMKOCluster object"
NOT_FEDERATING = "won't federate objects"
NO_LEADER = "AMKO not a leader"

CLIENTS = "member cluster initialisation"
ALL_CLIENTS = "all cluster clients fetched"
NO_CLIENTS = "member cluster clients invalid"
SOME_CLIENTS = "some member cluster clients couldn't be fetched"

MEMBERS = "member cluster validation"
ALL_MEMBERS = "validated all member clusters"
NO_MEMBERS = "validation of member clusters failed"
SOME_MEMBERS = "error in validating some member clusters"

CONFIG_FEDERATION = "GSLBConfig Federation"
POLICY_FEDERATION = "GDP Federation"
RULE_FEDERATION = "GSLBHostRule Federation"
FEDERATED = "federated to all valid clusters successfully"
NOT_FEDERATED = "failure in federation"
SOME_FEDERATED = "error in federating to some clusters"

_SITE = "gslb/"


def site_of(context: str) -> ClusterId:
    """The cluster id `gslb/<context>`, distinct from other connections to the same cluster."""
    return _SITE + context


def context_of(site: ClusterId) -> str:
    """The context of a site's cluster id; an id without the prefix `gslb/` stays as it is."""
    return site.removeprefix(_SITE)
