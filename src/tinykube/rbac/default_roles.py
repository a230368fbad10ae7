"""The ClusterRoles and ClusterRoleBindings that every new cluster has, as far as people use them.

The roles of Kubernetes' own controllers are left out: embedded controllers need none.
"""

from msgspec import Struct

from tinykube.resources import Object

_METADATA: Object = {
    "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
    "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
}
_VERBS = {
    "read": ("get", "list", "watch"),
    "write": ("create", "delete", "deletecollection", "patch", "update"),
    "all": ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-{}"


def _rules(text: str) -> list[Object]:
    """Rules from lines of verbs, API groups and resources, with `|` between them.

    `read` and `write` stand for several verbs, `all` for those of both (not for `*`), `core` for
    the unnamed group.
    """
    rules: list[Object] = []
    for line in text.strip().splitlines():
        verbs, groups, resources = (part.split() for part in line.split("|"))
        rules.append(
            {
                "verbs": [one for verb in verbs for one in _VERBS.get(verb, (verb,))],
                "apiGroups": ["" if group == "core" else group for group in groups],
                "resources": resources,
            }
        )
    return rules


_VIEW = _rules("""
read | core | configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods
read | core | replicationcontrollers replicationcontrollers/scale serviceaccounts services
read | core | services/status
read | core | bindings limitranges namespaces/status pods/log pods/status
read | core | replicationcontrollers/status resourcequotas resourcequotas/status
read | core | namespaces
read | core events.k8s.io | events
read | discovery.k8s.io | endpointslices
read | apps | controllerrevisions daemonsets daemonsets/status deployments deployments/scale
read | apps | deployments/status replicasets replicasets/scale replicasets/status statefulsets
read | apps | statefulsets/scale statefulsets/status
read | autoscaling | horizontalpodautoscalers horizontalpodautoscalers/status
read | batch | cronjobs cronjobs/status jobs jobs/status
read | extensions | daemonsets daemonsets/status deployments deployments/scale
read | extensions | deployments/status ingresses ingresses/status networkpolicies replicasets
read | extensions | replicasets/scale replicasets/status replicationcontrollers/scale
read | policy | poddisruptionbudgets poddisruptionbudgets/status
read | networking.k8s.io | ingresses ingresses/status networkpolicies
read | resource.k8s.io | resourceclaims resourceclaims/status resourceclaimtemplates
""")
_EDIT = _rules("""
read | core | pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy
impersonate | core | serviceaccounts
write | core | pods pods/attach pods/exec pods/portforward pods/proxy
create | core | pods/eviction
write | core | configmaps persistentvolumeclaims replicationcontrollers
write | core | replicationcontrollers/scale secrets serviceaccounts services services/proxy
create | core | serviceaccounts/token
write | core events.k8s.io | events
write | apps | daemonsets deployments deployments/rollback deployments/scale replicasets
write | apps | replicasets/scale statefulsets statefulsets/scale
write | autoscaling | horizontalpodautoscalers
write | batch | cronjobs jobs
write | extensions | daemonsets deployments deployments/rollback deployments/scale ingresses
write | extensions | networkpolicies replicasets replicasets/scale replicationcontrollers/scale
write | policy | poddisruptionbudgets
write | networking.k8s.io | ingresses networkpolicies
all | coordination.k8s.io | leases
write | resource.k8s.io | resourceclaims resourceclaimtemplates
""")

_ADMIN = _rules("""
create | authorization.k8s.io | localsubjectaccessreviews
all | rbac.authorization.k8s.io | rolebindings roles
""")

_BASIC_USER = _rules("""
create | authorization.k8s.io | selfsubjectaccessreviews selfsubjectrulesreviews
create | authentication.k8s.io | selfsubjectreviews
""")


class DefaultRole(Struct, frozen=True):
    """A ClusterRole, the label that aggregates it, the label it aggregates, and its groups."""

    name: str
    rules: list[Object]
    aggregated_to: str = ""
    aggregates: str = ""
    groups: tuple[str, ...] = ()

    @property
    def metadata(self) -> Object:
        """The metadata of the role, and of its binding."""
        labels = dict(_METADATA["labels"])
        if self.aggregated_to:
            labels[_AGGREGATE.format(self.aggregated_to)] = "true"
        return {"name": self.name, "labels": labels, "annotations": _METADATA["annotations"]}

    @property
    def fields(self) -> Object:
        """The fields of the role besides its metadata."""
        if not self.aggregates:
            return {"rules": self.rules}
        labels = {_AGGREGATE.format(self.aggregates): "true"}
        rule = {"clusterRoleSelectors": [{"matchLabels": labels}]}
        return {"rules": self.rules, "aggregationRule": rule}

    @property
    def binding(self) -> Object | None:
        """The fields of the ClusterRoleBinding besides its metadata; None if there is none."""
        if not self.groups:
            return None
        group = "rbac.authorization.k8s.io"
        subjects = [{"kind": "Group", "apiGroup": group, "name": name} for name in self.groups]
        reference = {"apiGroup": group, "kind": "ClusterRole", "name": self.name}
        return {"subjects": subjects, "roleRef": reference}


def _get_rule(*paths: str) -> list[Object]:
    """The rule that allows `get` of these non-resource paths, in a list."""
    return [{"verbs": ["get"], "nonResourceURLs": list(paths)}]


_EVERYTHING: list[Object] = [
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
]
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_PUBLIC)
_ISSUER = ("/.well-known/openid-configuration", "/openid/v1/jwks")
_AUTHENTICATED = "system:authenticated"

DEFAULT_ROLES = (
    DefaultRole("cluster-admin", _EVERYTHING, groups=("system:masters",)),
    # with the rules that the aggregation controller would give them
    DefaultRole("admin", [*_EDIT, *_VIEW, *_ADMIN], aggregates="admin"),
    DefaultRole("edit", [*_EDIT, *_VIEW], aggregates="edit", aggregated_to="admin"),
    DefaultRole("view", _VIEW, aggregates="view", aggregated_to="edit"),
    DefaultRole("system:aggregate-to-admin", _ADMIN, aggregated_to="admin"),
    DefaultRole("system:aggregate-to-edit", _EDIT, aggregated_to="edit"),
    DefaultRole("system:aggregate-to-view", _VIEW, aggregated_to="view"),
    DefaultRole("system:basic-user", _BASIC_USER, groups=(_AUTHENTICATED,)),
    DefaultRole("system:discovery", _get_rule(*sorted(_DISCOVERY)), groups=(_AUTHENTICATED,)),
    DefaultRole(
        "system:public-info-viewer",
        _get_rule(*_PUBLIC),
        groups=(_AUTHENTICATED, "system:unauthenticated"),
    ),
    DefaultRole(
        "system:service-account-issuer-discovery",
        _get_rule(*(form for path in _ISSUER for form in (path, f"{path}/"))),
        groups=("system:serviceaccounts",),
    ),
)
