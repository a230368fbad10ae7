"""Selectors and watches."""

from tests.differential.cases import (
    CONFIGMAPS,
    CORE,
    PODS,
    RV,
    TABLE,
    case,
    configmap,
    create,
    delete,
    get,
    grouped,
    merge,
    pod,
    watch,
)

C = f"{CONFIGMAPS}/c"
LABELLED = tuple(
    create(CONFIGMAPS, configmap(name, metadata={"labels": labels}), setup=True)
    for name, labels in {
        "a": {"app": "web", "tier": "1"},
        "b": {"app": "db"},
        "d": {"tier": "2"},
        "n": {},
    }.items()
)
SELECTORS = [
    "app=web",
    "app==web",
    "app!=web",
    "app",
    "!app",
    "app in (web,db)",
    "app notin (web)",
    "tier>1",
    "tier<2",
    "app=web,tier=1",
    "app = web , tier in ( 1 )",
    "",
    "app=",
    "app in ()",
    "=web",
    "app in (web",
    "app=web,",
    "a b",
    "app>x",
    "-x=1",
    "example.com/x=1",
]
FIELDS = [
    "metadata.name=a",
    "metadata.name!=a",
    "metadata.namespace=$ns",
    "metadata.name=a,metadata.name=b",
    "metadata.uid=x",
    "data.a=b",
    "metadata.name",
    "=a",
]
POD_FIELDS = [
    "spec.nodeName=n",
    "spec.nodeName=",
    "status.phase=Pending",
    "status.phase!=Pending",
    "spec.restartPolicy=Always",
    "status.podIP=",
    "spec.image=x",
]

SELECTIONS = (
    *(
        case(f"labels {text!r}", *LABELLED, get(CONFIGMAPS, query={"labelSelector": text}))
        for text in SELECTORS
    ),
    *(
        case(f"fields {text!r}", *LABELLED, get(CONFIGMAPS, query={"fieldSelector": text}))
        for text in FIELDS
    ),
    *(
        case(
            f"pods by {text!r}",
            create(PODS, pod("q", nodeName="n")),
            create(PODS, pod()),
            get(PODS, query={"fieldSelector": text}),
        )
        for text in POD_FIELDS
    ),
)

START = create(CONFIGMAPS, configmap("zero"), save=RV)
WATCHES = (
    case("what is there comes first", create(CONFIGMAPS, configmap()), watch(CONFIGMAPS)),
    case(
        "every change since a version",
        START,
        create(CONFIGMAPS, configmap()),
        merge(C, {"data": {"a": "b"}}),
        delete(C),
        watch(CONFIGMAPS, resourceVersion="$rv"),
    ),
    case(
        "objects that begin and cease to match",
        START,
        create(CONFIGMAPS, configmap()),
        merge(C, {"metadata": {"labels": {"x": "1"}}}),
        merge(C, {"metadata": {"labels": {"x": None}}}),
        delete(C),
        watch(CONFIGMAPS, resourceVersion="$rv", labelSelector="x=1"),
    ),
    case(
        "one object by name",
        START,
        create(CONFIGMAPS, configmap()),
        watch(CONFIGMAPS, resourceVersion="$rv", fieldSelector="metadata.name=c"),
    ),
    case(
        "initial events and their end",
        create(CONFIGMAPS, configmap()),
        watch(
            CONFIGMAPS,
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
        ),
    ),
    case("initial events without a match", watch(CONFIGMAPS, sendInitialEvents="true")),
    case("a match without initial events", watch(CONFIGMAPS, resourceVersionMatch="NotOlderThan")),
    case("a version that is none", watch(CONFIGMAPS, resourceVersion="abc")),
    case("a kind unknown", watch(f"{CORE}/ships")),
    case("a bad selector", watch(CONFIGMAPS, labelSelector="a b")),
    case(
        "as a table",
        START,
        create(CONFIGMAPS, configmap()),
        delete(C),
        watch(CONFIGMAPS, accept=TABLE, resourceVersion="$rv"),
    ),
    case(
        "initial events as a table",
        create(CONFIGMAPS, configmap()),
        watch(
            CONFIGMAPS,
            accept=TABLE,
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
        ),
    ),
    case(
        "a deletion that waits for a finalizer",
        START,
        create(CONFIGMAPS, configmap(metadata={"finalizers": ["a.b/c"]})),
        delete(C),
        merge(C, {"metadata": {"finalizers": []}}),
        watch(CONFIGMAPS, resourceVersion="$rv"),
    ),
)


CASES = [*grouped("select", SELECTIONS), *grouped("watch", WATCHES)]
