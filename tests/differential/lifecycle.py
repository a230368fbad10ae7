"""Namespaces and definitions as they come, change and go, and requests at unusual places."""

from tests.differential.cases import (
    CONFIGMAPS,
    CORE,
    CRDS,
    LEASES,
    RV,
    SERVICES,
    case,
    configmap,
    create,
    delete,
    get,
    grouped,
    json_patch,
    merge,
    obj,
    put,
    service,
    watch,
)
from tests.differential.definitions import CRD, GROUP, SHIP, SHIPS, crd, ship, version

NS = "/api/v1/namespaces/$ns"
RBAC = "rbac.authorization.k8s.io/v1"
LEASE = obj("coordination.k8s.io/v1", "Lease", "l", spec={"holderIdentity": "a"})
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINED = create(CRDS, crd(), setup=True)


def schema(**properties: object) -> dict[str, object]:
    return version(schema={"openAPIV3Schema": {"type": "object", "properties": properties}})


NAMESPACES = (
    case("itself", get(NS)),
    case("labels", merge(NS, {"metadata": {"labels": {"a": "b"}}})),
    case("its own label stays", merge(NS, {"metadata": {"labels": None}})),
    case(
        "its own label is not another's",
        merge(NS, {"metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}}),
    ),
    case(
        "going", delete(NS), get(NS), create(CONFIGMAPS, configmap()), create(SERVICES, service())
    ),
    case("going twice", delete(NS), delete(NS)),
    case(
        "what is there can still change",
        create(CONFIGMAPS, configmap()),
        delete(NS),
        merge(f"{CONFIGMAPS}/c", {"data": {"a": "b"}}),
        delete(f"{CONFIGMAPS}/c"),
    ),
    case(
        "finalizers are not changed by an update",
        put(NS, obj("v1", "Namespace", "$ns", spec={"finalizers": []})),
    ),
    case(
        "finalized",
        delete(NS),
        put(f"{NS}/finalize", obj("v1", "Namespace", "$ns", spec={"finalizers": []})),
        get(NS),
    ),
    case(
        "one that cannot go",
        delete("/api/v1/namespaces/default"),
        delete("/api/v1/namespaces/kube-system"),
    ),
    case("a status", merge(f"{NS}/status", {"status": {"phase": "Terminating"}})),
    case("by put", put(NS, obj("v1", "Namespace", "$ns", metadata={"labels": {"a": "b"}}))),
)

PLACES = (
    case(
        "all namespaces",
        create(CONFIGMAPS, configmap()),
        get("/api/v1/configmaps", query={"fieldSelector": "metadata.namespace=$ns"}),
    ),
    case("a creation without a namespace", create("/api/v1/configmaps", configmap())),
    case("a namespace for what has none", get(f"{CORE}/nodes")),
    case("an object without its namespace", get("/api/v1/configmaps/c")),
    case("a list in a namespace that is not there", get("/api/v1/namespaces/none/configmaps")),
    case("a slash at the end", get(f"{CONFIGMAPS}/")),
    case("the old path of deployments", get("/apis/extensions/v1beta1/namespaces/$ns/deployments")),
)

PUT_CREATES = (
    case("a lease", put(f"{LEASES}/l", LEASE)),
    case("a service", put(f"{SERVICES}/s", service())),
    case("endpoints", put(f"{CORE}/endpoints/e", obj("v1", "Endpoints", "e"))),
    case("a role", put(f"/apis/{RBAC}/namespaces/$ns/roles/r", obj(RBAC, "Role", "r", rules=[]))),
    case("a secret", put(f"{CORE}/secrets/k", obj("v1", "Secret", "k"))),
    case(
        "a lease with a version",
        put(f"{LEASES}/l", LEASE | {"metadata": {"name": "l", "resourceVersion": "5"}}),
    ),
    case("a lease by a patch", merge(f"{LEASES}/l", {"spec": {"holderIdentity": "a"}})),
)

DEFINITIONS = (
    case(
        "a field is added",
        DEFINED,
        create(SHIPS, ship(extra="x")),
        json_patch(
            CRD,
            {
                "op": "add",
                "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/extra",
                "value": {"type": "string"},
            },
            setup=True,
        ),
    ),
    case("gone with all its objects", DEFINED, create(SHIPS, ship()), delete(CRD, setup=True)),
    case(
        "unknown fields are kept",
        create(CRDS, crd(schema(spec=FREE)), setup=True),
        create(SHIPS, ship(anything={"goes": [1, "a", None]})),
        get(SHIP),
    ),
    case(
        "an embedded object",
        create(
            CRDS,
            crd(
                schema(
                    spec={
                        "type": "object",
                        "properties": {
                            "template": {**FREE, "x-kubernetes-embedded-resource": True}
                        },
                    }
                )
            ),
            setup=True,
        ),
        create(
            SHIPS,
            obj(
                f"{GROUP}/v1",
                "Ship",
                "anna",
                spec={
                    "template": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "metadata": {"name": "p"},
                        "x": 1,
                    }
                },
            ),
        ),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "bella", spec={"template": {"x": 1}})),
    ),
    case(
        "defaults of objects",
        create(
            CRDS,
            crd(
                schema(
                    spec={
                        "type": "object",
                        "default": {},
                        "properties": {
                            "a": {
                                "type": "object",
                                "default": {},
                                "properties": {"b": {"type": "integer", "default": 7}},
                            }
                        },
                    }
                )
            ),
            setup=True,
        ),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna")),
    ),
    case(
        "a cluster-wide kind",
        create(CRDS, crd(scope="Cluster"), setup=True),
        create(f"/apis/{GROUP}/v1/ships", ship()),
        get(f"/apis/{GROUP}/v1/ships/anna"),
        create(SHIPS, ship()),
    ),
    case(
        "a version that is not served",
        create(CRDS, crd(version(), version("v1alpha1", served=False, storage=False)), setup=True),
        get(f"/apis/{GROUP}/v1alpha1/namespaces/$ns/ships"),
    ),
    case(
        "a deprecated version",
        create(CRDS, crd(version(deprecated=True)), setup=True),
        create(SHIPS, ship()),
    ),
    case(
        "selectable fields",
        create(CRDS, crd(version(selectableFields=[{"jsonPath": ".spec.rig"}])), setup=True),
        create(SHIPS, ship()),
        get(SHIPS, query={"fieldSelector": "spec.rig=gaff"}),
        get(SHIPS, query={"fieldSelector": "spec.rig=square"}),
        get(SHIPS, query={"fieldSelector": "spec.masts=3"}),
    ),
    case(
        "a status by put",
        DEFINED,
        create(SHIPS, ship(), save=RV),
        put(
            f"{SHIP}/status",
            {
                **ship(masts=9),
                "metadata": {"name": "anna", "resourceVersion": "$rv"},
                "status": {"state": "out"},
            },
        ),
    ),
    case("a watch of custom objects", DEFINED, create(SHIPS, ship(), setup=True), watch(SHIPS)),
    case(
        "a minimum of properties",
        create(
            CRDS,
            crd(
                schema(
                    spec={
                        "type": "object",
                        "minProperties": 1,
                        "maxProperties": 1,
                        "additionalProperties": {"type": "string"},
                    }
                )
            ),
            setup=True,
        ),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna", spec={})),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna", spec={"a": "b", "c": "d"})),
    ),
    case(
        "formats",
        create(
            CRDS,
            crd(
                schema(
                    spec={
                        "type": "object",
                        "properties": {
                            "ip": {"type": "string", "format": "ipv4"},
                            "uri": {"type": "string", "format": "uri"},
                            "mail": {"type": "string", "format": "email"},
                        },
                    }
                )
            ),
            setup=True,
        ),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna", spec={"ip": "x"})),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna", spec={"mail": "x"})),
    ),
    case(
        "exclusive bounds",
        create(
            CRDS,
            crd(
                schema(
                    spec={
                        "type": "object",
                        "properties": {
                            "n": {
                                "type": "number",
                                "minimum": 1,
                                "exclusiveMinimum": True,
                            }
                        },
                    }
                )
            ),
            setup=True,
        ),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna", spec={"n": 1})),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna", spec={"n": 1.3})),
    ),
    case(
        "none of these",
        create(
            CRDS,
            crd(
                schema(
                    spec={
                        "type": "object",
                        "properties": {"a": {"type": "string", "not": {"enum": ["x"]}}},
                    }
                )
            ),
            setup=True,
        ),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna", spec={"a": "x"})),
    ),
    case(
        "any of these",
        create(
            CRDS,
            crd(
                schema(
                    spec={
                        "type": "object",
                        "properties": {
                            "a": {"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "^y"}]}
                        },
                    }
                )
            ),
            setup=True,
        ),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna", spec={"a": "x"})),
        create(SHIPS, obj(f"{GROUP}/v1", "Ship", "anna", spec={"a": "y"})),
    ),
)

CASES = [
    *grouped("namespace", NAMESPACES),
    *grouped("place", PLACES),
    *grouped("create by put", PUT_CREATES),
    *grouped("definition life", DEFINITIONS),
]
