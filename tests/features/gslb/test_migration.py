"""YAML of earlier AMKO documentation is translated."""

from typing import Any

import msgspec
import yaml

from hanse.features.gslb.migration import translate_amko
from hanse.model.kinds.gslb import GlobalDeploymentPolicy, GSLBConfig

OLD = """
apiVersion: amko.k8s.io/v1alpha1
kind: GSLBConfig
metadata: {name: gc-1, namespace: avi-system}
spec:
  gslbLeader: {credentials: gslb-avi-secret, controllerVersion: 20.1.1, controllerIP: 10.10.10.10}
  memberClusters: [{clusterContext: cluster1-admin}]
  refreshInterval: 1800
  logLevel: INFO
---
apiVersion: avilb.k8s.io/v1alpha1
kind: GlobalDeploymentPolicy
metadata: {name: global-gdp, namespace: default}
spec:
  matchRules: {appSelector: {label: {app: gslb}}}
  matchClusters: [cluster1-admin, {clusterContext: cluster2-admin}]
  trafficSplit: [{cluster: cluster1-admin, weight: 8}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
"""


def test_earlier_groups_become_the_one_that_is_served() -> None:
    result = translate_amko(yaml.safe_load_all(OLD))

    config, policy, other = result.objects
    read: GSLBConfig = msgspec.convert(config, GSLBConfig)
    assert config["apiVersion"] == "amko.vmware.com/v1alpha1"
    assert read.spec.gslb_leader.controller_ip == "10.10.10.10"
    found: GlobalDeploymentPolicy = msgspec.convert(policy, GlobalDeploymentPolicy)
    assert policy["apiVersion"] == "amko.vmware.com/v1alpha2"
    assert [m.cluster for m in found.spec.match_clusters] == ["cluster1-admin", "cluster2-admin"]
    assert policy["metadata"]["namespace"] == "avi-system"
    assert other["apiVersion"] == "v1"
    assert result.notes == ("GlobalDeploymentPolicy global-gdp: its namespace is avi-system now",)


EARLIEST = """
apiVersion: v1
kind: List
items:
- apiVersion: avilb.k8s.io/v1alpha1
  kind: GSLBConfig
  metadata:
    {name: gc, namespace: avi-system, uid: 96bf, resourceVersion: "43", managedFields: [{}]}
  spec:
    gslbLeader: {credentials: avi, controllerVersion: 18.2.5, controller_ip: 10.10.10.10}
    memberClusters: [{clusterContext: dev}]
    globalServiceNameSource: HOSTNAME
    domainNames: [avi.example]
  status: null
- apiVersion: amko.k8s.io/v1alpha2
  kind: GlobalDeploymentPolicy
  metadata: {name: gdp, namespace: avi-system}
  spec: {matchRules: {appSelector: null}, matchClusters: [{cluster: dev}], trafficSplit: null}
"""


def test_what_a_server_would_refuse_is_left_out_and_noted() -> None:
    result = translate_amko(yaml.safe_load_all(EARLIEST))

    config, policy = result.objects
    assert config["metadata"] == {"name": "gc", "namespace": "avi-system"}
    assert config["spec"]["gslbLeader"]["controllerIP"] == "10.10.10.10"
    assert set(config) == {"apiVersion", "kind", "metadata", "spec"}
    assert policy["spec"] == {"matchRules": {}, "matchClusters": [{"cluster": "dev"}]}
    assert result.notes == (
        "GSLBConfig gc: spec.globalServiceNameSource is no field any more, and is left out",
        "GSLBConfig gc: spec.domainNames is no field any more, and is left out",
    )


def test_conditions_that_have_no_successor_are_noted() -> None:
    old: dict[str, Any] = {
        "apiVersion": "avilb.k8s.io/v1alpha1",
        "kind": "GlobalDeploymentPolicy",
        "metadata": {"name": "g", "namespace": "avi-system"},
        "spec": {"matchRules": [{"object": "INGRESS"}], "matchClusters": ["a"]},
    }

    result = translate_amko([old, None])

    assert "matchRules" not in result.objects[0]["spec"]
    assert "appSelector" in result.notes[0]
