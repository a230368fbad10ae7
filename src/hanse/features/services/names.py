"""Names, labels and annotations of multi-cluster services."""

FEATURE_NAME = "services"
"""The name of the feature, as owners of its objects have it."""

SERVICE_NAME = "multicluster.kubernetes.io/service-name"
SOURCE_CLUSTER = "multicluster.kubernetes.io/source-cluster"
DERIVED_SERVICE = "multicluster.kubernetes.io/derived-service"
DOMAIN = "services.hanse.dev"
"""Prefix of our labels and annotations, and the manager of our EndpointSlices."""

SERVICE_NAMESPACE = f"{DOMAIN}/namespace"
"""Label of objects on the broker: the namespace of the service in its clusters."""

RECORD = f"{DOMAIN}/record"
"""Annotation of a cluster's first slice on the broker: the encoded ExportRecord."""

EXPORTED_AT = f"{DOMAIN}/exported-at"
"""Annotation of slices on the broker, set at their creation alone: when the export was created."""

TO_CLUSTERS = f"{DOMAIN}/to-clusters"
"""Annotation of a ServiceExport: the only clusters that import it, comma-joined."""

WEIGHT = f"{DOMAIN}/weight"
"""Annotation of a ServiceExport, and of imported slices: the cluster's share of DNS answers."""

PRIORITY = f"{DOMAIN}/priority"
"""Annotation of a ServiceExport, and of imported slices: the highest that is ready answers."""

AFFINITY = f"{DOMAIN}/affinity"
"""Annotation of a ServiceExport, and of imports: whose endpoints a cluster prefers."""

AGENT = f"{DOMAIN}/agent"
"""Annotation of imported slices whose cluster has another agent: its name."""

SILENT_CLUSTERS = f"{DOMAIN}/silent-clusters"
"""Annotation of an import whose address stands alone: the clusters it waits for, comma-joined."""

LIGHTHOUSE = "lighthouse"
"""The value of `AGENT` for a cluster whose services Submariner Lighthouse exports."""

RESERVED = (
    "hanse.dev/",
    f"{DOMAIN}/",
    "multicluster.kubernetes.io/",
    "endpointslice.kubernetes.io/",
    "lighthouse.submariner.io/",
)
"""Prefixes of labels and annotations that exports cannot put on imports: agents use them."""
