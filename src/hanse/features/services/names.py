"""Names, labels and annotations of multi-cluster services."""

SERVICE_NAME = "multicluster.kubernetes.io/service-name"
SOURCE_CLUSTER = "multicluster.kubernetes.io/source-cluster"
DERIVED_SERVICE = "multicluster.kubernetes.io/derived-service"
DOMAIN = "services.hanse.dev"

SERVICE_NAMESPACE = f"{DOMAIN}/namespace"
"""Label of what stands on the broker: the namespace that the service has in its clusters."""

RECORD = f"{DOMAIN}/record"
"""Annotation of a cluster's first slice on the broker: its export, as the merge needs it."""

TO_CLUSTERS = f"{DOMAIN}/to-clusters"
"""Annotation of a ServiceExport: the only clusters that import it, comma-joined."""

WEIGHT = f"{DOMAIN}/weight"
"""Annotation of a ServiceExport, and of imported slices: the cluster's share of DNS answers."""

PRIORITY = f"{DOMAIN}/priority"
"""Annotation of a ServiceExport, and of imported slices: the highest that is ready answers."""

RESERVED = (
    "hanse.dev/",
    f"{DOMAIN}/",
    "multicluster.kubernetes.io/",
    "endpointslice.kubernetes.io/",
    "lighthouse.submariner.io/",
)
"""Prefixes of marks that mean something to agents: exports cannot put them on imports."""
