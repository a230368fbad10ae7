"""The group `about.k8s.io` (KEP-2149): what a cluster says about itself."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Value

CLUSTER_ID = "cluster.clusterset.k8s.io"
CLUSTER_SET = "clusterset.k8s.io"


class ClusterPropertySpec(Value, frozen=True, kw_only=True):
    """The value of a property."""

    value: str = ""


class ClusterProperty(Object, frozen=True, kw_only=True):
    """A property of this cluster, named by the object."""

    kind: ClassVar[Kind] = Kind(
        "about.k8s.io", "v1beta1", "ClusterProperty", "clusterproperties", namespaced=False
    )
    fallback_versions: ClassVar[tuple[str, ...]] = ("v1alpha1",)

    spec: ClusterPropertySpec = ClusterPropertySpec()
