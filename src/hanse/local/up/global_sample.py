"""The sample of global load balancing: one host over all clusters, by weight and priority; pure."""

import base64
import json
from collections.abc import Sequence

from hanse.features.gslb.names import HOSTNAMES, SECRET, SECRET_KEY
from hanse.local.kubeconfig import Context, kubeconfig
from hanse.local.up.sample import SAMPLE_NAMESPACE, Wanted
from hanse.local.up.topology import Member
from hanse.model.kinds.gslb import NAMESPACE
from hanse.model.objects import Wire

GLOBAL_ZONE = "global.test"
HOST = f"web.{GLOBAL_ZONE}"
VERSION = "1.5.1"
LABELS = {"gslb": "shared"}
_AMKO = "/apis/amko.vmware.com/{version}/namespaces/" + NAMESPACE


def global_sample(
    member: Member, members: Sequence[Member], contexts: Sequence[Context]
) -> tuple[Wanted, ...]:
    """A load balancer for the shop in every cluster; the first leads, the last stands by."""
    names = [m.name for m in members if m.runs_workloads]
    if not member.runs_workloads:
        return ()
    leads = member.name == names[0]
    secret = contexts_secret(members, contexts)
    common = (_front(), secret, _amko_cluster(member.name, names, leads))
    return (*common, _config(names), _policy(names)) if leads else common


def _front() -> Wanted:
    service: Wire = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "front",
            "namespace": SAMPLE_NAMESPACE,
            "labels": LABELS,
            "annotations": {HOSTNAMES: HOST},
        },
        "spec": {
            "type": "LoadBalancer",
            "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }
    return Wanted(f"/api/v1/namespaces/{SAMPLE_NAMESPACE}/services", service)


def contexts_secret(members: Sequence[Member], contexts: Sequence[Context]) -> Wanted:
    """The Secret by which a leader finds its followers: a context for each cluster."""
    names = {m.name for m in members if m.runs_workloads}
    mine = [context for context in contexts if context.cluster in names]
    text = json.dumps(kubeconfig(mine)).encode()
    secret: Wire = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": {SECRET_KEY: base64.b64encode(text).decode()},
    }
    return Wanted(f"/api/v1/namespaces/{NAMESPACE}/secrets", secret)


def _amko_cluster(name: str, names: Sequence[str], leads: bool) -> Wanted:
    spec = {
        "isLeader": leads,
        "clusterContext": name,
        "version": VERSION,
        "clusters": list(names),
    }
    return _amko("v1alpha1", "AMKOCluster", "amkoclusters", "amkocluster-federation", spec)


def _config(names: Sequence[str]) -> Wanted:
    spec = {"memberClusters": [{"clusterContext": name} for name in names]}
    return _amko("v1alpha1", "GSLBConfig", "gslbconfigs", "gc-1", spec)


def _policy(names: Sequence[str]) -> Wanted:
    """Three answers in four are the first cluster's; the last serves when no other does."""
    split: list[Wire] = [{"cluster": names[0], "weight": 3, "priority": 20}]
    split += [{"cluster": name, "weight": 1, "priority": 20} for name in names[1:-1]]
    split += [{"cluster": name, "weight": 1, "priority": 10} for name in names[1:][-1:]]
    spec: Wire = {
        "matchRules": {"appSelector": {"label": LABELS}},
        "matchClusters": [{"cluster": name} for name in names],
        "trafficSplit": split,
        "controlPlaneHmOnly": True,
        "ttl": 5,
    }
    plural = "globaldeploymentpolicies"
    return _amko("v1alpha2", "GlobalDeploymentPolicy", plural, "global-gdp", spec)


def _amko(version: str, kind: str, plural: str, name: str, spec: Wire) -> Wanted:
    made: Wire = {
        "apiVersion": f"amko.vmware.com/{version}",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }
    return Wanted(f"{_AMKO.format(version=version)}/{plural}", made)
