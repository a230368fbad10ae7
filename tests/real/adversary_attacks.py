"""The attacks that were thought up from the guides: each must be refused with 401 or 403."""

from collections.abc import Iterator
from typing import Any

from tests.real.adversary import Attack
from tests.real.joined_fleet import ACCOUNTS_NAMESPACE, BROKER_NAMESPACE, SOURCE, owner_key

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
OWNER_KEY = "hanse.dev/owner-key"
_BOGUS = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "0-0"}]
_CORE, _APPS = "/api/v1/namespaces", "/apis/apps/v1/namespaces"
_HANSE = "/apis/hanse.dev/v1alpha1"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{BROKER_NAMESPACE}/leases"
_IMPORTS = f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{BROKER_NAMESPACE}/serviceimports"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SHOP = "adversary-shop"


def _patch(name: str, path: str, change: object) -> Attack:
    return Attack(name, "PATCH", path, change, MERGE)


def _meta(**fields: object) -> dict[str, object]:
    return {"metadata": fields}


def federated_set(
    name: str, namespace: str, owner: str | None, pod: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A FederatedStatefulSet as a member's agent would publish it, with an owner key if given."""
    labels = {"app": name}
    annotations = {OWNER_KEY: owner} if owner is not None else {}
    containers = [{"name": "c", "image": "c"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **(pod or {})}}
    spec = {"selector": {"matchLabels": labels}, "template": template, "serviceName": name}
    return {
        "apiVersion": "hanse.dev/v1alpha1",
        "kind": "FederatedStatefulSet",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {"template": {"spec": spec}},
    }


def _service(name: str, spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    key = owner_key(name, "lubeck")
    metadata = {"name": name, "annotations": {OWNER_KEY: key, **annotations}}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"ports": [{"port": 80}], **spec},
    }


def endpoint_slice(name: str, labels: dict[str, str], **metadata: object) -> dict[str, Any]:
    """An empty EndpointSlice."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": labels, **metadata},
        "addressType": "IPv4",
        "endpoints": [],
    }


def workload_attacks() -> Iterator[Attack]:  # noqa: PLR0915 - a list
    """Pods in clusters of others."""
    own = owner_key("evil", "lubeck", "FederatedStatefulSet")
    root = {
        "hostPID": True,
        "serviceAccountName": "namespace-controller",
        "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
    }
    path = f"{_HANSE}/namespaces/{SHOP}/federatedstatefulsets"

    def submit(name: str, owner: str | None, pod: dict[str, Any] | None = None) -> Attack:
        return Attack(name, "POST", path, federated_set("evil", SHOP, owner, pod))

    yield Attack(
        "privileged pods of every cluster, in kube-system",
        "POST",
        f"{_HANSE}/namespaces/kube-system/federatedstatefulsets",
        federated_set("evil", "kube-system", own, root),
    )
    yield submit("root on every node", own, root)
    yield submit("the network of nodes", own, {"hostNetwork": True})
    privileged = [{"name": "c", "image": "c", "securityContext": {"privileged": True}}]
    yield submit("a privileged container", own, {"containers": privileged})
    yield submit("a privileged init container", own, {"initContainers": privileged})
    yield submit("a set of people", None)
    yield submit("a set of another host", owner_key("evil", "hamburg", "FederatedStatefulSet"))
    both = own.replace('"for":"lubeck"', '"for":"lubeck","for":"hamburg"')
    yield submit("a set of two hosts", both)
    yield submit("a set of all", owner_key("evil", "", "FederatedStatefulSet"))
    yield _patch(
        "another image", f"{path}/ledger", {"spec": {"template": {"spec": {"replicas": 9}}}}
    )
    yield _patch("a scale of people's set", f"{path}/ledger/scale", {"spec": {"replicas": 0}})
    yield Attack("no set of people", "DELETE", f"{path}/ledger")
    yield _patch("a set taken over", f"{path}/ledger", _meta(annotations={OWNER_KEY: own}))
    yield _patch("a paused set", f"{path}/ledger", _meta(annotations={"hanse.dev/paused": "true"}))
    sets = f"{_APPS}/{SHOP}/statefulsets/store"
    yield _patch("a StatefulSet scaled", f"{sets}/scale", {"spec": {"replicas": 0}})
    yield _patch("a StatefulSet patched", sets, {"spec": {"replicas": 0}})
    yield Attack("a StatefulSet deleted", "DELETE", sets)
    yield _patch("owned by nothing, by status", f"{sets}/status", _meta(ownerReferences=_BOGUS))
    yield _patch("never deleted, by status", f"{sets}/status", _meta(finalizers=["a.b/c"]))
    yield _patch("labels by status", f"{sets}/status", _meta(labels={"a": "b"}))
    yield _patch("paused by status", f"{sets}/status", _meta(annotations={"hanse.dev/paused": "x"}))
    shares = f"{_HANSE}/namespaces/{SHOP}/statefulsetshares/store"
    yield Attack("shares deleted", "DELETE", shares)
    yield _patch("shares owned by nothing", shares, _meta(ownerReferences=_BOGUS))
    yield _patch("shares without an owner", shares, _meta(ownerReferences=None))
    yield _patch("shares that stay", shares, _meta(finalizers=["a.b/c"]))
    permit = {"name": "bergen", "pods": 1}
    yield _patch("another's permit", shares, {"spec": {"permits": [permit]}})
    handed_on = {"to": "hamburg", "pods": 9, "number": 7}
    forged = {"name": "lubeck", "handedOn": handed_on, "setUID": "x"}
    yield _patch("a permit that it never had", shares, {"spec": {"permits": [forged]}})
    yield _patch("shares that nobody reads", shares, {"spec": {"schema": 999}})
    yield _patch("shares taken over", shares, _meta(annotations={OWNER_KEY: own}))
    yield Attack(
        "pods here", "POST", f"{_CORE}/{SHOP}/pods", {"kind": "Pod", "metadata": {"name": "p"}}
    )


def service_attacks() -> Iterator[Attack]:
    """Names, addresses and endpoints of others."""
    services = f"{_CORE}/{SHOP}/services"
    yield _patch("a Service owned by nothing", f"{services}/front", _meta(ownerReferences=_BOGUS))
    yield _patch("a Service that stays", f"{services}/front", _meta(finalizers=["a.b/c"]))
    dns = {"external-dns.alpha.kubernetes.io/hostname": "bank.example.com"}
    yield _patch("a public name", f"{services}/front", _meta(annotations=dns))
    yield _patch("labels of a Service", f"{services}/front", _meta(labels={"a": "b"}))
    yield _patch("ports of a Service", f"{services}/front", {"spec": {"ports": [{"port": 81}]}})
    yield Attack("a Service deleted", "DELETE", f"{services}/front")
    ingress = {"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}
    yield _patch("an address for a Service", f"{services}/front/status", ingress)
    yield _patch("owned by nothing", f"{services}/front/status", _meta(ownerReferences=_BOGUS))
    steal = {"clusterIP": "None", "externalIPs": ["10.0.0.10"]}
    for name, where, spec in (
        ("external addresses in kube-system", "kube-system", steal),
        ("external addresses", SHOP, {"externalIPs": ["10.0.0.10"]}),
        ("a load balancer", SHOP, {"type": "LoadBalancer"}),
        ("a node port", SHOP, {"type": "NodePort"}),
        ("a cluster address", SHOP, {}),
        ("an alias", SHOP, {"type": "ExternalName", "externalName": "example.com"}),
        ("a headless Service in the broker's namespace", BROKER_NAMESPACE, {"clusterIP": "None"}),
        ("a headless Service among the accounts", ACCOUNTS_NAMESPACE, {"clusterIP": "None"}),
    ):
        yield Attack(name, "POST", f"{_CORE}/{where}/services", _service("evil", spec))
    elsewhere = {"type": "LoadBalancer", "loadBalancerClass": "hanse.dev/elsewhere"}
    mark = {"statefulsets.hanse.dev/cluster": "lubeck"}
    replica = _service("store-hamburg-0", elsewhere, **mark)
    yield Attack("the name of another's replica", "POST", services, replica)
    squat = _service("store-hamburg-7", {"clusterIP": "None"})
    yield Attack("the name of another's replica, headless", "POST", services, squat)
    named = _service("evil", {"clusterIP": "None"}, **dns)
    yield Attack("a public name of its own", "POST", services, named)
    imports = {"kind": "ServiceImport", "metadata": {"name": "x"}}
    yield Attack(
        "an import of an older agent of hamburg",
        "POST",
        _IMPORTS,
        {
            "apiVersion": "multicluster.x-k8s.io/v1alpha1",
            **imports,
            "metadata": {
                "name": "x",
                "labels": {"lighthouse.submariner.io/sourceCluster": "hamburg"},
            },
            "spec": {"type": "ClusterSetIP", "ports": []},
        },
    )


def slice_attacks(theirs: str) -> Iterator[Attack]:
    """Records of others; `theirs` is a slice of hamburg on the broker."""
    home = f"{_SLICES}/{BROKER_NAMESPACE}/endpointslices"
    own, false = {SOURCE: "lubeck"}, {SOURCE: "hamburg"}
    yield Attack("a slice of hamburg", "POST", home, endpoint_slice("x", false))
    yield Attack("a slice of nobody", "POST", home, endpoint_slice("x", {}))
    yield Attack("a name of hamburg", "POST", home, endpoint_slice("hamburg.x", own))
    serves = {**own, "kubernetes.io/service-name": "kubernetes"}
    yield Attack("endpoints of a Service", "POST", home, endpoint_slice("x", serves))
    owned = endpoint_slice("x", own, ownerReferences=_BOGUS)
    yield Attack("a slice with an owner", "POST", home, owned)
    lasting = endpoint_slice("x", own, finalizers=["a.b/c"])
    yield Attack("a slice that stays", "POST", home, lasting)
    yield _patch("hamburg's slice taken", f"{home}/{theirs}", _meta(labels=own))
    yield _patch("hamburg's slice emptied", f"{home}/{theirs}", {"endpoints": []})
    yield _patch("hamburg's slice owned", f"{home}/{theirs}", _meta(ownerReferences=_BOGUS))
    yield Attack("hamburg's slice deleted", "DELETE", f"{home}/{theirs}")
    yield Attack("all slices deleted", "DELETE", home)
    steps = [{"op": "replace", "path": "/endpoints", "value": []}]
    yield Attack("by steps", "PATCH", f"{home}/{theirs}", steps, JSON_PATCH)
    forced = (("fieldManager", "hanse"), ("force", "true"))
    taken = endpoint_slice(theirs, own)
    yield Attack("by force", "PATCH", f"{home}/{theirs}", taken, APPLY, forced)
    yield Attack("made by force", "PATCH", f"{home}/x", endpoint_slice("x", false), APPLY, forced)
    for where in (SHOP, "kube-system", "default"):
        path = f"{_SLICES}/{where}/endpointslices"
        yield Attack(f"a slice in {where}", "POST", path, endpoint_slice("x", own))
    part = {
        "apiVersion": "hanse.dev/v1alpha1",
        "kind": "StatefulSetPart",
        "metadata": {"name": "store-hamburg-0a"},
        "spec": {"namespace": SHOP, "name": "store", "cluster": "hamburg"},
    }
    parts = f"{_HANSE}/namespaces/{BROKER_NAMESPACE}/statefulsetparts"
    yield Attack("a report of hamburg", "POST", parts, part)
    squat = {**part, "spec": {**part["spec"], "cluster": "lubeck"}}  # type: ignore[dict-item]
    yield Attack("the name of a report of hamburg", "POST", parts, squat)


def account_attacks() -> Iterator[Attack]:  # noqa: PLR0915 - a list
    """More rights, other identities, and the rules of the fleet."""
    for name, where, account, seconds in (
        ("a token for ten years", ACCOUNTS_NAMESPACE, "lubeck", 315_360_000),
        ("a token for a month and a second", ACCOUNTS_NAMESPACE, "lubeck", 2_592_001),
        ("a token that no rotation ends", ACCOUNTS_NAMESPACE, "lubeck", 3600),
        ("a token of hamburg", ACCOUNTS_NAMESPACE, "hamburg", 3600),
        ("a token of nobody", ACCOUNTS_NAMESPACE, "default", 3600),
        ("a token of a controller", "kube-system", "namespace-controller", 3600),
        ("a token of its former account", BROKER_NAMESPACE, "lubeck", 3600),
    ):
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        yield Attack(name, "POST", f"{_CORE}/{where}/serviceaccounts/{account}/token", body)
    lease = f"{_LEASES}/lubeck"
    uid = {"hanse.dev/cluster-uid": "another"}
    yield _patch("another cluster's id", lease, _meta(annotations=uid))
    yield _patch("alive for ever", lease, {"spec": {"leaseDurationSeconds": 2**31 - 1}})
    yield _patch("a label of its Lease", lease, _meta(labels={"a": "b"}))
    yield _patch("an owner of its Lease", lease, _meta(ownerReferences=_BOGUS))
    yield Attack("its Lease deleted", "DELETE", lease)
    renewed = {"spec": {"holderIdentity": "hamburg"}}
    yield _patch("hamburg alive", f"{_LEASES}/hamburg", renewed)
    new = {"kind": "Lease", "metadata": {"name": "visby"}, "spec": {}}
    yield Attack("a new member", "POST", _LEASES, {"apiVersion": "coordination.k8s.io/v1", **new})
    records = f"{_HANSE}/namespaces/{BROKER_NAMESPACE}/clustermembers"
    yield _patch("another cluster behind its id", f"{records}/lubeck", {"spec": {"uid": "another"}})
    yield _patch("the last epoch", f"{records}/lubeck/status", {"status": {"epoch": 2**62}})
    yield Attack("its record deleted", "DELETE", f"{records}/lubeck")
    for phase, whose in (("Replaced", "lubeck"), ("Left", "hamburg")):
        change = {"status": {"phase": phase}}
        yield _patch(f"{whose} {phase}", f"{records}/{whose}/status", change)
    everybody = {"spec": {"paused": True}}
    yield _patch("the fleet paused", f"{_HANSE}/clustersets/default", everybody)
    yield Attack("no rules", "DELETE", f"{_HANSE}/clustersets/default")
    rules = {"kind": "ClusterSet", "metadata": {"name": "x"}, "spec": {}}
    made = {"apiVersion": "hanse.dev/v1alpha1", **rules}
    yield Attack("other rules", "POST", f"{_HANSE}/clustersets", made)
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "evil"}}
    yield Attack("a namespace", "POST", _CORE, space)
    yield Attack("the end of the fleet", "DELETE", f"{_CORE}/{BROKER_NAMESPACE}")
    yield Attack("the end of all accounts", "DELETE", f"{_CORE}/{ACCOUNTS_NAMESPACE}")
    for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
        yield Attack(f"no {kind}", "DELETE", f"{_ADMISSION}/{kind}/{BROKER_NAMESPACE}-slices")
    role = f"{_RBAC}/clusterroles/{BROKER_NAMESPACE}:member"
    all_rights = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    yield _patch("all rights", role, {"rules": all_rights})
    subject = {"kind": "ServiceAccount", "name": "lubeck", "namespace": ACCOUNTS_NAMESPACE}
    bound = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "evil"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [subject],
    }
    yield Attack("an administrator", "POST", f"{_RBAC}/clusterrolebindings", bound)
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clustersets.hanse.dev"
    yield Attack("no ClusterSets", "DELETE", crd)
    yield Attack("secrets", "GET", f"{_CORE}/{ACCOUNTS_NAMESPACE}/secrets")
    yield Attack("all secrets", "GET", "/api/v1/secrets")
    others = (("Impersonate-User", "system:admin"), ("Impersonate-Group", "system:masters"))
    yield Attack("somebody else", "GET", f"{_CORE}/kube-system/secrets", headers=others)
    hamburg = f"system:serviceaccount:{ACCOUNTS_NAMESPACE}:hamburg"
    yield Attack("hamburg", "GET", "/api/v1/services", headers=(("Impersonate-User", hamburg),))
    for reporter, instance in (("kubelet", "lubeck"), ("hanse", "hamburg"), ("hanse", "")):
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "evil", "namespace": SHOP},
            "involvedObject": {"kind": "Service", "namespace": SHOP, "name": "front"},
            "reportingComponent": reporter,
            "reportingInstance": instance,
        }
        told = f"an Event of {reporter} {instance}"
        yield Attack(told, "POST", f"{_CORE}/{SHOP}/events", event)


def supervisor_attacks() -> Iterator[Attack]:  # noqa: PLR0915 - a list
    """What a supervisor's token must not do in a member."""
    services = f"{_CORE}/{SHOP}/services"
    slices = f"{_SLICES}/{SHOP}/endpointslices"
    ours = {"hanse.dev/owner": "federated-0000"}
    federated = {"fed-svc.antreaplus.vmware-tanzu.com": "true"}
    yield _patch("a user's Service", f"{services}/web", {"spec": {"selector": {"a": "b"}}})
    yield _patch("a user's Service taken", f"{services}/web", _meta(labels=ours))
    yield _patch("a Service owned", f"{services}/web", _meta(ownerReferences=_BOGUS))
    yield Attack("a user's Service deleted", "DELETE", f"{services}/web")
    stolen = {"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}
    yield _patch("an address of a user's Service", f"{services}/gate/status", stolen)
    yield _patch("owned by status", f"{services}/web/status", _meta(ownerReferences=_BOGUS))

    def service(spec: dict[str, Any], labels: dict[str, str] = ours) -> dict[str, Any]:
        metadata = {"name": "evil", "labels": labels, "annotations": federated}
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": [{"port": 80}], **spec},
        }

    yield Attack("a Service of nobody", "POST", services, service({}, {}))
    yield Attack("a Service over pods", "POST", services, service({"selector": {"a": "b"}}))
    steal = {"externalIPs": ["10.0.0.10"]}
    yield Attack("external addresses", "POST", services, service(steal))
    yield Attack("a load balancer", "POST", services, service({"type": "LoadBalancer"}))
    yield Attack("a Service in kube-system", "POST", f"{_CORE}/kube-system/services", service({}))
    managed = {"endpointslice.kubernetes.io/managed-by": "federated.hanse.dev"}
    to_web = {**managed, "kubernetes.io/service-name": "web"}
    yield Attack("endpoints of a user's Service", "POST", slices, endpoint_slice("x", to_web))
    plain = {"kubernetes.io/service-name": "other"}
    yield Attack("slices of controllers", "POST", slices, endpoint_slice("x", plain))
    path = f"{_SLICES}/kube-system/endpointslices"
    yield Attack("slices in kube-system", "POST", path, endpoint_slice("x", managed))
    system = "antrea-plus-system"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    yield Attack("a ConfigMap", "POST", f"{_CORE}/{system}/configmaps", config)
    root_ca = f"{_CORE}/{system}/configmaps/kube-root-ca.crt"
    yield _patch("another authority", root_ca, {"data": {"ca.crt": "x"}})
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}}
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{system}/leases"
    yield Attack("another Lease", "POST", leases, {**lease, "spec": {}})
    token = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 315_360_000},
    }
    accounts = f"{_CORE}/{system}/serviceaccounts"
    own = f"{accounts}/hanse-supervisor-lubeck/token"
    yield Attack("a token for ten years", "POST", own, token)
    yield Attack("a token that no rotation ends", "POST", own, {**token, "spec": {}})
    other = f"{accounts}/hanse-supervisor-hamburg/token"
    yield Attack("a token of another supervisor", "POST", other, {**token, "spec": {}})
    agent = f"{_CORE}/hanse-system/serviceaccounts/hanse-agent/token"
    yield Attack("a token of the agent", "POST", agent, {**token, "spec": {}})
    yield Attack("secrets", "GET", f"{_CORE}/{system}/secrets")
    antrea = "/apis/crd.antrea.io/v1beta1"
    for path, name in (
        (f"{antrea}/clusternetworkpolicies", "deny"),
        (f"{antrea}/namespaces/{SHOP}/networkpolicies", "deny"),
    ):
        yield Attack(f"no {path}", "DELETE", f"{path}/{name}")
        yield _patch(f"other {path}", f"{path}/{name}", {"spec": {"priority": 1}})
        yield _patch(
            f"taken {path}",
            f"{path}/{name}",
            _meta(annotations={"federated.anp.antreaplus.vmware.com": "true"}),
        )
