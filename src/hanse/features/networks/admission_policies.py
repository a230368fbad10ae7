"""ValidatingAdmissionPolicies: restrictions of tenants that hold without a running agent."""

from collections.abc import Iterator

from hanse.features.networks.admission import SYSTEM_USERS, TENANT_NAMESPACES
from hanse.features.networks.names import (
    CNI_ARGS,
    DIGEST_LENGTH,
    DNS,
    FEATURE_DOMAIN,
    GROUP,
    MAX_NAME_LENGTH,
    NETWORK,
    READINESS,
    TENANT,
    NetworkName,
)
from hanse.features.networks.options import NetworksOptions
from hanse.model.kinds.admission import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from hanse.model.kinds.discovery import KUBE_SERVICE
from hanse.model.objects import Meta, Object, Wire
from hanse.model.ownership import OWNER

MANAGED_RESOURCES = (
    ("", ("services", "endpoints", "configmaps", "serviceaccounts")),
    ("discovery.k8s.io", ("endpointslices",)),
    ("apps", ("deployments",)),
    ("networking.k8s.io", ("networkpolicies",)),
    ("policy", ("poddisruptionbudgets",)),
    ("rbac.authorization.k8s.io", ("roles", "rolebindings")),
)
"""Resources that Hanse writes in namespaces of tenants."""

_WITH_STATUS = ("services", "deployments", "poddisruptionbudgets")
"""Those whose labels change with their status, too."""

_NAMES = (
    *("tenants", "kept", "pools", "pods", "bindings", "services", "reserved", "platform"),
    "subnets",
)
TENANTS, KEPT, POOLS, PODS, BINDINGS, SERVICES, RESERVED, PLATFORM, SUBNETS = POLICIES = tuple(
    f"{FEATURE_DOMAIN}-{name}" for name in _NAMES
)
"""The names of these policies and of their bindings, by which they are watched."""

POD_SECURITY = "pod-security.kubernetes.io/enforce"

_NAMESPACES = ("namespaces", "namespaces/status", "namespaces/finalize")
"""All that change labels of a namespace."""

GUARD_LABELS = {f"{FEATURE_DOMAIN}/guard": "true"}
"""Label of these policies."""


def tenant_admission_policies(options: NetworksOptions) -> Iterator[Object]:
    """The admission policies and their bindings for all tenants.

    Without those of address pools and of providers' subnets, which follow the networks.
    """
    trusted = trusted_expression(options)
    old = f"(request.operation == 'CREATE' ? '' : {label('oldObject', TENANT)})"
    changed = f"{label('object', TENANT)} != {old}"
    yield from policy_and_binding(
        TENANTS,
        {"resourceRules": [resource_rule("", _NAMESPACES, ("CREATE", "UPDATE"))]},
        [
            validation(
                f"!({changed}) || {trusted}",
                f"'label {TENANT}: only administrators say whose a namespace is'",
            ),
            validation(
                f"request.operation == 'CREATE' || {label('oldObject', TENANT)} == '' || "
                f"{label('object', POD_SECURITY)} == {label('oldObject', POD_SECURITY)} || "
                f"{trusted}",
                f"'label {POD_SECURITY}: only administrators say what pods of tenants may do'",
            ),
        ],
    )
    yield from _member_policies(trusted)
    yield from policy_and_binding(
        KEPT,
        {
            "resourceRules": [
                resource_rule(
                    group,
                    (*resources, *(f"{r}/status" for r in resources if r in _WITH_STATUS)),
                    ("CREATE", "UPDATE", "DELETE"),
                )
                for group, resources in MANAGED_RESOURCES
            ],
            "namespaceSelector": TENANT_NAMESPACES,
            "objectSelector": {"matchExpressions": [{"key": OWNER, "operator": "Exists"}]},
        },
        [
            validation(
                trusted,
                "(has(request.name) ? request.name : 'one of them') + "  # none for a collection
                "' is kept by Hanse for the network; tenants cannot make, change or delete it'",
            )
        ],
    )


def _member_policies(trusted: str) -> Iterator[Object]:
    """The policies on pods, bindings, Services, reserved names and platform objects of tenants.

    Each with its binding. `trusted` is the CEL expression for requesters that most rules exempt.
    """
    own = f"{label('object', TENANT)} in ['', {label('namespaceObject', TENANT)}]"
    whose = validation(own, f"'label {TENANT}: the namespace is another tenant\\'s'")
    same = " && ".join(
        f"{label('object', name)} == {label('oldObject', name)}"
        for name in (TENANT, NETWORK, DNS, OWNER)
    )
    noted = " && ".join(
        f"{label('object', name, 'annotations')} == {label('oldObject', name, 'annotations')}"
        for name in (CNI_ARGS, READINESS)
    )
    kept = validation(
        f"request.operation == 'CREATE' || ({same}) || {trusted}",
        f"'labels {TENANT}, {NETWORK} and {DNS} cannot be changed; create ' + request.name + "
        "' anew'",
    )
    observed = " && ".join(
        f"{_status_list('object', field)} == {_status_list('oldObject', field)}"
        for field in ("podIP", "podIPs", "phase")
    )
    host = "has(object.spec.hostNetwork) && object.spec.hostNetwork"
    nodes = f"has({_GROUPS}) && 'system:nodes' in {_GROUPS}"
    pods = ("pods", "pods/status", "pods/ephemeralcontainers", "pods/resize")
    yield from policy_and_binding(
        PODS,
        _match_in_tenants(resource_rule("", pods, ("CREATE", "UPDATE"))),
        [
            kept,
            whose,
            validation(
                f"request.operation != 'CREATE' || !({host}) || ({nodes})",
                "'spec.hostNetwork: pods of tenants have an address of their own; remove it'",
            ),
            validation(
                f"{label('namespaceObject', POD_SECURITY)} != '' || !({_host_access()}) || "
                f"({nodes})",
                f"'privileged containers, capabilities, and paths, ports and processes of nodes: "
                f"an administrator can allow them by label {POD_SECURITY} of the namespace'",
            ),
            validation(
                f"request.operation != 'CREATE' || {label('object', DNS)} == '' || {trusted}",
                f"'label {DNS}: it marks a network\\'s DNS; remove it'",
            ),
            validation(
                f"request.operation == 'CREATE' || ({noted}) && {_gate_stays()} || {trusted}",
                f"'{CNI_ARGS} and gate {READINESS}: a network\\'s provider sets them; they cannot "
                "be changed'",
            ),
            validation(
                f"!has(request.subResource) || request.subResource != 'status' || ({observed}) || "
                f"{trusted}",
                "'status: a node says which addresses a pod has, and whether it runs'",
            ),
        ],
    )
    foreign = " && ".join(
        f"(!has(object.metadata.{kind}) || "
        f"object.metadata.{kind}.all(k, !k.startsWith('{GROUP}/')))"
        for kind in ("labels", "annotations")
    )
    yield from policy_and_binding(
        BINDINGS,
        _match_in_tenants(resource_rule("", ("bindings", "pods/binding"), ("CREATE",))),
        [
            validation(
                f"({foreign}) || {trusted}",
                f"'labels and annotations {GROUP}/*: a pod gets none with its node'",
            )
        ],
    )
    before = "(request.operation != 'CREATE' && has(oldObject.spec.externalIPs) ? "
    before += "oldObject.spec.externalIPs : [])"
    yield from policy_and_binding(
        SERVICES,
        _match_in_tenants(resource_rule("", ("services", "services/status"), ("CREATE", "UPDATE"))),
        [
            kept,
            whose,
            validation(
                f"!has(object.spec.externalIPs) || object.spec.externalIPs.all(a, a in {before}) "
                f"|| {trusted}",
                "'spec.externalIPs: they are not for tenants; use type LoadBalancer'",
            ),
            validation(
                f"!has(request.subResource) || request.subResource != 'status' || {trusted}",
                "'status: load balancers write it'",
            ),
        ],
    )
    yield from policy_and_binding(
        RESERVED, _match_in_tenants(*_reserved_rules()), [_reserved_names_validation(trusted)]
    )
    yield from policy_and_binding(
        PLATFORM,
        {"resourceRules": [resource_rule(GROUP, _PLATFORM_RESOURCES, ("*",))]},
        [validation(trusted, "request.resource.resource + ' are not for tenants to write'")],
    )


_PLATFORM_RESOURCES = (
    *("tenants", "tenants/status", "networks/status", "networkpeerings/status"),
    *("networkports", "networkaccesses"),
)
_GROUPS = "request.userInfo.groups"


def _reserved_rules() -> Iterator[Wire]:
    """Resource rules for creates and updates of the kinds that Hanse writes in tenants' namespaces.

    One for each API group.
    """
    for group, resources in MANAGED_RESOURCES:
        yield resource_rule(group, resources, ("CREATE", "UPDATE"))


def _reserved_names_validation(trusted: str) -> Wire:
    """The validation that only trusted users take the names of a network's DNS and API alias.

    By name, generateName and the Service of a slice. Objects with our owner label pass it: policy
    `KEPT` is about those.
    """
    names = [
        "(has(object.metadata.name) ? object.metadata.name : '')",
        "(has(object.metadata.generateName) ? object.metadata.generateName : '')",
        label("object", KUBE_SERVICE),
    ]
    dns, alias = (
        " || ".join(f"{name}.startsWith('{prefix}')" for name in names)
        for prefix in ("kube-dns-", "kubernetes-")
    )
    taken = f"{dns} || (({_is_alias_namespace()}) && ({alias}))"
    return validation(
        f"!({taken}) || {label('object', OWNER)} != '' || {trusted}",  # those are `KEPT`
        "'names kube-dns-* and kubernetes-* are for the DNS and the API server of networks; "
        "choose another'",
    )


def _is_alias_namespace() -> str:
    """A CEL expression: whether a namespace can be the `alias_namespace` of its tenant's networks.

    If that name is too long, all namespaces of the tenant whose names are shortened count: CEL has
    no hashes.
    """
    name, tenant = "namespaceObject.metadata.name", label("namespaceObject", TENANT)
    suffix = NetworkName("").alias_namespace
    longest, cut = MAX_NAME_LENGTH - len(suffix), DIGEST_LENGTH + 1
    return (
        f"size({tenant}) > {longest} ? {name}.matches('-[0-9a-f]{{{DIGEST_LENGTH}}}$') && "
        f"{tenant}.startsWith({name}.substring(0, size({name}) - {cut})) : "
        f"{name} == {tenant} + '{suffix}'"
    )


def _match_in_tenants(*rules: Wire) -> Wire:
    """The matchConstraints of these resource rules in namespaces of tenants."""
    return {"resourceRules": list(rules), "namespaceSelector": TENANT_NAMESPACES}


_CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "SETFCAP"),
    *("NET_BIND_SERVICE", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
"""Capabilities that the Pod Security level baseline lets containers add."""


def _host_access() -> str:
    """A CEL expression: whether a pod uses the node's namespaces, paths, ports or privileges.

    With these it could change the rules of the guard on its node.
    """
    security = "has(c.securityContext) && has(c.securityContext.{0}) && c.securityContext.{0}"
    added = "has(c.securityContext) && has(c.securityContext.capabilities) && "
    added += "has(c.securityContext.capabilities.add) && "
    added += f"c.securityContext.capabilities.add.exists(n, !(n in {list(_CAPABILITIES)}))"
    ports = "has(c.ports) && c.ports.exists(p, has(p.hostPort) && p.hostPort != 0)"
    unsafe = f"({security.format('privileged')}) || ({added}) || ({ports})"
    containers = (
        f"(has(object.spec.{name}) && object.spec.{name}.exists(c, {unsafe}))"
        for name in ("containers", "initContainers", "ephemeralContainers")
    )
    shared = (f"(has(object.spec.{name}) && object.spec.{name})" for name in ("hostPID", "hostIPC"))
    paths = "(has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.hostPath)))"
    return " || ".join((*shared, paths, *containers))


def _gate_stays() -> str:
    """A CEL expression: whether an update keeps the scheduling gate, if the old pod has it."""
    before, after = (
        f"(has({side}.spec.schedulingGates) && "
        f"{side}.spec.schedulingGates.exists(g, g.name == '{READINESS}'))"
        for side in ("oldObject", "object")
    )
    return f"(!{before} || {after})"


def label(side: str, name: str, kind: str = "labels") -> str:
    """A CEL expression: the value of a label (or of `kind`), or an empty text without it."""
    labels = f"{side}.metadata.{kind}"
    return f"(has({labels}) && '{name}' in {labels} ? {labels}['{name}'] : '')"


def _status_list(side: str, field: str) -> str:
    """A CEL expression: a list with a field of the status, or an empty list without it."""
    status = f"{side}.status"
    return f"(has({status}) && has({status}.{field}) ? [{status}.{field}] : [])"


def trusted_expression(options: NetworksOptions) -> str:
    """A CEL expression: whether the user is an agent, system component or administrator.

    These are the users and groups of the options, and the system's own users.
    """
    users = ", ".join(f"'{user}'" for user in (*options.agents, *SYSTEM_USERS))
    groups = ", ".join(f"'{group}'" for group in options.admins)
    return (
        f"(request.userInfo.username in [{users}] || "
        f"(has(request.userInfo.groups) && request.userInfo.groups.exists(g, g in [{groups}])))"
    )


def resource_rule(group: str, resources: tuple[str, ...], operations: tuple[str, ...]) -> Wire:
    """A resource rule of matchConstraints, for all versions of one API group.

    An empty group is the core group.
    """
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": list(resources),
    }


def validation(expression: str, message: str) -> Wire:
    """A validation with reason Forbidden: a request is denied where the expression is false.

    Both are CEL expressions, the message too.
    """
    return {"expression": expression, "messageExpression": message, "reason": "Forbidden"}


def policy_and_binding(name: str, matches: Wire, validations: list[Wire]) -> Iterator[Object]:
    """A ValidatingAdmissionPolicy with these validations, and the binding that denies by it.

    Both have the same name. A request is also denied if a validation cannot be evaluated.
    """
    yield ValidatingAdmissionPolicy(
        metadata=Meta(name=name, labels=GUARD_LABELS),
        spec={
            "failurePolicy": "Fail",
            "matchConstraints": matches,
            "validations": validations,
        },
    )
    yield ValidatingAdmissionPolicyBinding(
        metadata=Meta(name=name, labels=GUARD_LABELS),
        spec={"policyName": name, "validationActions": ["Deny"]},
    )
