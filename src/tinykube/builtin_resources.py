"""The built-in resources that every cluster serves."""

from tinykube.resources import ALL_VERBS, Builtins, Resource, Subresource

_STATUS = "status"
_SCALE = Subresource("scale", "Scale", group="autoscaling", version="v1")
_CREATE = ("create",)
_ALL = ("all",)
_EXTENSIONS = ("api-extensions",)


def _resource(
    group: str,
    kind: str,
    plural: str,
    *subresources: Subresource | str,
    short: tuple[str, ...] = (),
    namespaced: bool = True,
    verbs: tuple[str, ...] = ALL_VERBS,
    categories: tuple[str, ...] = (),
    store: str = "",
) -> Resource:
    """A resource of version v1; a subresource that is given by name has the resource's kind.

    `short` are short names, such as "po"; `store` defaults to `plural.group`, without group to the
    plural.
    """
    given = (Subresource(sub, kind) if isinstance(sub, str) else sub for sub in subresources)
    return Resource(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        short_names=short,
        namespaced=namespaced,
        verbs=verbs,
        subresources=tuple(given),
        categories=categories,
        store=store or (f"{plural}.{group}" if group else plural),
        list_kind=f"{kind}List",
    )


def _cluster_resource(
    group: str,
    kind: str,
    plural: str,
    *subresources: Subresource | str,
    short: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    categories: tuple[str, ...] = (),
) -> Resource:
    """A cluster-scoped resource of version v1, stored as `plural.group`.

    A subresource that is given by name has the resource's kind; `short` are short names.
    """
    return _resource(
        group,
        kind,
        plural,
        *subresources,
        short=short,
        namespaced=False,
        verbs=verbs,
        categories=categories,
    )


_EVICTION = Subresource("eviction", "Eviction", _CREATE, "policy", "v1")
_TOKEN = Subresource("token", "TokenRequest", _CREATE, "authentication.k8s.io", "v1")
_BINDING = Subresource("binding", "Binding", _CREATE)
_FINALIZE = Subresource("finalize", "Namespace", ("update",))
_NO_COLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")

_CORE = (
    _resource("", "ConfigMap", "configmaps", short=("cm",)),
    _resource("", "Endpoints", "endpoints", short=("ep",)),
    _resource("", "Event", "events", short=("ev",)),
    _cluster_resource(
        "", "Namespace", "namespaces", _FINALIZE, _STATUS, short=("ns",), verbs=_NO_COLLECTION
    ),
    _cluster_resource("", "Node", "nodes", _STATUS, short=("no",)),
    _resource("", "PersistentVolumeClaim", "persistentvolumeclaims", _STATUS, short=("pvc",)),
    _cluster_resource("", "PersistentVolume", "persistentvolumes", _STATUS, short=("pv",)),
    _resource("", "Pod", "pods", _BINDING, _EVICTION, _STATUS, short=("po",), categories=_ALL),
    _resource("", "Secret", "secrets"),
    _resource("", "ServiceAccount", "serviceaccounts", _TOKEN, short=("sa",)),
    _resource("", "Service", "services", _STATUS, short=("svc",), categories=_ALL),
)

_APPS = (
    _resource("apps", "ControllerRevision", "controllerrevisions"),
    _resource("apps", "DaemonSet", "daemonsets", _STATUS, short=("ds",), categories=_ALL),
    _resource(
        "apps", "Deployment", "deployments", _SCALE, _STATUS, short=("deploy",), categories=_ALL
    ),
    _resource("apps", "ReplicaSet", "replicasets", _SCALE, _STATUS, short=("rs",), categories=_ALL),
    _resource(
        "apps", "StatefulSet", "statefulsets", _SCALE, _STATUS, short=("sts",), categories=_ALL
    ),
)

_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
_REVIEWS = (
    _cluster_resource(_AUTHENTICATION, "SelfSubjectReview", "selfsubjectreviews", verbs=_CREATE),
    _cluster_resource(_AUTHENTICATION, "TokenReview", "tokenreviews", verbs=_CREATE),
    _resource(
        _AUTHORIZATION, "LocalSubjectAccessReview", "localsubjectaccessreviews", verbs=_CREATE
    ),
    _cluster_resource(
        _AUTHORIZATION, "SelfSubjectAccessReview", "selfsubjectaccessreviews", verbs=_CREATE
    ),
    _cluster_resource(
        _AUTHORIZATION, "SelfSubjectRulesReview", "selfsubjectrulesreviews", verbs=_CREATE
    ),
    _cluster_resource(_AUTHORIZATION, "SubjectAccessReview", "subjectaccessreviews", verbs=_CREATE),
)

_NETWORKING = "networking.k8s.io"
_NETWORK = (
    _cluster_resource(_NETWORKING, "IngressClass", "ingressclasses"),
    _resource(_NETWORKING, "Ingress", "ingresses", _STATUS, short=("ing",)),
    _cluster_resource(_NETWORKING, "IPAddress", "ipaddresses", short=("ip",)),
    _resource(_NETWORKING, "NetworkPolicy", "networkpolicies", short=("netpol",)),
    _cluster_resource(_NETWORKING, "ServiceCIDR", "servicecidrs", _STATUS),
)

_RBAC_GROUP = "rbac.authorization.k8s.io"
_RBAC = (
    _cluster_resource(_RBAC_GROUP, "ClusterRoleBinding", "clusterrolebindings"),
    _cluster_resource(_RBAC_GROUP, "ClusterRole", "clusterroles"),
    _resource(_RBAC_GROUP, "RoleBinding", "rolebindings"),
    _resource(_RBAC_GROUP, "Role", "roles"),
)

_ADMISSION = "admissionregistration.k8s.io"
_EXTENSION = (
    _cluster_resource(
        _ADMISSION,
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        categories=_EXTENSIONS,
    ),
    _cluster_resource(
        _ADMISSION,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        _STATUS,
        categories=_EXTENSIONS,
    ),
    _cluster_resource(
        _ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        categories=_EXTENSIONS,
    ),
    _cluster_resource(
        _ADMISSION,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        categories=_EXTENSIONS,
    ),
    _cluster_resource(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        _STATUS,
        short=("crd", "crds"),
        categories=_EXTENSIONS,
    ),
)

BUILTINS = Builtins(
    (
        *_CORE,
        *_APPS,
        _resource("events.k8s.io", "Event", "events", short=("ev",), store="events"),
        *_REVIEWS,
        _resource("batch", "CronJob", "cronjobs", _STATUS, short=("cj",), categories=_ALL),
        _resource("batch", "Job", "jobs", _STATUS, categories=_ALL),
        *_NETWORK,
        _resource("policy", "PodDisruptionBudget", "poddisruptionbudgets", _STATUS, short=("pdb",)),
        *_RBAC,
        _cluster_resource("storage.k8s.io", "StorageClass", "storageclasses", short=("sc",)),
        *_EXTENSION,
        _cluster_resource("scheduling.k8s.io", "PriorityClass", "priorityclasses", short=("pc",)),
        _resource("coordination.k8s.io", "Lease", "leases"),
        _resource("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    )
)
"""The built-in resources, in the order of groups in discovery."""
