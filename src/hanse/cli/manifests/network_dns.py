"""The name server that tenant networks share: a Deployment, its account, and who may ask it."""

from hanse.app.shared_dns import SHARED_DNS_WATCHES
from hanse.cli.manifests.value_source import ChartFile, Condition, ValueSource
from hanse.cli.manifests.workloads import (
    DNS_PROTOCOLS,
    METRICS_PORT,
    disruption_budget,
    labels_of,
    make_deployment,
    make_object,
    make_service,
    name_server_container,
    name_server_environment,
    name_server_volumes,
)
from hanse.features.networks.dns_server import PORT, UNPRIVILEGED_PORTS
from hanse.features.networks.names import SHARED_DNS, TENANT
from hanse.model.facts import Role
from hanse.model.manifests import (
    SERVICE_ACCOUNT,
    Subject,
    binding_manifests,
    manifest,
    role_manifests,
)
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.objects import Wire
from hanse.model.rbac import rbac_rules

LAST_ANSWERS_SECONDS = 30
"""How long a server that is about to end answers: until agents have told the DNS Service of every
network, of which there may be thousands, that it is going."""
_WHEN = Condition("networks.dns", ("networks",), equals="shared")


def network_dns_files() -> tuple[ChartFile, ...]:
    """The chart files of the shared name server: its rights; Deployment, Service and NetworkPolicy.

    They need the feature networks, and `shared` as the value `networks.dns`.
    """
    return (
        ChartFile("network-dns-rights", lambda _: _rights(), _WHEN),
        ChartFile("network-dns", _objects, _WHEN),
    )


def _rights() -> list[Wire]:
    """The ServiceAccount of the server, and roles and bindings to read what it watches."""
    rules = rbac_rules(SHARED_DNS_WATCHES, Role.LOCAL)
    account = manifest(SERVICE_ACCOUNT, SHARED_DNS, SYSTEM_NAMESPACE)
    subject = Subject(SHARED_DNS, SYSTEM_NAMESPACE)
    bound = binding_manifests(SHARED_DNS, SHARED_DNS, rules, subject, {})
    return [one.wire for one in (account, *role_manifests(SHARED_DNS, rules), *bound)]


def _objects(values: ValueSource) -> list[Wire]:
    """Deployment, budget, Service and policy of the DNS server that all networks share.

    Agents copy its EndpointSlices to the networks.
    """
    arguments = ["dns", "--networks", f"--listen=0.0.0.0:{PORT}", "--forward=/etc/resolv.conf"]
    arguments += [f"--metrics-listen=0.0.0.0:{METRICS_PORT}"]
    environment = name_server_environment(values)
    container = name_server_container(values, arguments, environment, PORT, LAST_ANSWERS_SECONDS)
    volumes = name_server_volumes(values)
    replicas = values.value("networks.dnsReplicas")
    deployment = make_deployment(values, SHARED_DNS, SHARED_DNS, replicas, container, volumes)
    pod = deployment["spec"]["template"]["spec"]
    pod["dnsPolicy"] = "Default"  # names outside are asked of the node's servers
    pod["terminationGracePeriodSeconds"] = 2 * LAST_ANSWERS_SECONDS
    pod["securityContext"]["sysctls"] = [UNPRIVILEGED_PORTS]
    ports = [{"name": n, "port": PORT, "targetPort": n, "protocol": p} for n, p in DNS_PROTOCOLS]
    return [
        deployment,
        disruption_budget(SHARED_DNS),
        make_service(SHARED_DNS, ports),
        _policy(),
    ]


def _policy() -> Wire:
    """A NetworkPolicy: DNS only from pods in tenants' namespaces, metrics from everywhere."""
    tenants = {"namespaceSelector": {"matchExpressions": [{"key": TENANT, "operator": "Exists"}]}}
    asked = [{"port": name, "protocol": protocol} for name, protocol in DNS_PROTOCOLS]
    spec = {
        "podSelector": {"matchLabels": labels_of(SHARED_DNS)},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [tenants], "ports": asked}, {"ports": [{"port": "metrics"}]}],
    }
    return make_object("networking.k8s.io/v1", "NetworkPolicy", SHARED_DNS, spec)
