"""The group `multicluster.x-k8s.io`: services that span clusters (KEP-1645)."""

from typing import Annotated, ClassVar, Literal

from hanse.model.kinds.core import Affinity, IPFamily, Protocol, SessionAffinityConfig
from hanse.model.kinds.field_types import ClusterName, Conditions, PortNumber
from hanse.model.objects import Kind, Object, Value
from hanse.model.schema import Column, Crd, Schema

ImportType = Literal["ClusterSetIP", "Headless"]


class ServiceExportSpec(Value, frozen=True, kw_only=True):
    """What the imports of a service shall carry."""

    exported_labels: Annotated[
        dict[str, str], Schema("Labels that every import carries.", max_properties=64)
    ] = {}
    exported_annotations: Annotated[
        dict[str, str], Schema("Annotations that every import carries.", max_properties=64)
    ] = {}


class ServiceExportStatus(Value, frozen=True, kw_only=True):
    """How the export stands."""

    conditions: Conditions = ()


class ServiceExport(Object, frozen=True, kw_only=True):
    """Offers the Service of the same name and namespace to all clusters of the set."""

    kind: ClassVar[Kind] = Kind(
        "multicluster.x-k8s.io", "v1beta1", "ServiceExport", "serviceexports"
    )
    fallback_versions: ClassVar[tuple[str, ...]] = ("v1alpha1",)
    crd: ClassVar[Crd] = Crd(
        short_names=("svcex", "svcexport"),
        categories=("hanse", "multicluster"),
        columns=(
            Column("Valid", '.status.conditions[?(@.type=="Valid")].status'),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Conflict", '.status.conditions[?(@.type=="Conflict")].reason', priority=1),
        ),
    )

    spec: ServiceExportSpec = ServiceExportSpec()
    status: ServiceExportStatus = ServiceExportStatus()


class ImportedPort(Value, frozen=True, kw_only=True):
    """One port of an imported service."""

    port: Annotated[PortNumber, Schema("The number clients connect to.")]
    name: Annotated[
        str, Schema("The port's name; optional where there is only one.", max_length=63)
    ] = ""
    protocol: Annotated[Protocol, Schema("The transport protocol.")] = "TCP"
    app_protocol: Annotated[
        str, Schema("The application protocol spoken on the port.", max_length=253)
    ] = ""


class ServiceImportSpec(Value, frozen=True, kw_only=True):
    """What clients need to know to use the service."""

    type: Annotated[
        ImportType, Schema("ClusterSetIP: reached by one address; Headless: pod by pod.")
    ]
    ports: Annotated[tuple[ImportedPort, ...], Schema("The ports it serves.", max_items=100)]
    ips: Annotated[
        tuple[str, ...],
        Schema("Its addresses in this cluster, one per IP family at most.", max_items=2),
    ] = ()
    ip_families: Annotated[
        tuple[IPFamily, ...], Schema("The IP families it has endpoints in.", max_items=2)
    ] = ()
    session_affinity: Annotated[
        Affinity, Schema("ClientIP keeps each client with one endpoint.")
    ] = "None"
    session_affinity_config: Annotated[
        SessionAffinityConfig | None, Schema("The parameters of session affinity.")
    ] = None
    internal_traffic_policy: Annotated[
        Literal["Cluster", "Local", ""], Schema("Whether only endpoints of the same node are used.")
    ] = ""
    traffic_distribution: Annotated[
        str, Schema("Which endpoints to prefer, such as PreferClose.", max_length=63)
    ] = ""


class ExportingCluster(Value, frozen=True, kw_only=True):
    """A cluster that exports the service."""

    cluster: Annotated[ClusterName, Schema("The cluster's id.")]


class ServiceImportStatus(Value, frozen=True, kw_only=True):
    """Where the service comes from, and whether it can be used here."""

    endpoint_slice_objects: Annotated[
        Literal["Present", "Absent"] | None,
        Schema("Whether there are EndpointSlices of it in this cluster."),
    ] = None
    clusters: Annotated[
        tuple[ExportingCluster, ...],
        Schema("The clusters that export it.", keys=("cluster",), max_items=1000),
    ] = ()
    conditions: Conditions = ()


class ServiceImport(Object, frozen=True, kw_only=True):
    """A service of the cluster set, as seen from this cluster."""

    kind: ClassVar[Kind] = Kind(
        "multicluster.x-k8s.io", "v1beta1", "ServiceImport", "serviceimports"
    )
    fallback_versions: ClassVar[tuple[str, ...]] = ("v1alpha1",)
    crd: ClassVar[Crd] = Crd(
        short_names=("svcim", "svcimport"),
        categories=("hanse", "multicluster"),
        columns=(
            Column("Type", ".spec.type"),
            Column("IP", ".spec.ips"),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
        ),
    )

    spec: ServiceImportSpec
    status: ServiceImportStatus = ServiceImportStatus()
