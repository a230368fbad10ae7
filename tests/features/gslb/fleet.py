"""Builders of the objects and snapshots of a GSLB federation."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from hanse.features.gslb.deletion import REPLICATED_KINDS
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.names import LED_BY, PARENTS, TERM, site_of
from hanse.features.gslb.options import GslbOptions
from hanse.features.gslb.replication import plan_federation
from hanse.model.facts import Answer, ClusterState, Fact, Phase, Role
from hanse.model.kinds.apiextensions import (
    CustomResourceDefinition,
    CustomResourceDefinitionSpec,
    DefinedNames,
)
from hanse.model.kinds.core import (
    LoadBalancerIngress,
    LoadBalancerStatus,
    Namespace,
    Service,
    ServicePort,
    ServiceSpec,
    ServiceStatus,
)
from hanse.model.kinds.discovery import Endpoint, EndpointConditions, EndpointSlice
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    AMKOClusterSpec,
    GlobalDeploymentPolicy,
    GlobalDeploymentPolicySpec,
    GSLBConfig,
    GSLBConfigSpec,
    GSLBHostRule,
    GSLBHostRuleSpec,
    LabelMatch,
    MatchCluster,
    MatchRules,
    MemberCluster,
)
from hanse.model.kinds.networking import (
    Ingress,
    IngressPath,
    IngressPaths,
    IngressRule,
    IngressSpec,
    IngressStatus,
    IngressTLS,
)
from hanse.model.objects import K, Meta, Object
from hanse.model.plan import Read
from hanse.model.snapshot import Snapshot
from tests.support.builders import cluster, snapshot, stored
from tinykube.virtual_time import EPOCH

LOCAL = "lubeck"
LABELS = {"app": "gslb"}
HOST = "shop.example.org"


def amko(
    context: str,
    *followers: str,
    leads: bool = False,
    version: str = "1.5.1",
    epoch: int = 0,
    follows: str = "",
    name: str = "amkocluster",
    namespace: str = NAMESPACE,
) -> AMKOCluster:
    """An AMKOCluster."""
    annotations = {TERM: str(epoch)} if epoch else {}
    annotations |= {LED_BY: follows} if follows else {}
    return AMKOCluster(
        metadata=Meta(name=name, namespace=namespace, annotations=annotations),
        spec=AMKOClusterSpec(
            is_leader=leads, cluster_context=context, version=version, clusters=followers
        ),
    )


def config(*contexts: str, name: str = "gc-1") -> GSLBConfig:
    members = tuple(MemberCluster(cluster_context=c) for c in contexts)
    return GSLBConfig(
        metadata=Meta(name=name, namespace=NAMESPACE), spec=GSLBConfigSpec(member_clusters=members)
    )


def policy(*clusters: str, name: str = "gdp", **more: Any) -> GlobalDeploymentPolicy:
    """A policy that selects everything with our labels in some clusters."""
    spec = GlobalDeploymentPolicySpec(
        match_rules=MatchRules(app_selector=LabelMatch(label=LABELS)),
        match_clusters=tuple(MatchCluster(cluster=c) for c in clusters),
    )
    return GlobalDeploymentPolicy(
        metadata=Meta(name=name, namespace=NAMESPACE), spec=replace(spec, **more)
    )


def rule(host: str = HOST, name: str = "rule", **more: Any) -> GSLBHostRule:
    return GSLBHostRule(
        metadata=Meta(name=name, namespace=NAMESPACE), spec=GSLBHostRuleSpec(fqdn=host, **more)
    )


def leader_copy(obj: K, term: str) -> K:
    """The object as a copy that a leader wrote in a term."""
    annotations = {**obj.metadata.annotations, LED_BY: term}
    if isinstance(obj, REPLICATED_KINDS):
        annotations[PARENTS] = "space/definition"
    return replace(obj, metadata=replace(obj.metadata, annotations=annotations))


def ingress(
    *addresses: str,
    host: str = HOST,
    name: str = "web",
    path: str = "/",
    tls: bool = False,
    labels: Mapping[str, str] = LABELS,
    namespace: str = "shop",
) -> Ingress:
    """An Ingress for a host with addresses in its status."""
    entries = tuple(LoadBalancerIngress(ip=a) for a in addresses)
    return Ingress(
        metadata=Meta(name=name, namespace=namespace, labels=dict(labels)),
        spec=IngressSpec(
            rules=(IngressRule(host=host, http=IngressPaths(paths=(IngressPath(path=path),))),),
            tls=(IngressTLS(hosts=(host,)),) if tls else (),
        ),
        status=IngressStatus(load_balancer=LoadBalancerStatus(ingress=entries)),
    )


def balancer(
    address: str,
    *ports: int,
    name: str = "db",
    hostname: str = "",
    protocol: Any = "TCP",
    labels: Mapping[str, str] = LABELS,
) -> Service:
    """A LoadBalancer Service at an address."""
    entries = (LoadBalancerIngress(ip=address),) if address else ()
    annotations = {"external-dns.alpha.kubernetes.io/hostname": hostname} if hostname else {}
    return Service(
        metadata=Meta(name=name, namespace="shop", labels=dict(labels), annotations=annotations),
        spec=ServiceSpec(
            type="LoadBalancer",
            ports=tuple(ServicePort(port=p, name=str(p), protocol=protocol) for p in ports),
        ),
        status=ServiceStatus(load_balancer=LoadBalancerStatus(ingress=entries)),
    )


def backends(service: str, *ready: bool) -> EndpointSlice:
    """The EndpointSlice of a Service."""
    endpoints = tuple(
        Endpoint(addresses=(f"10.9.9.{n}",), conditions=EndpointConditions(ready=r))
        for n, r in enumerate(ready, 1)
    )
    meta = Meta(
        name=f"{service}-1", namespace="shop", labels={"kubernetes.io/service-name": service}
    )
    return EndpointSlice(metadata=meta, address_type="IPv4", endpoints=endpoints)


def shop(**labels: str) -> Namespace:
    return Namespace(metadata=Meta(name="shop", labels=labels))


def leader_snapshot(
    local: Sequence[Object],
    sites: Mapping[str, Sequence[Object]] | None = None,
    *,
    phases: Mapping[str, Phase] | None = None,
    facts: Iterable[Fact] = (),
    options: GslbOptions = GslbOptions(),  # noqa: B008 - a frozen value
) -> Snapshot:
    """The snapshot of the agent in lubeck, with a connection to each site."""
    phases = phases or {}
    sites = sites or {}
    states: list[ClusterState] = [cluster(LOCAL, Role.LOCAL)]
    states += [
        cluster(site_of(name), Role.SITE, phase=phases.get(name, Phase.SYNCED)) for name in sites
    ]
    objects = {LOCAL: [_made(o) for o in _with_defaults(local)]}
    objects |= {site_of(name): [_made(o) for o in objects] for name, objects in sites.items()}
    return snapshot(Gslb(options), LOCAL, states, objects, facts)


def system_namespace(uid: str = "space", *, terminating: bool = False) -> Namespace:
    """The namespace of the configuration."""
    deleted_at = EPOCH if terminating else None
    return Namespace(
        metadata=Meta(name=NAMESPACE, uid=uid, resource_version="1", deletion_timestamp=deleted_at)
    )


def definition(
    kind: type[Object], uid: str = "definition", *, terminating: bool = False
) -> CustomResourceDefinition:
    """The CustomResourceDefinition of a kind."""
    deleted_at = EPOCH if terminating else None
    return CustomResourceDefinition(
        metadata=Meta(
            name=kind.kind.definition, uid=uid, resource_version="1", deletion_timestamp=deleted_at
        ),
        spec=CustomResourceDefinitionSpec(
            group=kind.kind.group,
            names=DefinedNames(kind=kind.kind.name, plural=kind.kind.plural),
            scope="Namespaced",
        ),
    )


def answers_to_reads(snapshot: Snapshot, *instead: Object, without: str = "") -> list[Answer]:
    """Answers to the reads of the federation plan: the snapshot's objects, or others instead."""
    others = {obj.metadata.name: obj for obj in instead}
    answers: list[Answer] = []
    for question in plan_federation(snapshot).questions:
        assert isinstance(question.ask, Read)
        name = question.ask.target.ref.name
        obj = None if name == without else others.get(name, snapshot.find(question.ask.target))
        value = msgspec.to_builtins(obj, str_keys=True) if obj is not None else None
        answers.append(Answer(question.ask.id, value, "", EPOCH))
    return answers


def _with_defaults(local: Sequence[Object]) -> list[Object]:
    """The objects with a namespace and definitions, unless they are given."""
    given = {o.metadata.name for o in local if isinstance(o, (Namespace, CustomResourceDefinition))}
    defaults = [system_namespace(), *(definition(kind) for kind in REPLICATED_KINDS)]
    return [*local, *(obj for obj in defaults if obj.metadata.name not in given)]


def _made(obj: Object) -> Object:
    return obj if obj.metadata.resource_version else stored(obj)
