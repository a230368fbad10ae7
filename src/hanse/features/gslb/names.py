"""Names and words that others rely on: conditions, annotations, the Secret of contexts."""

from hanse.model.objects import ClusterId

SECRET = "gslb-config-secret"  # noqa: S105 - its name
SECRET_KEY = "gslb-members"  # noqa: S105 - a key's name
UUID = "amko.vmware.com/amko-uuid"
TERM = "gslb.hanse.dev/epoch"
"""On an AMKOCluster that leads: the number of its term."""
LED_BY = "gslb.hanse.dev/leader"
"""On copies: by whom they were written, as `<epoch>/<context>`."""
PARENTS = "gslb.hanse.dev/home"
"""On copies: the namespace and the definition that the original lives by, as uids."""
HOSTNAMES = "external-dns.alpha.kubernetes.io/hostname"
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
    """The connection to the cluster of a context, apart from others that we may have to it."""
    return _SITE + context


def context_of(site: ClusterId) -> str:
    """The context of such a connection."""
    return site.removeprefix(_SITE)
