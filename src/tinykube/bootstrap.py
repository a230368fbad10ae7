"""The objects that every new cluster has."""

from ipaddress import ip_network
from random import Random

from tinykube.clock import Clock
from tinykube.object_meta import new_uid, timestamp
from tinykube.rbac.authorizer import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RBAC_GROUP
from tinykube.rbac.default_roles import DEFAULT_ROLES
from tinykube.resources import Object
from tinykube.service_allocator import SERVICECIDRS, ServiceAllocator
from tinykube.storage import Storage

_NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")
_PRIORITIES = (
    (
        "system-node-critical",
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2000000000,
        (
            "Used for system critical pods that must run in the cluster, but can be moved to "
            "another node if necessary."
        ),
    ),
)


class Bootstrap:
    """Creates the initial objects in an empty storage."""

    def __init__(
        self, storage: Storage, clock: Clock, random: Random, allocator: ServiceAllocator
    ) -> None:
        """Nothing is created yet."""
        self._storage = storage
        self._clock = clock
        self._random = random
        self._allocator = allocator

    def create_initial_objects(self, service_range: str, advertise: str, port: int) -> None:
        """Create namespaces, priority classes, roles, the ServiceCIDR, the Service `kubernetes`.

        `advertise` and `port` are the endpoint of that Service.
        """
        for name in _NAMESPACES:
            self._create(
                "namespaces",
                "v1",
                "Namespace",
                {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
            )
        for name, value, description in _PRIORITIES:
            self._create(
                "priorityclasses.scheduling.k8s.io",
                "scheduling.k8s.io/v1",
                "PriorityClass",
                {"name": name, "generation": 1},
                {
                    "value": value,
                    "description": description,
                    "preemptionPolicy": "PreemptLowerPriority",
                },
            )
        self.create_missing_roles()
        self._create_service_cidr(service_range)
        self._create_api_service(service_range, advertise, port)

    def create_missing_roles(self) -> None:
        """Create the default ClusterRoles and bindings that do not exist by name; change none."""
        version = f"{RBAC_GROUP}/v1"
        for role in DEFAULT_ROLES:
            if self._storage.get(CLUSTER_ROLES, "", role.name) is None:
                self._create(CLUSTER_ROLES, version, "ClusterRole", role.metadata, role.fields)
            binding = role.binding
            if binding and self._storage.get(CLUSTER_ROLE_BINDINGS, "", role.name) is None:
                kind = "ClusterRoleBinding"
                self._create(CLUSTER_ROLE_BINDINGS, version, kind, role.metadata, binding)

    def _create_service_cidr(self, service_range: str) -> None:
        """Create the ServiceCIDR `kubernetes` with the CIDRs (separated by a comma), Ready."""
        ready = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": timestamp(self._clock.now()),
            "reason": "",
            "message": "Kubernetes Service CIDR is ready",
        }
        cidrs = [part.strip() for part in service_range.split(",")]
        self._create(
            SERVICECIDRS,
            "networking.k8s.io/v1",
            "ServiceCIDR",
            {"name": "kubernetes", "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
            {"spec": {"cidrs": cidrs}, "status": {"conditions": [ready]}},
        )

    def _create_api_service(self, service_range: str, advertise: str, port: int) -> None:
        """Create Service, EndpointSlice and Endpoints `default/kubernetes`.

        The Service takes the first address of the first range, and so allocates it.
        """
        first = str(ip_network(service_range.split(",", maxsplit=1)[0].strip())[1])
        labels = {"component": "apiserver", "provider": "kubernetes"}
        metadata = {"name": "kubernetes", "namespace": "default", "labels": labels}
        spec = {
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
            "clusterIP": first,
            "clusterIPs": [first],
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
        }
        service: Object = {"metadata": metadata, "spec": spec}
        service = self._allocator.allocate(service, None, dry_run=False)
        body = {"spec": service["spec"], "status": {"loadBalancer": {}}}
        self._create("services", "v1", "Service", metadata, body)
        ports = [{"name": "https", "port": port, "protocol": "TCP"}]
        family = "IPv6" if ":" in advertise else "IPv4"
        self._create(
            "endpointslices.discovery.k8s.io",
            "discovery.k8s.io/v1",
            "EndpointSlice",
            {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"},
                "generation": 1,
            },
            {
                "addressType": family,
                "endpoints": [{"addresses": [advertise], "conditions": {"ready": True}}],
                "ports": ports,
            },
        )
        self._create(
            "endpoints",
            "v1",
            "Endpoints",
            {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
            },
            {"subsets": [{"addresses": [{"ip": advertise}], "ports": ports}]},
        )

    def _create(
        self, store: str, api_version: str, kind: str, metadata: Object, body: Object
    ) -> None:
        """Store an object with new uid and creationTimestamp, without defaulting and admission."""
        made = {
            **metadata,
            "uid": new_uid(self._random),
            "creationTimestamp": timestamp(self._clock.now()),
        }
        self._storage.create(
            store, {"kind": kind, "apiVersion": api_version, "metadata": made, **body}
        )
