"""The feature: its watches, the keys that changes enqueue, and the plans by topic."""

from collections.abc import Iterable, Iterator
from itertools import chain

from hanse.features.networks.admission_policies import tenant_admission_policies
from hanse.features.networks.backends import ServiceProvider, plan_service
from hanse.features.networks.external_ipam import (
    has_provider,
    plan_backends,
    plan_releases,
)
from hanse.features.networks.finalization import finalize_network
from hanse.features.networks.isolation_plan import (
    all_isolation_keys,
    keys_for_isolation,
    plan_isolation,
)
from hanse.features.networks.kube_ovn import SWITCH, KubeOvnProvider, provider_subnets
from hanse.features.networks.lifecycle import address_pools, plan_network
from hanse.features.networks.lookups import (
    PEERINGS_BY_PEER,
    PODS_BY_NETWORK,
    SERVICES_BY_NETWORK,
    WAITING_PODS_BY_NETWORK,
    is_served,
    labels_network,
    member_network,
    namespace_tenant,
    tenant_namespaces,
    tenant_networks,
)
from hanse.features.networks.membership import tenant_of
from hanse.features.networks.names import (
    FEATURE_NAME,
    NETWORK,
    RANGE_OF,
    SHARED_DNS,
    parse_network_name,
    shorten_name,
)
from hanse.features.networks.options import NetworksOptions
from hanse.features.networks.peering import own_network, plan_peering
from hanse.features.networks.pool_policies import address_pool_policy, subnet_policy
from hanse.features.networks.ports import PortProvider, plan_port
from hanse.features.networks.providers import ExternalProvider, FlatProvider, Provider
from hanse.features.networks.tenants import plan_tenant
from hanse.features.networks.vpc import VpcProvider
from hanse.features.networks.watches import WATCHES
from hanse.model.facts import KindServed, WriteOutcome
from hanse.model.kinds.admission import (
    ValidatingAdmissionPolicy,
)
from hanse.model.kinds.apps import Deployment
from hanse.model.kinds.core import Namespace, Pod, Service
from hanse.model.kinds.discovery import KUBE_SERVICE, EndpointSlice
from hanse.model.kinds.networking import ServiceCIDR
from hanse.model.kinds.networks import Network, NetworkPeering, NetworkPort, Tenant
from hanse.model.kinds.policynetworking import ClusterNetworkPolicy
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Object
from hanse.model.plan import Desired, Key, Plan
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch

GUARDS_KEY = Key("guards")
_KUBERNETES_SERVICE = ("default", "kubernetes")
_SHARED_DNS = (SYSTEM_NAMESPACE, SHARED_DNS)
_OPTIONAL_KINDS = (ServiceCIDR.kind, ValidatingAdmissionPolicy.kind, ClusterNetworkPolicy.kind)


class Networks:
    """Tenant networks of one cluster."""

    name = FEATURE_NAME

    def __init__(
        self,
        options: NetworksOptions = NetworksOptions(),  # noqa: B008 - a frozen value
        providers: Iterable[Provider] = (),
    ) -> None:
        """The feature with the built-in network providers (flat, VPC, Kube-OVN) and more.

        One of `providers` replaces a built-in one of its name.
        """
        self.options = options
        built_in: tuple[Provider, ...] = (FlatProvider(), VpcProvider(), KubeOvnProvider())
        self.providers: dict[str, Provider] = {p.name: p for p in (*built_in, *providers)}
        provider_watches = [w for p in self.providers.values() for w in p.watches]
        self._optional_kinds = {*_OPTIONAL_KINDS, *(w.kind.kind for w in provider_watches)}
        self.watches: tuple[Watch, ...] = (*WATCHES, *provider_watches)

    def provider_of(self, network: Network) -> Provider:
        """The provider of a network's type, built in or given to the feature.

        Any other type has an ExternalProvider, so there is always one.
        """
        return self.providers.get(network.spec.type) or ExternalProvider(network.spec.type)

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The plan of a key by its topic; an unknown topic has an empty plan.

        The topic `guards` is for the ValidatingAdmissionPolicies, not for guards of nodes.
        """
        match key.topic:
            case "tenant":
                return plan_tenant(key, snapshot, self.options)
            case "network":
                return self._network_plan(key, snapshot)
            case "addresses":
                return plan_releases(key.name, snapshot, self.options)
            case "isolation":
                return plan_isolation(key, snapshot, self.options)
            case "peering":
                return plan_peering(key, snapshot)
            case "port":
                return self._port_plan(key, snapshot)
            case "service":
                return self._service_plan(key, snapshot)
            case "guards":
                return self._admission_policies(snapshot)
            case _:
                return Plan()

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The keys that a change concerns, those of isolation included.

        Objects of other clusters concern none.
        """
        match change:
            case ObjectChange(where) if where == snapshot.local:
                keys = self._keys_for_object(change, snapshot)
            case ObjectChange():
                return ()
            case FactChange():
                keys = self._keys_for_fact(change, snapshot)
        return chain(keys, keys_for_isolation(change, snapshot, self.options))

    def _network_plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The plan of a network, or of its end once it is being deleted.

        Empty if the Network is gone.
        """
        network = snapshot.get(snapshot.local, Network, key.name)
        if network is None:
            return Plan()
        ends = network.metadata.deletion_timestamp is not None
        plan = finalize_network if ends else plan_network
        return plan(network, snapshot, self.options, self.provider_of(network))

    def _port_plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The plan of a pod's port in the network that its labels name.

        Empty, which deletes the port, without the pod, its network, or a provider that makes ports.
        """
        pod = snapshot.get(snapshot.local, Pod, key.name, key.namespace)
        network = member_network(pod, snapshot) if pod is not None else None
        provider = self.provider_of(network) if network is not None else self.providers["flat"]
        return plan_port(pod, network, provider, snapshot)

    def _service_plan(self, key: Key, snapshot: Snapshot) -> Plan:
        """The provider's objects for a Service, or only a request to the provider to confirm it.

        The latter with ipam External and a URL for its provider. Empty without the Service or its
        network, or if neither applies.
        """
        service = snapshot.get(snapshot.local, Service, key.name, key.namespace)
        network = member_network(service, snapshot) if service is not None else None
        if network is not None and has_provider(network, self.options):
            return plan_backends(service, network, snapshot, self.options)
        provider = self.provider_of(network) if network is not None else self.providers["flat"]
        return plan_service(service, network, provider, snapshot)

    def _admission_policies(self, snapshot: Snapshot) -> Plan:
        """The ValidatingAdmissionPolicies and their bindings for all tenants and networks.

        None if the kind is not served, or without any Tenant.
        """
        if not is_served(ValidatingAdmissionPolicy, snapshot) or not any(
            snapshot.all(snapshot.local, Tenant)
        ):
            return Plan()
        guards = (
            *tenant_admission_policies(self.options),
            *address_pool_policy(address_pools(snapshot)),
            *subnet_policy(provider_subnets(snapshot), SWITCH, self.options),
        )
        return Plan(tuple(Desired(guard, snapshot.local) for guard in guards))

    def _keys_for_object(self, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
        """The keys that a changed object of this cluster affects, by its kind; else none.

        Of a Tenant it and its networks; of a Network what depends on it, and all in it if it
        appears or goes; of Namespaces, pods, Services, slices, ServiceCIDRs and peerings what they
        belong to. The first two also concern the admission policies. A NetworkPort counts only if
        it goes.
        """
        obj = change.object
        meta = obj.metadata
        match obj:
            case Tenant():
                yield GUARDS_KEY
                yield Key("tenant", meta.name)
                yield from self._network_keys(meta.name, snapshot)
            case Network():
                yield GUARDS_KEY
                yield from self._keys_for_network(obj, snapshot)
                if change.before is None or change.after is None:
                    yield from self._keys_in_network(meta.name, snapshot)
            case Namespace():
                yield from self._keys_for_namespace(change, snapshot)
            case Pod() | Service() | EndpointSlice():
                yield from self._keys_for_members(change, snapshot)
            case NetworkPort() if change.after is None:
                yield from self._keys_for_released_port(obj.spec.network, snapshot)
            case ServiceCIDR():
                yield from self._keys_for_range(obj, snapshot)
            case NetworkPeering():
                yield from self._keys_for_peering(obj, snapshot)
            case _:
                return

    def _keys_for_members(self, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
        """Keys for a pod, Service or slice in a network, by its labels before and after.

        For the Service or slices of the API server all networks and isolated namespaces; for those
        of the shared DNS all networks.
        """
        for version in (change.before, change.after):
            if version is None:
                continue
            meta = version.metadata
            if NETWORK in meta.labels:
                yield from self._keys_for_member(version, snapshot)
            name = meta.name if isinstance(version, Service) else meta.labels.get(KUBE_SERVICE)
            if (meta.namespace, name) == _KUBERNETES_SERVICE:
                yield from all_isolation_keys(snapshot)
            if (meta.namespace, name) == _SHARED_DNS:
                networks = snapshot.all(snapshot.local, Network)
                yield from (Key("network", network.metadata.name) for network in networks)

    def _keys_in_network(self, network: str, snapshot: Snapshot) -> Iterator[Key]:
        """The keys of the pods that have a port in a network, and of its pods and Services."""
        for port in snapshot.all(snapshot.local, NetworkPort):
            if port.spec.network == network and port.spec.pod is not None:
                yield Key("port", port.spec.pod.name, port.spec.pod.namespace)
        pods = snapshot.by(snapshot.local, PODS_BY_NETWORK, network)
        for member in (*pods, *snapshot.by(snapshot.local, SERVICES_BY_NETWORK, network)):
            yield from self._keys_for_member(member, snapshot)

    def _keys_for_member(self, member: Object, snapshot: Snapshot) -> Iterator[Key]:
        """Keys for a pod, Service or slice in a network: the pod's port, or the Service.

        These only if the network's provider makes ports, or load-balances or gives addresses to
        Services. Also the network while it is being deleted, and its addresses if the Service is
        gone; none if the network does not exist.
        """
        name = labels_network(member)
        network = snapshot.get(snapshot.local, Network, str(name))
        if network is None:
            return
        if network.metadata.deletion_timestamp is not None:
            yield Key("network", str(name))
        meta, provider = member.metadata, self.provider_of(network)
        if isinstance(member, Pod) and isinstance(provider, PortProvider):
            yield Key("port", meta.name, meta.namespace)
        elif isinstance(provider, ServiceProvider) or has_provider(network, self.options):
            service = meta.labels.get(KUBE_SERVICE, meta.name)
            yield Key("service", service, meta.namespace)
            if snapshot.get(snapshot.local, Service, service, meta.namespace) is None:
                yield Key("addresses", str(name))

    def _keys_for_released_port(self, name: str, snapshot: Snapshot) -> Iterator[Key]:
        """The keys to plan after a port is gone: pods of its network that wait for one.

        Also the network, if it is being deleted.
        """
        network = snapshot.get(snapshot.local, Network, name)
        if network is not None and network.metadata.deletion_timestamp is not None:
            yield Key("network", name)
        yield from self._waiting_pod_keys(name, snapshot)

    def _waiting_pod_keys(self, network: str, snapshot: Snapshot) -> Iterator[Key]:
        """A port key for each pod of a network with the readiness annotation."""
        for pod in snapshot.by(snapshot.local, WAITING_PODS_BY_NETWORK, network):
            yield Key("port", pod.metadata.name, pod.metadata.namespace)

    def _keys_for_network(self, network: Network, snapshot: Snapshot) -> Iterator[Key]:
        """Keys of a network, its tenant, the tenant's isolation, waiting pods and peerings.

        The peerings are those that name it as peer. Also the keys of all failed networks, and of
        the addresses that a provider, if there is one to ask, holds for it.
        """
        yield Key("network", network.metadata.name)
        if has_provider(network, self.options):
            yield Key("addresses", network.metadata.name)
        tenant = parse_network_name(network.metadata.name).tenant
        yield Key("tenant", tenant)
        yield from self._isolation_keys(tenant, snapshot)
        yield from self._failed_network_keys(snapshot)
        yield from self._waiting_pod_keys(network.metadata.name, snapshot)
        for peering in snapshot.by(snapshot.local, PEERINGS_BY_PEER, network.metadata.name):
            yield from self._keys_for_peering(peering, snapshot)

    def _keys_for_range(self, cidr: ServiceCIDR, snapshot: Snapshot) -> Iterator[Key]:
        """Keys for a ServiceCIDR: the admission policies, and the network in its label.

        For one without the label of a network all failed networks.
        """
        yield GUARDS_KEY
        owner = cidr.metadata.labels.get(RANGE_OF)
        if owner is None:
            yield from self._failed_network_keys(snapshot)
        for network in snapshot.all(snapshot.local, Network) if owner else ():
            if shorten_name(network.metadata.name) == owner:
                yield Key("network", network.metadata.name)

    def _keys_for_peering(self, peering: NetworkPeering, snapshot: Snapshot) -> Iterator[Key]:
        """The peering and its counterparts, both networks, and the isolation of both tenants.

        Counterparts are the peerings that name this one's network as their peer.
        """
        own, peer_network = own_network(peering, snapshot), parse_network_name(peering.spec.peer)
        yield Key("peering", peering.metadata.name, peering.metadata.namespace)
        for other in snapshot.by(snapshot.local, PEERINGS_BY_PEER, str(own)):
            yield Key("peering", other.metadata.name, other.metadata.namespace)
        yield from (Key("network", str(side)) for side in (own, peer_network))
        for tenant in sorted({own.tenant, peer_network.tenant}):
            yield from self._isolation_keys(tenant, snapshot)

    def _failed_network_keys(self, snapshot: Snapshot) -> Iterator[Key]:
        """Keys of networks with phase Failed: a range they conflicted with may be free now."""
        for network in snapshot.all(snapshot.local, Network):
            if network.status.phase == "Failed":
                yield Key("network", network.metadata.name)

    def _network_keys(self, tenant: str, snapshot: Snapshot) -> Iterator[Key]:
        """The keys of all networks of a tenant, and of what depends on them."""
        for network in tenant_networks(tenant, snapshot):
            yield from self._keys_for_network(network, snapshot)

    def _isolation_keys(self, tenant: str, snapshot: Snapshot) -> Iterator[Key]:
        """An isolation key for each namespace of a tenant that is not terminating."""
        for namespace in tenant_namespaces(tenant, snapshot):
            yield Key("isolation", namespace.metadata.name)

    def _keys_for_namespace(self, change: ObjectChange, snapshot: Snapshot) -> Iterator[Key]:
        """Keys of a namespace's tenants before and after, and of all that depends on these.

        That is their networks, the namespace's isolation and the admission policies; if its tenant
        changes, or it appears or goes, also its pods and Services in networks. None for a namespace
        without a tenant before and after.
        """
        name = change.object.metadata.name
        versions = (change.before, change.after)
        tenants = {tenant_of(v if isinstance(v, Namespace) else None) for v in versions}
        for tenant in tenants - {""}:
            yield GUARDS_KEY
            yield Key("tenant", tenant)
            yield from self._network_keys(tenant, snapshot)
            yield Key("isolation", name)
        if len(tenants) > 1:
            for kind in (Pod, Service):
                for member in snapshot.in_namespace(snapshot.local, kind, name):
                    if NETWORK in member.metadata.labels:
                        yield from self._keys_for_member(member, snapshot)

    def _keys_for_fact(self, change: FactChange, snapshot: Snapshot) -> Iterator[Key]:
        """Keys for a fact of the local cluster: a write outcome, or that a kind is served.

        For optional kinds these are the admission policies and all networks and namespaces; other
        facts have none.
        """
        match change.fact:
            case KindServed(where, kind) if (
                where == snapshot.local and kind in self._optional_kinds
            ):
                yield GUARDS_KEY
                yield from all_isolation_keys(snapshot)
            case WriteOutcome(ref) if ref.where == snapshot.local:
                yield from self._keys_for_outcome(
                    ref.ref.kind, ref.ref.name, ref.ref.namespace, snapshot
                )
            case _:
                return

    def _keys_for_outcome(
        self, kind: object, name: str, namespace: str, snapshot: Snapshot
    ) -> Iterator[Key]:
        """The keys whose status reports the outcome of a write of this kind.

        A Network's: its tenant; a Namespace's: all tenants; a ServiceCIDR's: all networks; a
        Service's, EndpointSlice's or Deployment's: all networks of the namespace's tenant and what
        depends on them; else none.
        """
        if kind == Network.kind:
            yield Key("tenant", parse_network_name(name).tenant)
        elif kind == Namespace.kind:
            for tenant in snapshot.all(snapshot.local, Tenant):
                yield Key("tenant", tenant.metadata.name)
        elif kind == ServiceCIDR.kind:
            yield from (
                Key("network", n.metadata.name) for n in snapshot.all(snapshot.local, Network)
            )
        elif kind in (Service.kind, Deployment.kind, EndpointSlice.kind):
            yield from self._network_keys(namespace_tenant(namespace, snapshot), snapshot)
