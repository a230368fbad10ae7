"""One good object of each of our kinds, and what an API server must refuse, with the field."""

import copy
from typing import Any

import yaml
from msgspec import Struct

from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.federation import (
    ClusterClaim,
    Federation,
    NativeService,
    NetworkInterface,
    VirtualMachine,
)
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import AMKOCluster, GlobalDeploymentPolicy, GSLBConfig, GSLBHostRule
from hanse.model.kinds.hanse import ClusterMember, ClusterSet, FederatedStatefulSet
from hanse.model.kinds.multicluster import ServiceExport, ServiceImport
from hanse.model.kinds.networks import Network, NetworkAccess, NetworkPeering, NetworkPort, Tenant
from hanse.model.kinds.stateful import StatefulSetPart, StatefulSetShares
from hanse.model.objects import Object, Wire

GOOD: dict[type[Object], str] = {
    AcceptancePolicy: """
        metadata: {name: default}
        spec:
          workloads:
            namespaces:
              matchLabels: {hanse.dev/accept: "true"}
              matchExpressions: [{key: stage, operator: NotIn, values: [production]}]
            origins: [broker, lubeck]
            createNamespaces: false
            kinds: [StatefulSet, Service]
            podSecurity: restricted
            serviceAccounts: [default, etcd-*]
            configMaps: [kube-root-ca.crt]
            secrets: [etcd-tls]
            claims: ["shared-*"]
            limits: {replicasPerSet: 20}
          services: {exclude: [kube-*, openshift-*]}
          policies: {exclude: []}
        """,
    AMKOCluster: """
        metadata: {name: amkocluster-sample}
        spec: {isLeader: true, clusterContext: cluster1, version: 1.4.2,
               clusters: [cluster1, cluster2]}
        """,
    ClusterClaim: "{metadata: {name: id.k8s.io}, value: lubeck}",
    ClusterMember: """
        metadata: {name: lubeck}
        spec:
          clusterID: lubeck
          uid: 6f1b7a52-0a3e-4a5c-9d0e-3b8f5d6a7c11
          features: [services, statefulsets]
          ranges: {pods: [10.1.0.0/16, 'fd00:1::/64'], services: [10.96.0.0/16]}
        """,
    ClusterSet: """
        metadata: {name: hanse}
        spec:
          profile: kep-1645
          clusters: [{id: lubeck, ranges: [10.1.0.0/16, 'fd00:1::/64'], weight: 3}, {id: bergen}]
        """,
    FederatedStatefulSet: """
        metadata: {name: store}
        spec:
          template:
            metadata: {labels: {app: etcd}}
            spec:
              replicas: 11
              serviceName: etcd
              podManagementPolicy: Parallel
              selector: {matchLabels: {app: etcd}}
              template:
                metadata: {labels: {app: etcd}}
                spec: {containers: [{name: etcd, image: etcd}]}
          placement: {clusters: [{name: c1, weight: 2, min: 1, max: 5}, {name: c2}]}
        """,
    Federation: """
        metadata: {name: hanse}
        spec:
          clusterSet: hanse
          members:
          - {clusterID: lubeck, server: 'https://127.0.0.1:6443', secret: lubeck-token}
          - {clusterID: bergen, server: 'https://[fd00::1]:6443', secret: bergen-token}
          - clusterID: {name: id.k8s.io, value: visby}
            server: https://visby.example
            secret: visby-token
        """,
    GlobalDeploymentPolicy: """
        metadata: {name: global-gdp}
        spec:
          matchRules: {appSelector: {label: {app: gslb}}, namespaceSelector: {label: {ns: prod}}}
          matchClusters: [{cluster: k8s, syncVipOnly: true}, {cluster: oshift}]
          trafficSplit: [{cluster: k8s, weight: 20}, {cluster: oshift, weight: 5, priority: 0}]
          ttl: 30
          healthMonitorRefs: [hm1]
          poolAlgorithmSettings: {lbAlgorithm: GSLB_ALGORITHM_GEO, geoFallback: {hashMask: 31}}
          downResponse: {type: GSLB_SERVICE_DOWN_RESPONSE_FALLBACK_IP, fallbackIP: 10.1.1.1}
        """,
    GlobalService: """
        metadata: {name: web.global.test}
        spec:
          host: web.global.test
          algorithm: GSLB_ALGORITHM_CONSISTENT_HASH
          hashMask: 24
          members:
          - {cluster: lubeck, address: 10.1.0.1, weight: 3, priority: 20,
             monitors: [{type: HTTP, port: 80, path: /, interval: 5}]}
          - {cluster: elsewhere, address: 'fd00::1', publicIP: '2001:db8::1', thirdParty: true}
        """,
    GSLBConfig: """
        metadata: {name: gc-1}
        spec:
          gslbLeader: {credentials: gslb-avi-secret, controllerVersion: 20.1.4,
                       controllerIP: 10.10.10.10, tenant: admin}
          memberClusters: [{clusterContext: cluster1-admin}, {clusterContext: cluster2-admin}]
          refreshInterval: 1800
          logLevel: DEBUG
        """,
    GSLBHostRule: """
        metadata: {name: gslb-host-rule-1}
        spec:
          fqdn: foo.avi.internal
          sitePersistence: {enabled: true, profileRef: gap-1}
          thirdPartyMembers: [{site: non-avi-site, vip: 10.10.10.10, publicIP: 1.2.3.4}]
          publicIP: [{cluster: k8s, ip: '2001:db8::1'}, {cluster: k8s, ip: 192.0.2.1}]
          healthMonitorRefs: [hm1, hm2]
          trafficSplit: [{cluster: k8s, weight: 15}, {cluster: oshift, priority: 20}]
          ttl: 30
        """,
    NativeService: """
        metadata: {name: db}
        spec: {networkInterface: db-eni, ports: [{name: sql, port: 5432, protocol: TCP}]}
        """,
    Network: """
        metadata: {name: acme.vpc-1, finalizers: [arktos.futurewei.com/network]}
        spec:
          type: vpc
          tenant: acme
          vpcID: vpc-1a2b3c4d
          service: {ipam: Arktos, cidrs: [10.0.0.0/16, 192.168.0.0/24]}
          subnets: [{name: subnet-1, cidr: 192.168.100.0/26}]
        """,
    NetworkInterface: """
        metadata: {name: db-eni}
        spec: {internalIP: 10.2.0.7, externalIP: 203.0.113.9}
        """,
    NetworkAccess: """
        metadata: {name: ingress}
        spec:
          networks: [acme.default, globex.*]
          from: [{namespace: ingress-nginx, ports: [{protocol: TCP, port: 8080}]}]
          to: [{cidr: 198.51.100.0/24}, {nodes: true}]
        """,
    NetworkPeering: "{metadata: {name: with-globex}, spec: {peer: globex.default}}",
    NetworkPort: """
        metadata: {name: acme.vpc-1-10-0-0-5}
        spec:
          network: acme.vpc-1
          subnet: front
          address: 10.0.0.5
          mac: '02:00:5e:00:53:01'
          pod: {namespace: acme-web, name: web-0, uid: 4f9b}
        """,
    ServiceExport: """
        metadata: {name: web}
        spec: {exportedLabels: {team: a}, exportedAnnotations: {note: b}}
        """,
    ServiceImport: """
        metadata: {name: web}
        spec:
          type: ClusterSetIP
          ports: [{name: http, port: 80, protocol: TCP, appProtocol: http}, {port: 53, name: dns}]
          ips: [10.0.0.1, 'fd00::1']
          ipFamilies: [IPv4, IPv6]
          sessionAffinity: ClientIP
          sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}
        """,
    StatefulSetPart: """
        metadata: {name: shop-store-lubeck}
        spec:
          namespace: shop
          name: store
          cluster: lubeck
          share: 2
          revision: store-5c1f
          replicas: [{name: store-lubeck-0, ready: true, addresses: [198.19.0.1]},
                     {name: store-lubeck-1}]
        """,
    StatefulSetShares: """
        metadata: {name: store}
        spec:
          shares: [{name: lubeck, replicas: 2}, {name: bergen, replicas: 1}]
          told: lubeck 2, bergen 1
          service: etcd
          ports: [{name: store, port: 80}]
          loadBalanced: true
        """,
    Tenant: "{metadata: {name: acme}, spec: {namespaces: [default, kube-system]}}",
    VirtualMachine: """
        metadata: {name: vm-1}
        spec:
          id: i-0abc
          tags: {svc.antreaplus.vmware.com: db}
          networkInterfaces:
          - {name: eth0, ips: [{addressType: InternalIP, address: 10.0.0.9},
                               {addressType: ExternalIP, address: '2001:db8::9'}]}
        """,
}


def good(kind: type[Object]) -> Wire:
    """A good object of a kind, as it is sent."""
    body = yaml.safe_load(GOOD[kind])
    return {"apiVersion": kind.kind.api_version, "kind": kind.kind.name, **body}


class Refused(Struct, frozen=True):
    """A change that makes a good object bad, and what the refusal must speak of."""

    kind: type[Object]
    path: tuple[str | int, ...]
    value: Any
    blamed: str
    updating: bool = False
    """Whether the change is fine in a new object and refused in one that exists."""
    by_rule: bool = False
    """Whether it takes CEL to refuse it."""

    @property
    def id(self) -> str:
        verb = "changed to" if self.updating else "="
        return f"{self.kind.__name__} {'.'.join(map(str, self.path))} {verb} {self.value}"[:90]

    def applied(self) -> Wire:
        """The object with the change made; None takes the field away."""
        obj = copy.deepcopy(good(self.kind))
        parent: Any = obj
        for step in self.path[:-1]:
            parent = parent.setdefault(step, {}) if isinstance(parent, dict) else parent[step]
        if self.value is None:
            del parent[self.path[-1]]
        else:
            parent[self.path[-1]] = self.value
        return obj


BAD = (
    Refused(AcceptancePolicy, ("metadata", "name"), "other", "metadata.name"),
    Refused(AcceptancePolicy, ("spec", "workloads", "podSecurity"), "none", "podSecurity"),
    Refused(AcceptancePolicy, ("spec", "workloads", "kinds", 0), "Pod", "kinds[0]"),
    Refused(AcceptancePolicy, ("spec", "workloads", "origins", 0), "Lübeck", "origins[0]"),
    Refused(AcceptancePolicy, ("spec", "services", "exclude", 0), "kube?", "exclude[0]"),
    Refused(
        AcceptancePolicy,
        ("spec", "workloads", "limits", "replicasPerSet"),
        -1,
        "limits.replicasPerSet",
    ),
    Refused(AMKOCluster, ("spec", "isLeader"), "yes", "spec.isLeader"),
    Refused(AMKOCluster, ("spec", "clusters", 0), "", "spec.clusters[0]"),
    Refused(ClusterClaim, ("value",), None, "value"),
    Refused(ClusterClaim, ("value",), "Lübeck", "value", by_rule=True),
    Refused(ClusterClaim, ("value",), "a" * 64, "value", by_rule=True),
    Refused(ClusterMember, ("spec", "clusterID"), None, "spec.clusterID"),
    Refused(ClusterMember, ("spec", "uid"), "", "spec.uid"),
    Refused(ClusterMember, ("spec", "ranges", "pods", 0), "10.1.0.0", "spec.ranges.pods"),
    Refused(ClusterSet, ("spec", "profile"), "submariner", "spec.profile"),
    Refused(
        ClusterSet, ("spec", "clusters", 0, "ranges", 0), "10.0.0.0", "spec.clusters[0].ranges"
    ),
    Refused(ClusterSet, ("spec", "clusters", 0, "id"), "Lubeck", "spec.clusters[0].id"),
    Refused(ClusterSet, ("spec", "clusters", 1, "id"), "lubeck", "spec.clusters[1]"),
    Refused(ClusterSet, ("spec", "leaseDurationSeconds"), 1, "spec.leaseDurationSeconds"),
    Refused(FederatedStatefulSet, ("spec", "template", "spec", "replicas"), -1, "replicas"),
    Refused(FederatedStatefulSet, ("spec", "template", "spec", "selector"), None, "selector"),
    Refused(
        FederatedStatefulSet,
        ("spec", "placement", "clusters", 0, "max"),
        0,
        "spec.placement.clusters[0].min",
        by_rule=True,
    ),
    Refused(Federation, ("spec", "members", 0, "server"), "lubeck:6443", "spec.members[0].server"),
    Refused(Federation, ("spec", "members", 0, "secret"), None, "spec.members[0].secret"),
    Refused(Federation, ("spec", "clusterSet"), {"name": "clusterSet.k8s.io"}, "value"),
    Refused(Federation, ("spec", "members", 0, "clusterID"), "Lübeck", "members[0].clusterID"),
    Refused(Federation, ("spec", "members", 0, "clusterID"), None, "members[0].clusterID"),
    Refused(Federation, ("spec", "members", 1, "clusterID"), {}, "members[1].clusterID.value"),
    Refused(
        Federation, ("spec", "members", 1, "clusterID"), {"value": "Bergen"}, "clusterID.value"
    ),
    Refused(
        Federation,
        ("spec", "members", 1, "clusterID"),
        {"name": "bergen", "value": "bergen"},
        "members[1].clusterID.name",
    ),
    Refused(GlobalService, ("spec", "members", 0, "address"), "here", "address"),
    Refused(GlobalService, ("spec", "members", 0, "monitors", 0, "port"), 0, "port"),
    Refused(GlobalDeploymentPolicy, ("spec", "trafficSplit", 0, "weight"), 21, "weight"),
    Refused(GlobalDeploymentPolicy, ("spec", "trafficSplit", 0, "weight"), 0, "weight"),
    Refused(GlobalDeploymentPolicy, ("spec", "trafficSplit", 0, "priority"), 101, "priority"),
    Refused(GlobalDeploymentPolicy, ("spec", "trafficSplit", 0, "cluster"), None, "cluster"),
    Refused(GlobalDeploymentPolicy, ("spec", "ttl"), 86401, "spec.ttl"),
    Refused(
        GlobalDeploymentPolicy,
        ("spec", "downResponse", "fallbackIP"),
        None,
        "spec.downResponse.fallbackIP",
        by_rule=True,
    ),
    Refused(
        GlobalDeploymentPolicy,
        ("spec", "healthMonitorTemplate"),
        "hm-template",
        "spec.healthMonitorTemplate",
        by_rule=True,
    ),
    Refused(GSLBConfig, ("spec", "logLevel"), "LOUD", "spec.logLevel"),
    Refused(GSLBHostRule, ("spec", "fqdn"), None, "spec.fqdn"),
    Refused(GSLBHostRule, ("spec", "fqdn"), "foo_bar!", "spec.fqdn"),
    Refused(GSLBHostRule, ("spec", "trafficSplit", 0, "weight"), 21, "weight"),
    Refused(
        GSLBHostRule,
        ("spec", "poolAlgorithmSettings"),
        {"lbAlgorithm": "GSLB_ALGORITHM_CONSISTENT_HASH"},
        "spec.poolAlgorithmSettings.hashMask",
        by_rule=True,
    ),
    Refused(NativeService, ("spec", "ports", 0, "port"), 65536, "spec.ports[0].port"),
    Refused(NativeService, ("spec", "networkInterface"), None, "spec.networkInterface"),
    Refused(StatefulSetPart, ("spec", "cluster"), None, "spec.cluster"),
    Refused(StatefulSetPart, ("spec", "share"), -1, "spec.share"),
    Refused(StatefulSetShares, ("spec", "shares", 0, "replicas"), -1, "spec.shares[0].replicas"),
    Refused(StatefulSetShares, ("spec", "shares", 1, "name"), "lubeck", "spec.shares[1]"),
    Refused(Network, ("spec", "type"), None, "spec.type"),
    Refused(Network, ("spec", "vpcID"), None, "spec.vpcID", by_rule=True),
    Refused(Network, ("spec", "tenant"), "globex", "spec.tenant", by_rule=True),
    Refused(Network, ("spec", "tenant"), None, "spec.tenant", by_rule=True),
    Refused(Network, ("metadata", "name"), "vpc-1", "metadata.name"),
    Refused(Network, ("spec", "service", "ipam"), "Calico", "spec.service.ipam"),
    Refused(Network, ("spec", "service", "cidrs", 0), "10.0.0.0/33", "spec.service.cidrs"),
    Refused(Network, ("spec", "service", "cidrs", 1), "10.0.0.0/16", "spec.service.cidrs[1]"),
    Refused(Network, ("spec", "type"), "flat", "spec.type", updating=True, by_rule=True),
    Refused(NetworkInterface, ("spec", "externalIP"), "db.example.com", "spec.externalIP"),
    Refused(NetworkAccess, ("spec", "networks"), [], "spec.networks"),
    Refused(NetworkAccess, ("spec", "to", 0), {}, "spec.to[0]", by_rule=True),
    Refused(NetworkPeering, ("spec", "peer"), "globex", "spec.peer"),
    Refused(NetworkPort, ("spec", "mac"), "02-00", "spec.mac"),
    Refused(NetworkPort, ("spec", "address"), "10.0.0.6", "spec.address", True, True),
    Refused(NetworkPeering, ("spec", "peer"), "umbrella.x", "spec.peer", True, True),
    Refused(ServiceExport, ("spec", "exportedLabels"), {"a": 1}, "spec.exportedLabels"),
    Refused(ServiceImport, ("spec", "type"), "ClusterIP", "spec.type"),
    Refused(ServiceImport, ("spec", "ports"), None, "spec.ports"),
    Refused(ServiceImport, ("spec", "ports", 0, "port"), 0, "spec.ports[0].port"),
    Refused(ServiceImport, ("spec", "ports", 0, "protocol"), "ICMP", "spec.ports[0].protocol"),
    Refused(ServiceImport, ("spec", "ips"), ["a", "b", "c"], "spec.ips"),
    Refused(Tenant, ("metadata", "name"), "acme.corp", "metadata.name"),
    Refused(Tenant, ("spec", "namespaces", 0), "Default", "spec.namespaces[0]"),
    Refused(
        VirtualMachine,
        ("spec", "networkInterfaces", 0, "ips", 0, "addressType"),
        "HostName",
        "addressType",
    ),
)
