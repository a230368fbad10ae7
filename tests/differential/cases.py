"""Cases as data: requests that are sent to two API servers whose answers are compared.

Each case has a namespace of its own, `$ns`. `$name` is a variable that an earlier step saved (a
resourceVersion, a uid, a continue token). `$webhook` is the URL of the webhooks of these tests, and
`$bundle` their authority.
"""

from typing import Any

from msgspec import Struct

from hanse.kube.transport import JSON, MERGE_PATCH
from tinykube.request import JSON_PATCH, STRATEGIC_MERGE_PATCH

Body = dict[str, Any] | list[Any] | str | None
"""An object, or text to be sent as it is."""

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


class RequestStep(Struct, frozen=True):
    """One request; `save` maps variables to dotted paths in its answer.

    A `setup` step must succeed, and its answer is not compared.
    """

    method: str
    path: str
    body: Body = None
    query: dict[str, str] = {}
    content_type: str = JSON
    accept: str = JSON
    save: dict[str, str] = {}
    setup: bool = False
    user: str = ""
    """Whom the administrator impersonates."""


class WatchStep(Struct, frozen=True):
    """A watch that the server ends after a second."""

    path: str
    query: dict[str, str] = {}
    accept: str = JSON
    user: str = ""


Step = RequestStep | WatchStep


class Case(Struct, frozen=True):
    """A name and the steps that are run in order."""

    name: str
    steps: tuple[Step, ...]


def case(name: str, *steps: Step) -> Case:
    return Case(name, steps)


def grouped(group: str, cases: tuple[Case, ...]) -> list[Case]:
    """Cases with a common prefix."""
    return [Case(f"{group}: {one.name}", one.steps) for one in cases]


CORE = "/api/v1/namespaces/$ns"
APPS = "/apis/apps/v1/namespaces/$ns"
NETWORKING = "/apis/networking.k8s.io/v1/namespaces/$ns"
CONFIGMAPS = f"{CORE}/configmaps"
SECRETS = f"{CORE}/secrets"
SERVICES = f"{CORE}/services"
PODS = f"{CORE}/pods"
DEPLOYMENTS = f"{APPS}/deployments"
STATEFULSETS = f"{APPS}/statefulsets"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/$ns/endpointslices"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/$ns/leases"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{_ADMISSION}/mutatingwebhookconfigurations"
VALIDATING = f"{_ADMISSION}/validatingwebhookconfigurations"
HOOKS = (MUTATING, VALIDATING)

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLES = f"{_RBAC}/namespaces/$ns/roles"
ROLE_BINDINGS = f"{_RBAC}/namespaces/$ns/rolebindings"
CLUSTER_ROLES = f"{_RBAC}/clusterroles"
CLUSTER_ROLE_BINDINGS = f"{_RBAC}/clusterrolebindings"
POLICIES = f"{_ADMISSION}/validatingadmissionpolicies"
POLICY_BINDINGS = f"{_ADMISSION}/validatingadmissionpolicybindings"
CACHED = (
    *HOOKS,
    POLICIES,
    POLICY_BINDINGS,
    ROLES,
    ROLE_BINDINGS,
    CLUSTER_ROLES,
    CLUSTER_ROLE_BINDINGS,
)
"""The collections whose changes take effect some time after they are written."""

RV = {"rv": "metadata.resourceVersion"}
UID = {"uid": "metadata.uid"}


def create(path: str, body: Body, **options: Any) -> RequestStep:
    return RequestStep("POST", path, body, **options)


def get(path: str, **options: Any) -> RequestStep:
    return RequestStep("GET", path, **options)


def put(path: str, body: Body, **options: Any) -> RequestStep:
    return RequestStep("PUT", path, body, **options)


def merge(path: str, body: Body, **options: Any) -> RequestStep:
    return RequestStep("PATCH", path, body, content_type=MERGE_PATCH, **options)


def strategic(path: str, body: Body, **options: Any) -> RequestStep:
    return RequestStep("PATCH", path, body, content_type=STRATEGIC_MERGE_PATCH, **options)


def json_patch(path: str, *operations: dict[str, Any] | str, **options: Any) -> RequestStep:
    return RequestStep("PATCH", path, list(operations), content_type=JSON_PATCH, **options)


def delete(path: str, body: Body = None, **options: Any) -> RequestStep:
    return RequestStep("DELETE", path, body, **options)


def watch(path: str, accept: str = JSON, user: str = "", **query: str) -> WatchStep:
    return WatchStep(path, {"watch": "true", "timeoutSeconds": "1", **query}, accept, user)


def obj(api_version: str, kind: str, name: str = "", **fields: Any) -> dict[str, Any]:
    """An object; metadata given among the fields is added to its name."""
    metadata = ({"name": name} if name else {}) | fields.pop("metadata", {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def configmap(name: str = "c", **fields: Any) -> dict[str, Any]:
    return obj("v1", "ConfigMap", name, **fields)


def service(name: str = "s", **spec: Any) -> dict[str, Any]:
    return obj("v1", "Service", name, spec={"ports": [{"port": 80}], **spec})


def pod_spec(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "web", "image": "nginx"}], **fields}


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    # Without a ServiceAccount controller there is no account whose token could be mounted.
    return obj("v1", "Pod", name, spec=pod_spec(automountServiceAccountToken=False, **spec))


def template(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels or {"app": "web"}}, "spec": pod_spec()}


def deployment(name: str = "d", **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return obj(
        "apps/v1", "Deployment", name, spec={"selector": selector, "template": template(), **spec}
    )


def statefulset(name: str = "t", **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    fields = {"serviceName": "s", "selector": selector, "template": template(), **spec}
    return obj("apps/v1", "StatefulSet", name, spec=fields)


def endpoint_slice(name: str = "e", **fields: Any) -> dict[str, Any]:
    given = {"addressType": "IPv4", "endpoints": [{"addresses": ["198.51.100.3"]}], **fields}
    return obj("discovery.k8s.io/v1", "EndpointSlice", name, **given)


def table_case(
    name: str, path: str, body: dict[str, Any], status: dict[str, Any] | None = None
) -> Case:
    """Create an object, write its status, and get its table."""
    one = f"{path}/{body['metadata']['name']}"
    reported = (merge(f"{one}/status", {"status": status}, setup=True),) if status else ()
    return case(name, create(path, body, setup=True), *reported, get(one, accept=TABLE))
