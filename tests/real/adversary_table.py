"""More attacks that were thought up from the guides, one line each: name, method, path, body."""

from collections.abc import Iterable, Iterator
from typing import Any

from tests.real.adversary import Attack
from tests.real.adversary_attacks import APPLY, JSON_PATCH, MERGE, SHOP
from tests.real.joined_fleet import ACCOUNTS_NAMESPACE, BROKER_NAMESPACE, SOURCE

OWN_SLICE = "OWN"
"""Stands for a slice that lubeck itself publishes, to be turned against others."""
STATED = "services.hanse.dev/exported-at"
_Row = tuple[str, str, str, Any]

_CORE, _HOME = "/api/v1/namespaces", BROKER_NAMESPACE
_SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{_HOME}/endpointslices"
_IMPORTS = f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{_HOME}/serviceimports"
_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{_HOME}/leases"
_MEMBERS = f"/apis/hanse.dev/v1alpha1/namespaces/{_HOME}/clustermembers"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_HANSE = "/apis/hanse.dev/v1alpha1"
_AVI, _SYSTEM = "avi-system", "antrea-plus-system"
_SUFFIXES = {"PATCH": MERGE, "JSON": JSON_PATCH, "APPLY": APPLY}


def _named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


def _labels(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


def _token(seconds: int) -> dict[str, Any]:
    spec = {"expirationSeconds": seconds}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def _attacks(rows: Iterable[_Row]) -> Iterator[Attack]:
    """The requests of a table; JSON and APPLY are patches of these types."""
    for name, method, path, body in rows:
        verb = "PATCH" if method in _SUFFIXES else method
        query = (("fieldManager", "x"), ("force", "true")) if method == "APPLY" else ()
        yield Attack(name, verb, path, body, _SUFFIXES.get(method, "application/json"), query)


_GONE = [{"op": "replace", "path": "/status/phase", "value": "Left"}]
_ACCOUNT_SECRET = {
    "type": "kubernetes.io/service-account-token",
    "metadata": {"name": "x", "annotations": {"kubernetes.io/service-account.name": "hamburg"}},
}
_EVERYBODY = {"kind": "Group", "name": "system:serviceaccounts", "apiGroup": _RBAC.split("/")[2]}
_ADMIN = {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": _RBAC.split("/")[2]}

MEMBER: tuple[_Row, ...] = (
    ("an old slice for web", "PATCH", f"{_SLICES}/{OWN_SLICE}",
     _labels(**{"multicluster.kubernetes.io/service-name": "web"})),
    ("an old slice for another namespace", "PATCH", f"{_SLICES}/{OWN_SLICE}",
     _labels(**{"services.hanse.dev/namespace": "default"})),
    ("an older export", "PATCH", f"{_SLICES}/{OWN_SLICE}",
     {"metadata": {"annotations": {STATED: "1970-01-01T00:00:00+00:00"}}}),
    ("an export of hamburg", "PATCH", f"{_SLICES}/{OWN_SLICE}", _labels(**{SOURCE: "hamburg"})),
    ("endpoints of a Service", "PATCH", f"{_SLICES}/{OWN_SLICE}",
     _labels(**{"kubernetes.io/service-name": "front"})),
    ("all Leases deleted", "DELETE", _LEASES, None),
    ("all aggregates deleted", "DELETE", _IMPORTS, None),
    ("hamburg's Lease by force", "APPLY", f"{_LEASES}/hamburg",
     {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **_named("hamburg", spec={})}),
    ("hamburg gone, by steps", "JSON", f"{_MEMBERS}/hamburg/status", _GONE),
    ("another range of hamburg", "PATCH", f"{_MEMBERS}/hamburg",
     {"spec": {"ranges": {"pods": ["0.0.0.0/0"]}}}),
    ("a record of visby", "POST", _MEMBERS,
     {"apiVersion": "hanse.dev/v1alpha1", "kind": "ClusterMember",
      **_named("visby", spec={"clusterID": "visby", "uid": "x"})}),
    ("an account", "POST", f"{_CORE}/{ACCOUNTS_NAMESPACE}/serviceaccounts", _named("x")),
    ("a Secret with hamburg's token", "POST", f"{_CORE}/{ACCOUNTS_NAMESPACE}/secrets",
     _ACCOUNT_SECRET),
    ("rights for all", "POST", f"{_RBAC}/namespaces/{_HOME}/rolebindings",
     _named("x", roleRef=_ADMIN, subjects=[_EVERYBODY])),
    ("a certificate of administrators", "POST",
     "/apis/certificates.k8s.io/v1/certificatesigningrequests", _named("x")),
    ("policies that do not select", "PATCH", f"{_CORE}/{_HOME}",
     _labels(**{"kubernetes.io/metadata.name": "x"})),
    ("a namespace that accepts", "PATCH", f"{_CORE}/{SHOP}", _labels(**{"hanse.dev/accept": "x"})),
    ("a webhook", "POST", f"{_ADMISSION}/mutatingwebhookconfigurations", _named("x")),
    ("an API of its own", "POST", "/apis/apiregistration.k8s.io/v1/apiservices",
     _named("v1.x.dev")),
    ("Endpoints", "POST", f"{_CORE}/{SHOP}/endpoints", _named("front")),
    ("no room for others", "POST", f"{_CORE}/{_HOME}/resourcequotas",
     _named("x", spec={"hard": {"count/events": "0"}})),
    ("its own queue", "POST", "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", _named("x")),
    ("a network policy", "POST", f"/apis/networking.k8s.io/v1/namespaces/{SHOP}/networkpolicies",
     _named("x", spec={"podSelector": {}})),
    ("an Ingress", "POST", f"/apis/networking.k8s.io/v1/namespaces/{SHOP}/ingresses", _named("x")),
    ("a shell", "POST", f"{_CORE}/{SHOP}/pods/store-0/exec", None),
    ("a node", "PATCH", "/api/v1/nodes/x", {"spec": {"unschedulable": True}}),
    ("Secrets of the cluster", "GET", f"{_CORE}/kube-system/secrets", None),
    ("an import that stays", "POST", _IMPORTS,
     {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport",
      "metadata": {"name": "x", "finalizers": ["a.b/c"]},
      "spec": {"type": "Headless", "ports": []}}),
)  # fmt: skip

_OWN_ACCOUNT = f"{_CORE}/{_SYSTEM}/serviceaccounts/hanse-supervisor-lubeck"
IN_A_MEMBER: tuple[_Row, ...] = (
    ("what is accepted", "POST", f"{_HANSE}/acceptancepolicies", _named("default")),
    ("no more acceptance", "DELETE", f"{_HANSE}/acceptancepolicies/default", None),
    ("a namespace", "POST", _CORE, _named("evil")),
    ("a namespace that accepts", "PATCH", f"{_CORE}/{SHOP}", _labels(**{"hanse.dev/accept": "x"})),
    ("an export of web", "POST",
     f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{SHOP}/serviceexports", _named("web")),
    ("no import", "DELETE",
     f"/apis/multicluster.x-k8s.io/v1alpha1/namespaces/{SHOP}/serviceimports/web", None),
    ("a StatefulSet", "POST", f"/apis/apps/v1/namespaces/{SHOP}/statefulsets", _named("x")),
    ("a scale", "PATCH", f"/apis/apps/v1/namespaces/{SHOP}/deployments/web/scale",
     {"spec": {"replicas": 0}}),
    ("a shell", "POST", f"{_CORE}/{SHOP}/pods/web/exec", None),
    ("a pod", "POST", f"{_CORE}/{SHOP}/pods", _named("x")),
    ("the broker's credentials", "GET", f"{_CORE}/hanse-system/secrets/hanse-broker", None),
    ("all Secrets", "GET", "/api/v1/secrets", None),
    ("Secrets of global hosts", "GET", f"{_CORE}/{_AVI}/secrets", None),
    ("the agent's Lease", "PATCH",
     "/apis/coordination.k8s.io/v1/namespaces/hanse-system/leases/hanse-agent",
     {"spec": {"holderIdentity": "x"}}),
    ("no policies", "DELETE", f"{_ADMISSION}/validatingadmissionpolicies/x", None),
    ("a webhook", "POST", f"{_ADMISSION}/validatingwebhookconfigurations", _named("x")),
    ("rights", "POST", f"{_RBAC}/clusterrolebindings", _named("x", roleRef=_ADMIN)),
    ("no definitions", "DELETE",
     "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/acceptancepolicies.hanse.dev", None),
    ("a node", "PATCH", "/api/v1/nodes/x", {"spec": {"unschedulable": True}}),
    ("no account", "DELETE", _OWN_ACCOUNT, None),
)  # fmt: skip
"""With the token of a supervisor, of a GSLB leader, or of a tenant's administrator."""

_LEADER = f"{_CORE}/{_AVI}/serviceaccounts/adversary-leader/token"
LEADER: tuple[_Row, ...] = (
    ("a token for ten years", "POST", _LEADER, _token(315_360_000)),
    ("a token of a supervisor", "POST", f"{_OWN_ACCOUNT}/token", _token(3600)),
    ("a token of the default account", "POST",
     f"{_CORE}/{_AVI}/serviceaccounts/default/token", _token(3600)),
    ("a ConfigMap of users", "PATCH", f"{_CORE}/{_AVI}/configmaps/users", {"data": {"a": "b"}}),
    ("a ConfigMap of nobody", "POST", f"{_CORE}/{_AVI}/configmaps", _named("evil")),
    ("a Service", "PATCH", f"{_CORE}/{SHOP}/services/web", _labels(a="b")),
)  # fmt: skip
TENANT_OWN = frozenset(
    {"an export of web", "no import", "a StatefulSet", "a scale", "a shell", "a pod"}
)
"""What an administrator of the namespace may do there."""


def member_table(own_slice: str) -> Iterator[Attack]:
    """With a member's token, on the broker; the slice is one that the member has published."""
    yield from _attacks(
        (name, method, path.replace(OWN_SLICE, own_slice), body)
        for name, method, path, body in MEMBER
    )


def table_in_a_member() -> Iterator[Attack]:
    """With a supervisor's or leader's token, in a member."""
    yield from _attacks(IN_A_MEMBER)


def leader_table() -> Iterator[Attack]:
    """With the token of a GSLB leader, in a site."""
    yield from _attacks((*IN_A_MEMBER, *LEADER))


def tenant_table() -> Iterator[Attack]:
    """With the rights of the administrator of a namespace in a member, outside of it."""
    rows = (row for row in (*IN_A_MEMBER, *LEADER[:5]) if row[0] not in TENANT_OWN)
    yield from _attacks(tuple(rows))
