"""Plain objects: create, read, list, change, delete, and what is refused."""

from tests.differential.cases import (
    CONFIGMAPS,
    CORE,
    LEASES,
    METADATA,
    METADATA_LIST,
    PODS,
    RV,
    SECRETS,
    TABLE,
    UID,
    case,
    configmap,
    create,
    delete,
    get,
    grouped,
    merge,
    obj,
    pod,
    put,
)

C = f"{CONFIGMAPS}/c"
FINALIZED = configmap(metadata={"finalizers": ["example.com/hold"]})

CREATES = (
    case("a config map", create(CONFIGMAPS, configmap(data={"a": "b"})), get(C)),
    case(
        "the name is taken",
        create(CONFIGMAPS, configmap()),
        create(CONFIGMAPS, configmap(data={"a": "b"})),
        get(C),
    ),
    case("a generated name", create(CONFIGMAPS, configmap("", metadata={"generateName": "g-"}))),
    case("no name at all", create(CONFIGMAPS, configmap(""))),
    case("an upper-case name", create(CONFIGMAPS, configmap("Upper_Case"))),
    case("a name that is too long", create(CONFIGMAPS, configmap("x" * 254))),
    case(
        "a namespace that is not there", create("/api/v1/namespaces/none/configmaps", configmap())
    ),
    case("another namespace", create(CONFIGMAPS, configmap(metadata={"namespace": "other"}))),
    case("a dry run", create(CONFIGMAPS, configmap(), query={"dryRun": "All"}), get(C)),
    case("a dry run of a kind unknown", create(CONFIGMAPS, configmap(), query={"dryRun": "Some"})),
    case(
        "with a resourceVersion", create(CONFIGMAPS, configmap(metadata={"resourceVersion": "5"}))
    ),
    case("with a uid of its own", create(CONFIGMAPS, configmap(metadata={"uid": "x"}))),
    case("bad label", create(CONFIGMAPS, configmap(metadata={"labels": {"a b": "c"}}))),
    case("bad label value", create(CONFIGMAPS, configmap(metadata={"labels": {"a": "-"}}))),
    case("bad annotation", create(CONFIGMAPS, configmap(metadata={"annotations": {"a b": "c"}}))),
    case("bad finalizer", create(CONFIGMAPS, configmap(metadata={"finalizers": ["x y"]}))),
    case("bad data key", create(CONFIGMAPS, configmap(data={"a/b": "c"}))),
    case(
        "an owner without a uid",
        create(
            CONFIGMAPS,
            configmap(
                metadata={"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}
            ),
        ),
    ),
    case(
        "two controllers",
        create(
            CONFIGMAPS,
            configmap(
                metadata={
                    "ownerReferences": [
                        {
                            "apiVersion": "v1",
                            "kind": "Pod",
                            "name": name,
                            "uid": name,
                            "controller": True,
                        }
                        for name in ("p", "q")
                    ]
                }
            ),
        ),
    ),
    case("a secret", create(SECRETS, obj("v1", "Secret", "k", stringData={"a": "b"}))),
    case("a secret that is not base64", create(SECRETS, obj("v1", "Secret", "k", data={"a": "%"}))),
    case(
        "a TLS secret without its key",
        create(SECRETS, obj("v1", "Secret", "k", type="kubernetes.io/tls", data={"tls.crt": ""})),
    ),
    case("a service account", create(f"{CORE}/serviceaccounts", obj("v1", "ServiceAccount", "r"))),
    case("a pod with defaults", create(PODS, pod()), get(f"{PODS}/p")),
    case("a pod without containers", create(PODS, pod(containers=[]))),
    case("a pod without an image", create(PODS, pod(containers=[{"name": "web"}]))),
    case("a pod with a bad name", create(PODS, pod("Bad"))),
    case(
        "a lease",
        create(
            LEASES,
            obj(
                "coordination.k8s.io/v1",
                "Lease",
                "l",
                spec={"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 1},
            ),
        ),
        merge(f"{LEASES}/l", {"spec": {"renewTime": "2026-01-02T03:04:05.123456Z"}}),
    ),
    case(
        "a lease with a negative duration",
        create(
            LEASES, obj("coordination.k8s.io/v1", "Lease", "l", spec={"leaseDurationSeconds": -1})
        ),
    ),
    case("a namespace", create("/api/v1/namespaces", obj("v1", "Namespace", "$ns-b"))),
    case("a bad namespace", create("/api/v1/namespaces", obj("v1", "Namespace", "a.b"))),
)

READS = (
    case("nothing there", get(C)),
    case("a kind unknown", get(f"{CORE}/ships")),
    case("a group unknown", get("/apis/none.example.com/v1/ships")),
    case("a version unknown", get("/apis/apps/v9/deployments")),
    case("a path unknown", get("/nonsense")),
    case("as a table", create(CONFIGMAPS, configmap()), get(C, accept=TABLE)),
    case("a list as a table", create(CONFIGMAPS, configmap()), get(CONFIGMAPS, accept=TABLE)),
    case("an empty list as a table", get(CONFIGMAPS, accept=TABLE)),
    case(
        "a table with objects",
        create(CONFIGMAPS, configmap(data={"a": "b"})),
        get(CONFIGMAPS, accept=TABLE, query={"includeObject": "Object"}),
    ),
    case(
        "a table without objects",
        create(CONFIGMAPS, configmap()),
        get(CONFIGMAPS, accept=TABLE, query={"includeObject": "None"}),
    ),
    case("metadata alone", create(CONFIGMAPS, configmap(data={"a": "b"})), get(C, accept=METADATA)),
    case(
        "a list of metadata",
        create(CONFIGMAPS, configmap(data={"a": "b"})),
        get(CONFIGMAPS, accept=METADATA_LIST),
    ),
    case("an empty list", get(CONFIGMAPS)),
    case(
        "a list from the cache",
        create(CONFIGMAPS, configmap(), save=RV),
        get(CONFIGMAPS, query={"resourceVersion": "$rv"}, setup=True),  # the cache has it then
        get(C, query={"resourceVersion": "0"}),
    ),
    case("a version from the future", get(CONFIGMAPS, query={"resourceVersion": "9999999999"})),
    case("a version that is none", get(CONFIGMAPS, query={"resourceVersion": "abc"})),
    case(
        "exactly one version",
        create(CONFIGMAPS, configmap(), save=RV),
        create(CONFIGMAPS, configmap("later")),
        get(CONFIGMAPS, query={"resourceVersion": "$rv", "resourceVersionMatch": "Exact"}),
    ),
    case("match without version", get(CONFIGMAPS, query={"resourceVersionMatch": "Exact"})),
    case(
        "match of a kind unknown",
        get(CONFIGMAPS, query={"resourceVersion": "1", "resourceVersionMatch": "Newer"}),
    ),
)

PAGES = (
    case(
        "pages of one consistent list",
        *(create(CONFIGMAPS, configmap(name)) for name in "abcde"),
        get(CONFIGMAPS, query={"limit": "2"}, save={"next": "metadata.continue"}),
        create(CONFIGMAPS, configmap("aa")),
        get(
            CONFIGMAPS,
            query={"limit": "2", "continue": "$next"},
            save={"next": "metadata.continue"},
        ),
        get(CONFIGMAPS, query={"limit": "2", "continue": "$next"}),
    ),
    case(
        "a table in pages",
        *(create(CONFIGMAPS, configmap(name)) for name in "abc"),
        get(CONFIGMAPS, query={"limit": "2"}, accept=TABLE),
    ),
    case("a continue token that is none", get(CONFIGMAPS, query={"continue": "abc"})),
    case("a limit that is none", get(CONFIGMAPS, query={"limit": "x"})),
    case(
        "a continue token with a version",
        create(CONFIGMAPS, configmap("a")),
        create(CONFIGMAPS, configmap("b")),
        get(CONFIGMAPS, query={"limit": "1"}, save={"next": "metadata.continue"}),
        get(CONFIGMAPS, query={"limit": "1", "continue": "$next", "resourceVersion": "1"}),
    ),
)

UPDATES = (
    case(
        "a current version",
        create(CONFIGMAPS, configmap(), save=RV),
        put(C, configmap(metadata={"resourceVersion": "$rv"}, data={"a": "b"})),
    ),
    case(
        "a stale version",
        create(CONFIGMAPS, configmap(), save=RV),
        put(C, configmap(data={"a": "b"})),
        put(C, configmap(metadata={"resourceVersion": "$rv"}, data={"a": "c"})),
        get(C),
    ),
    case("no version", create(CONFIGMAPS, configmap()), put(C, configmap(data={"a": "b"}))),
    case(
        "a version that is no number",
        create(CONFIGMAPS, configmap()),
        put(C, configmap(metadata={"resourceVersion": "x"})),
    ),
    case("nothing to update", put(C, configmap())),
    case("another name", create(CONFIGMAPS, configmap()), put(C, configmap("other"))),
    case("no name", create(CONFIGMAPS, configmap()), put(C, configmap(""))),
    case("another kind", create(CONFIGMAPS, configmap()), put(C, obj("v1", "Secret", "c"))),
    case(
        "another uid",
        create(CONFIGMAPS, configmap()),
        put(C, configmap(metadata={"uid": "11111111-2222-3333-4444-555555555555"})),
    ),
    case(
        "the creation time is not changed",
        create(CONFIGMAPS, configmap()),
        put(C, configmap(metadata={"creationTimestamp": "2001-01-01T00:00:00Z"})),
    ),
    case("the same again", create(CONFIGMAPS, configmap()), put(C, configmap()), get(C)),
    case(
        "an immutable config map",
        create(CONFIGMAPS, configmap(immutable=True, data={"a": "b"})),
        put(C, configmap(immutable=True, data={"a": "c"})),
        put(C, configmap(immutable=False, data={"a": "b"})),
    ),
    case(
        "a dry run",
        create(CONFIGMAPS, configmap()),
        put(C, configmap(data={"a": "b"}), query={"dryRun": "All"}),
        get(C),
    ),
)

DELETES = (
    case("gone at once", create(CONFIGMAPS, configmap()), delete(C), get(C)),
    case("nothing to delete", delete(C)),
    case(
        "held by a finalizer",
        create(CONFIGMAPS, FINALIZED),
        delete(C),
        get(C),
        delete(C),
        merge(C, {"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}}),
        merge(C, {"data": {"a": "b"}}),
        merge(C, {"metadata": {"finalizers": None}}),
        get(C),
    ),
    case(
        "a finalizer that is removed by an update",
        create(CONFIGMAPS, FINALIZED),
        delete(C),
        put(C, configmap()),
        get(C),
    ),
    case(
        "preconditions that hold",
        create(CONFIGMAPS, configmap(), save=RV | UID),
        delete(C, {"preconditions": {"uid": "$uid", "resourceVersion": "$rv"}}),
        get(C),
    ),
    case(
        "another uid",
        create(CONFIGMAPS, configmap()),
        delete(C, {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}),
    ),
    case(
        "another version",
        create(CONFIGMAPS, configmap()),
        delete(C, {"preconditions": {"resourceVersion": "1"}}),
    ),
    case(
        "in the foreground",
        create(CONFIGMAPS, configmap()),
        delete(C, {"propagationPolicy": "Foreground"}),
        get(C),
    ),
    case(
        "orphaning",
        create(CONFIGMAPS, configmap()),
        delete(C, query={"propagationPolicy": "Orphan"}),
        get(C),
    ),
    case(
        "in the background",
        create(CONFIGMAPS, configmap()),
        delete(C, query={"propagationPolicy": "Background"}),
        get(C),
    ),
    case(
        "by a policy unknown",
        create(CONFIGMAPS, configmap()),
        delete(C, {"propagationPolicy": "Sideways"}),
    ),
    case(
        "with both ways of orphaning",
        create(CONFIGMAPS, configmap()),
        delete(C, {"propagationPolicy": "Orphan", "orphanDependents": True}),
    ),
    case("a dry run", create(CONFIGMAPS, configmap()), delete(C, query={"dryRun": "All"}), get(C)),
    case("options of a wrong kind", create(CONFIGMAPS, configmap()), delete(C, configmap())),
    case(
        "a collection by label",
        create(CONFIGMAPS, configmap("a", metadata={"labels": {"x": "1"}})),
        create(CONFIGMAPS, configmap("b")),
        delete(CONFIGMAPS, query={"labelSelector": "x=1"}),
        get(CONFIGMAPS),
    ),
    case("an empty collection", delete(CONFIGMAPS)),
    case("a collection that cannot be", delete("/api/v1/namespaces")),
    case("a pod that never ran", create(PODS, pod()), delete(f"{PODS}/p"), get(f"{PODS}/p")),
    case(
        "a pod on a node",
        create(PODS, pod(nodeName="n")),
        delete(f"{PODS}/p", query={"gracePeriodSeconds": "7"}),
        delete(f"{PODS}/p", query={"gracePeriodSeconds": "3"}),
        delete(f"{PODS}/p", query={"gracePeriodSeconds": "0"}),
        get(f"{PODS}/p"),
    ),
)


CASES = [
    *grouped("create", CREATES),
    *grouped("read", READS),
    *grouped("page", PAGES),
    *grouped("update", UPDATES),
    *grouped("delete", DELETES),
]
