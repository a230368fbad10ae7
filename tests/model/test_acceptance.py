"""What a cluster takes from others, and that nothing dangerous passes by any way of writing it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.model.acceptance import (
    RESERVED_NAMESPACES,
    Accepted,
    ImportedService,
    NamespaceFacts,
    Received,
    Refused,
    ReplicatedPolicy,
    Workload,
    accepted,
)
from hanse.model.kinds.acceptance import (
    ACCEPT,
    AcceptancePolicy,
    AcceptancePolicySpec,
    NamespaceAcceptance,
    WorkloadAcceptance,
)
from hanse.model.kinds.apps import StatefulSetSpec
from hanse.model.kinds.core import Service, ServiceSpec
from hanse.model.kinds.networking import LabelSelector
from hanse.model.objects import Meta, Wire
from tests.model.strategies import structs_of

DEFAULTS = AcceptancePolicySpec()
OPTED_IN = NamespaceFacts({ACCEPT: "true"})


def pod(**spec: Any) -> Wire:
    return {"spec": {"containers": [{"name": "etcd", "image": "etcd"}], **spec}}


def workload(template: Wire | None = None, **fields: Any) -> Workload:
    spec = StatefulSetSpec(template=pod() if template is None else template)
    return Workload(**{"namespace": "shop", "spec": spec, "found": OPTED_IN, **fields})


def refused_field(received: Received, policy: AcceptancePolicySpec = DEFAULTS) -> str:
    judged = accepted(policy, received, "broker")
    return judged.field if isinstance(judged, Refused) else ""


def rules(**fields: Any) -> AcceptancePolicySpec:
    return AcceptancePolicySpec(workloads=WorkloadAcceptance(**fields))


def container(**fields: Any) -> Wire:
    return pod(containers=[{"name": "etcd", "image": "etcd", **fields}])


def volume(**source: Any) -> Wire:
    return pod(volumes=[{"name": "v", **source}])


SPEC = "spec.template.spec"
ENV = f"{SPEC}.containers[0].env[0].valueFrom"
REFERENCES = {
    f"{SPEC}.serviceAccountName": pod(serviceAccountName="controller"),
    f"{SPEC}.serviceAccount": pod(serviceAccount="controller"),
    f"{SPEC}.imagePullSecrets[0].name": pod(imagePullSecrets=[{"name": "registry"}]),
    f"{ENV}.secretKeyRef.name": container(
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
    ),
    f"{ENV}.configMapKeyRef.name": container(
        env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}}]
    ),
    f"{SPEC}.containers[0].envFrom[0].secretRef.name": container(
        envFrom=[{"secretRef": {"name": "s"}}]
    ),
    f"{SPEC}.containers[0].envFrom[0].configMapRef.name": container(
        envFrom=[{"configMapRef": {"name": "s"}}]
    ),
    f"{SPEC}.initContainers[0].envFrom[0].secretRef.name": pod(
        initContainers=[{"name": "i", "envFrom": [{"secretRef": {"name": "s"}}]}]
    ),
    f"{SPEC}.volumes[0].secret.secretName": volume(secret={"secretName": "s"}),
    f"{SPEC}.volumes[0].configMap.name": volume(configMap={"name": "s"}),
    f"{SPEC}.volumes[0].projected.sources[0].secret.name": volume(
        projected={"sources": [{"secret": {"name": "s"}}]}
    ),
    f"{SPEC}.volumes[0].projected.sources[1].configMap.name": volume(
        projected={"sources": [{"serviceAccountToken": {}}, {"configMap": {"name": "s"}}]}
    ),
    f"{SPEC}.volumes[0].persistentVolumeClaim.claimName": volume(
        persistentVolumeClaim={"claimName": "s"}
    ),
    f"{SPEC}.volumes[0].csi.nodePublishSecretRef.name": volume(
        csi={"driver": "d", "nodePublishSecretRef": {"name": "s"}}
    ),
    f"{SPEC}.volumes[0].csi.volumeAttributes.secretProviderClass": volume(
        csi={"driver": "d", "volumeAttributes": {"secretProviderClass": "s"}}
    ),
    f"{SPEC}.volumes[0].azureFile.secretName": volume(azureFile={"secretName": "s"}),
    f"{SPEC}.volumes[0].cephfs.secretRef.name": volume(cephfs={"secretRef": {"name": "s"}}),
    f"{SPEC}.volumes[0].brandNew.vaultSecret": volume(brandNew={"vaultSecret": "s"}),
    f"{SPEC}.volumes[0].ephemeral.volumeClaimTemplate.spec.dataSource": volume(
        ephemeral={"volumeClaimTemplate": {"spec": {"dataSource": {"name": "s"}}}}
    ),
    f"{SPEC}.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeName": volume(
        ephemeral={"volumeClaimTemplate": {"spec": {"volumeName": "pv"}}}
    ),
    f"{SPEC}.resourceClaims": pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "s"}]),
}


def test_a_plain_set_in_a_namespace_that_opted_in_is_taken() -> None:
    assert accepted(DEFAULTS, workload(), "broker") == Accepted()


@pytest.mark.parametrize(("field", "template"), REFERENCES.items(), ids=REFERENCES)
def test_a_reference_to_what_did_not_come_along_is_refused(field: str, template: Wire) -> None:
    assert refused_field(workload(template)) == field


def test_references_that_are_listed_or_came_along_are_taken() -> None:
    listed = rules(
        service_accounts=("default", "etcd-*"), secrets=("tls",), config_maps=("c",), claims=("d",)
    )
    template = pod(
        serviceAccountName="etcd-main",
        volumes=[
            {"name": "a", "secret": {"secretName": "tls"}},
            {"name": "b", "configMap": {"name": "c"}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "d"}},
            {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "e", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ],
    )
    assert refused_field(workload(template), listed) == ""

    account = frozenset({("ServiceAccount", "own")})
    assert refused_field(workload(pod(serviceAccountName="own"), carried=account)) == ""
    config = workload(volume(configMap={"name": "c"}), carried=frozenset({("ConfigMap", "c")}))
    assert refused_field(config) == ""


def test_two_names_in_one_secret_are_both_judged() -> None:
    template = volume(projected={"sources": [{"secret": {"secretName": "tls", "name": "victim"}}]})

    field = refused_field(workload(template), rules(secrets=("tls",)))

    assert field.endswith("secret.name")


def test_the_account_default_is_taken_only_if_it_is_listed() -> None:
    assert refused_field(workload(), rules(service_accounts=())) == f"{SPEC}.serviceAccountName"


@pytest.mark.parametrize("field", ["dataSource", "dataSourceRef", "volumeName"])
def test_a_claim_of_the_set_may_not_choose_its_content(field: str) -> None:
    claims = ({"metadata": {"name": "data"}, "spec": {field: {"name": "victim"}}},)
    spec = StatefulSetSpec(template=pod(), volume_claim_templates=claims)

    found = refused_field(Workload("shop", spec, OPTED_IN))

    assert found == f"spec.volumeClaimTemplates[0].spec.{field}"


@pytest.mark.parametrize(
    "name",
    [
        "kube-system",
        "kube-public",
        "hanse-system",
        "hanse-broker",
        "hanse-broker-accounts",
        "antrea-plus-system",
        "avi-system",
        "openshift",
        "openshift-monitoring",
        "metallb-system",
        "tigera-operator",
        "cert-manager",
    ],
)
@pytest.mark.parametrize("found", [OPTED_IN, NamespaceFacts(created_by_us=True), None])
def test_some_namespaces_never_take_workloads(name: str, found: NamespaceFacts | None) -> None:
    everything = rules(namespaces=LabelSelector(), pod_security="privileged")

    assert refused_field(workload(namespace=name, found=found), everything) == "metadata.namespace"


def test_a_brokers_own_namespace_is_reserved_by_its_name() -> None:
    assert refused_field(workload(reserved=("shop",))) == "metadata.namespace"


def test_a_namespace_takes_workloads_if_it_is_labelled_or_was_created_for_them() -> None:
    strange = accepted(DEFAULTS, workload(found=NamespaceFacts()), "broker")
    assert isinstance(strange, Refused)
    assert "`kubectl label namespace shop hanse.dev/accept=true`" in strange.reason
    assert (
        refused_field(workload(found=NamespaceFacts({ACCEPT: "false"}))) == "workloads.namespaces"
    )
    assert refused_field(workload(found=NamespaceFacts(created_by_us=True))) == ""
    assert refused_field(workload(found=None)) == ""
    missing = rules(create_namespaces=False)
    assert refused_field(workload(found=None), missing) == "workloads.createNamespaces"


def test_origins_are_named() -> None:
    named = rules(origins=("broker", "lubeck"))

    assert accepted(named, workload(), "lubeck") == Accepted()
    for origin in ("bergen", "", "BROKER"):
        judged = accepted(named, workload(), origin)
        assert isinstance(judged, Refused)
        assert judged.field == "workloads.origins"


def test_kinds_that_are_not_taken_are_refused() -> None:
    service = Service(metadata=Meta(name="etcd"), spec=ServiceSpec(cluster_ip="None"))

    assert refused_field(workload(), rules(kinds=())) == "workloads.kinds"
    assert refused_field(workload(service=service), rules(kinds=("StatefulSet",))) == (
        "workloads.kinds"
    )
    assert refused_field(workload(service=service)) == ""


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (ServiceSpec(type="LoadBalancer"), "type"),
        (ServiceSpec(type="ExternalName", external_name="evil.example"), "type"),
        (ServiceSpec(external_ips=("10.0.0.1",)), "externalIPs"),
    ],
)
def test_a_service_that_comes_along_has_no_address_outside(spec: ServiceSpec, field: str) -> None:
    service = Service(metadata=Meta(name="etcd"), spec=spec)

    assert refused_field(workload(service=service)) == f"Service etcd: spec.{field}"


def test_pods_may_not_displace_those_of_the_cluster() -> None:
    template = pod(priorityClassName="system-node-critical")

    assert refused_field(workload(template)) == f"{SPEC}.priorityClassName"
    assert refused_field(workload(pod(priorityClassName="high"))) == ""


@pytest.mark.parametrize("received", [ImportedService, ReplicatedPolicy])
def test_services_and_policies_are_taken_everywhere_but_in_kubernetes_own_namespaces(
    received: Any,
) -> None:
    assert refused_field(received("shop")) == ""
    assert refused_field(received("hanse-system")) == ""
    assert refused_field(received("kube-system")).endswith(".exclude")
    everywhere = NamespaceAcceptance(exclude=())
    open_policy = replace(DEFAULTS, services=everywhere, policies=everywhere)
    assert refused_field(received("kube-system"), open_policy) == ""


def test_a_policy_without_a_namespace_is_taken() -> None:
    assert refused_field(ReplicatedPolicy()) == ""


def test_the_example_has_every_field_with_its_default() -> None:
    text = (Path(__file__).parents[2] / "examples/acceptance/policy.yaml").read_text()
    example = yaml.safe_load(text)

    assert msgspec.convert(example, AcceptancePolicy).spec == DEFAULTS
    fields = set(example["spec"]["workloads"])
    assert fields == {f.encode_name for f in msgspec.structs.fields(WorkloadAcceptance)}


# -- laws

FIELDS = (
    *("spec", "metadata", "annotations", "securityContext", "containers", "initContainers"),
    *("volumes", "secret", "secretName", "name", "hostPath", "hostPID", "configMap", "projected"),
    *("sources", "capabilities", "add", "envFrom", "secretRef"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=25,
)


@given(JSON, structs_of(AcceptancePolicySpec), st.text(max_size=5))
def test_every_template_gets_a_judgement(
    template: Any, policy: AcceptancePolicySpec, origin: str
) -> None:
    spec = StatefulSetSpec(template=template if isinstance(template, dict) else {})

    judged = accepted(policy, Workload("shop", spec), origin)

    assert isinstance(judged, Accepted) or (judged.field and judged.reason)


@given(structs_of(AcceptancePolicySpec), st.sampled_from(RESERVED_NAMESPACES), st.text("ab-"))
def test_no_policy_opens_a_reserved_namespace(
    policy: AcceptancePolicySpec, pattern: str, middle: str
) -> None:
    received = workload(namespace=pattern.replace("*", middle))

    for origin in ("broker", *policy.workloads.origins):
        assert isinstance(accepted(policy, received, origin), Refused)


@given(JSON, st.sampled_from(sorted(REFERENCES)))
def test_what_else_a_template_says_does_not_hide_a_reference(noise: Any, field: str) -> None:
    template = REFERENCES[field]
    noisy = {"metadata": noise, "spec": {**template["spec"], "hostAliases": noise}}

    assert isinstance(accepted(DEFAULTS, workload(noisy), "broker"), Refused)


@given(st.permutations(["broker", "lubeck", "bergen"]), st.sampled_from(["lubeck", "malmo"]))
def test_the_order_of_a_list_is_irrelevant(origins: list[str], origin: str) -> None:
    judged = accepted(rules(origins=tuple(origins)), workload(), origin)

    assert isinstance(judged, Accepted) is (origin in origins)
