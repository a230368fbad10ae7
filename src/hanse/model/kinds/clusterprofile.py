"""ClusterProfile (SIG Multicluster's inventory): the clusters of a fleet, told to other tools."""

from typing import ClassVar

from hanse.model.conditions import Condition
from hanse.model.objects import Kind, Object, Value


class ClusterManager(Value, frozen=True, kw_only=True):
    """Who keeps a profile."""

    name: str


class ClusterProfileSpec(Value, frozen=True, kw_only=True):
    """What a cluster is called, and who keeps its profile."""

    cluster_manager: ClusterManager
    display_name: str = ""


class ClusterVersion(Value, frozen=True, kw_only=True):
    """What a cluster runs."""

    kubernetes: str = ""


class ProfileProperty(Value, frozen=True, kw_only=True):
    """A property of a cluster."""

    name: str
    value: str = ""


class ClusterProfileStatus(Value, frozen=True, kw_only=True):
    """What is known of a cluster."""

    version: ClusterVersion = ClusterVersion()
    properties: tuple[ProfileProperty, ...] = ()
    conditions: tuple[Condition, ...] = ()


class ClusterProfile(Object, frozen=True, kw_only=True):
    """One cluster of the fleet."""

    kind: ClassVar[Kind] = Kind(
        "multicluster.x-k8s.io", "v1alpha1", "ClusterProfile", "clusterprofiles"
    )

    spec: ClusterProfileSpec
    status: ClusterProfileStatus = ClusterProfileStatus()
