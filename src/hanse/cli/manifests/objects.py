"""The objects of an installation: workloads, Services, policies and RBAC."""

from typing import Any

from hanse import __version__
from hanse.cli.manifests.console import CONSOLE, console_files
from hanse.cli.manifests.guard import guard_files
from hanse.cli.manifests.network_dns import network_dns_files
from hanse.cli.manifests.rights import dns_rights_files, rights_files
from hanse.cli.manifests.value_source import ChartFile, Condition, ValueSource
from hanse.cli.manifests.workloads import (
    BROKER_FOLDER,
    DNS_PROTOCOLS,
    METRICS_PORT,
    disruption_budget,
    http_probe,
    labels_of,
    make_container,
    make_deployment,
    make_object,
    make_service,
    name_server_container,
    name_server_environment,
    name_server_volumes,
    pod_field,
    secret_volume,
    shared_environment,
)
from hanse.model.kinds.gslb import NAMESPACE as GSLB_NAMESPACE
from hanse.model.kinds.gslb import AMKOCluster
from hanse.model.manifests import PART_OF
from hanse.model.naming import AGENT, DNS, SYSTEM_NAMESPACE
from hanse.model.objects import Wire

WEBHOOK_PORT = 9443
DASHBOARD_PORT = 8090
DNS_PORT = 5353
LAST_ANSWERS_SECONDS = 5
"""How long a name server that is about to end answers: until no node sends it questions."""
CACHE_FOLDER = "/var/cache/hanse"
TOKEN_FOLDER = "/var/run/hanse/dashboard"  # noqa: S105 - where it is mounted
TSIG_FOLDER = "/var/run/hanse/publishing"
NETWORKS_FOLDER = "/etc/hanse/networks"
NETWORK_TEMPLATE = "hanse-network-template"


def chart_files() -> tuple[ChartFile, ...]:
    """Every file of an installation but the CRDs, with its condition, in the order of applying."""
    return (
        *rights_files(),
        ChartFile("agent", _agent_objects),
        *dns_rights_files(),
        ChartFile("dns", _dns_objects, Condition("dns.enabled")),
        *network_dns_files(),
        *guard_files(),
        *console_files(),
        ChartFile("network-policy", lambda _: _network_policies(), Condition("networkPolicy")),
        ChartFile("egress", _egress_policy, Condition("egress.enabled")),
        ChartFile("egress-gslb", _probe_policy, Condition("egress.enabled", ("gslb",))),
        ChartFile(
            "amkocluster",
            _amko_cluster,
            Condition("gslb.enabled", ("gslb",), AMKOCluster.kind.api_version),
        ),
    )


def _agent_objects(values: ValueSource) -> list[Wire]:
    """The agent's ConfigMap of the network template, Deployment, budget and Service.

    An annotation with the template's digest restarts its pods when the template changes.
    """
    ports = {"metrics": METRICS_PORT, "webhooks": WEBHOOK_PORT, "dashboard": DASHBOARD_PORT}
    environment = {
        **shared_environment(values),
        **_feature_environment(values),
        "HANSE_LISTEN": f"0.0.0.0:{METRICS_PORT}",
        "HANSE_DASHBOARD_LISTEN": values.either("dashboard.enabled", f"0.0.0.0:{DASHBOARD_PORT}"),
        "HANSE_DASHBOARD_TOKEN_FILE": f"{TOKEN_FOLDER}/token",
        "HANSE_DASHBOARD_HOST": values.value("dashboard.hosts"),
        "HANSE_WEBHOOK_LISTEN": values.either("webhooks.enabled", f"0.0.0.0:{WEBHOOK_PORT}"),
        "HANSE_WEBHOOK_URL": values.value("webhooks.url"),
        "HANSE_IDENTITY": pod_field("metadata.name"),
        "HANSE_NAMESPACE": pod_field("metadata.namespace"),
    }
    container = {
        **make_container(values, "agent", ["agent"], environment),
        "ports": [{"name": n, "containerPort": p} for n, p in ports.items()],
        "livenessProbe": http_probe("/healthz", 20),
        "readinessProbe": http_probe("/readyz", 5),
        "volumeMounts": [
            {"name": "broker", "mountPath": BROKER_FOLDER, "readOnly": True},
            {"name": "dashboard", "mountPath": TOKEN_FOLDER, "readOnly": True},
            {"name": "publishing", "mountPath": TSIG_FOLDER, "readOnly": True},
            {"name": "networks", "mountPath": NETWORKS_FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
        ],
        "resources": values.value("agent.resources"),
    }
    volumes = [
        secret_volume("broker", values.value("broker.secret")),
        secret_volume("dashboard", values.value("dashboard.tokenSecret")),
        secret_volume("publishing", values.text_or("publishing.keySecret", "hanse-publishing")),
        {"name": "networks", "configMap": {"name": NETWORK_TEMPLATE}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}},
    ]
    deployment = make_deployment(
        values, AGENT, AGENT, values.value("agent.replicas"), container, volumes
    )
    # The agent reads the template once: another one has to restart it.
    deployment["spec"]["template"]["metadata"]["annotations"] = {
        "hanse.dev/network-template": values.digest("networks.template")
    }
    return [
        _network_template(values),
        deployment,
        disruption_budget(AGENT),
        make_service(
            AGENT,
            [
                {"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"},
                {"name": "dashboard", "port": DASHBOARD_PORT, "targetPort": "dashboard"},
            ],
        ),
    ]


def _feature_environment(values: ValueSource) -> dict[str, Any]:
    """The agent's environment variables for options of its features, by name."""
    return {
        "HANSE_PUBLISH_ZONE": values.value("publishing.zone"),
        "HANSE_PUBLISH_ENDPOINTS": values.value("publishing.endpoints"),
        "HANSE_PUBLISH_WEIGHTED_RECORDS": values.either(
            "publishing.weightedRecords", "true", "false"
        ),
        "HANSE_PUBLISH_SERVER": values.value("publishing.server"),
        "HANSE_PUBLISH_KEY_FILE": values.either("publishing.keySecret", f"{TSIG_FOLDER}/key"),
        "HANSE_GSLB_PROVIDER": values.joined("gslb.providers", " "),
        "HANSE_GSLB_ZONES": values.joined("dns.globalZones", " "),
        "HANSE_GSLB_WITHDRAW": values.joined("gslb.withdraw", " "),
        "HANSE_GSLB_WEIGHTED_RECORDS": values.either("gslb.weightedRecords", "true", "false"),
        "HANSE_FEDERATED_HOSTNAME": values.value("federated.hostname"),
        "HANSE_DEFAULT_NETWORK_TEMPLATE_PATH": f"{NETWORKS_FOLDER}/template",
        "HANSE_NETWORK_PROVIDERS": values.joined("networks.providers", " "),
        "HANSE_NETWORK_TRUSTS": values.joined("networks.trusts", " "),
        "HANSE_NETWORK_DNS": values.value("networks.dns"),
        "HANSE_NETWORK_DNS_IMAGE": values.network_dns_image(),
        "HANSE_NETWORK_GUARD": values.either("networks.guard", "true", "false"),
        "HANSE_NETWORK_ADMIN_POLICIES": values.either("networks.adminPolicies", "true", "false"),
    }


def _network_template(values: ValueSource) -> Wire:
    """The ConfigMap with the network that new tenants get."""
    metadata = {
        "name": NETWORK_TEMPLATE,
        "namespace": SYSTEM_NAMESPACE,
        "labels": labels_of(AGENT),
    }
    data = {"template": values.value("networks.template")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _dns_objects(values: ValueSource) -> list[Wire]:
    """Deployment, PodDisruptionBudget and Service (port 53) of the name server, in this order."""
    listens = f"0.0.0.0:{DNS_PORT}"
    metrics = f"0.0.0.0:{METRICS_PORT}"
    arguments = ["dns", f"--listen={listens}", f"--metrics-listen={metrics}"]
    environment = {
        **name_server_environment(values),
        "HANSE_DNS_GLOBAL_ZONES": values.joined("dns.globalZones", " "),
        "HANSE_DNS_REGIONS": values.joined("dns.regions", " "),
        "HANSE_DNS_TRUST_RESOLVERS": values.joined("dns.trustedResolvers", " "),
        "HANSE_DNS_FORWARD": values.joined("dns.forward", " "),
        "HANSE_DNS_ALLOW_TRANSFER": values.joined("dns.allowTransfer", " "),
        "HANSE_DNS_CACHE": CACHE_FOLDER,
    }
    container = name_server_container(
        values, arguments, environment, DNS_PORT, LAST_ANSWERS_SECONDS
    )
    container["volumeMounts"].append({"name": "cache", "mountPath": CACHE_FOLDER})
    cache = {"name": "cache", "emptyDir": {"sizeLimit": "64Mi"}}
    volumes = [*name_server_volumes(values), cache]
    service = make_service(
        DNS, [{"name": n, "port": 53, "targetPort": n, "protocol": p} for n, p in DNS_PROTOCOLS]
    )
    service["spec"]["clusterIP"] = values.value("dns.clusterIp")
    return [
        make_deployment(values, DNS, DNS, values.value("dns.replicas"), container, volumes),
        disruption_budget(DNS),
        service,
    ]


def _network_policies() -> list[Wire]:
    """A NetworkPolicy each for agent, name server and console.

    From everywhere, only connections to the ports that they serve are let in.
    """
    open_ports = {
        AGENT: [
            {"port": "metrics"},
            {"port": "webhooks"},
            {"port": "dashboard"},
        ],
        DNS: [
            {"port": "metrics"},
            {"port": "dns", "protocol": "UDP"},
            {"port": "dns-tcp", "protocol": "TCP"},
        ],
        CONSOLE: [{"port": "http"}],
    }
    return [
        make_object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            name,
            {
                "podSelector": {"matchLabels": labels_of(name)},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": ports}],
            },
        )
        for name, ports in open_ports.items()
    ]


def _egress_policy(values: ValueSource) -> list[Wire]:
    """A NetworkPolicy for all our pods: DNS ports anywhere, and `egress.ports` of `egress.to`."""
    dns = [{"protocol": name, "port": port} for name in ("UDP", "TCP") for port in (53, DNS_PORT)]
    spec = {
        "podSelector": {"matchLabels": {PART_OF: "hanse"}},
        "policyTypes": ["Egress"],
        "egress": [
            {"ports": dns},
            {"to": values.value("egress.to"), "ports": values.value("egress.ports")},
        ],
    }
    return [make_object("networking.k8s.io/v1", "NetworkPolicy", "hanse-egress", spec)]


def _probe_policy(values: ValueSource) -> list[Wire]:
    """A NetworkPolicy: agent and name server may connect to any port of `egress.to`, to probe."""
    spec = {
        "podSelector": {
            "matchExpressions": [
                {"key": "app.kubernetes.io/name", "operator": "In", "values": [AGENT, DNS]}
            ]
        },
        "policyTypes": ["Egress"],
        "egress": [{"to": values.value("egress.to")}],
    }
    return [make_object("networking.k8s.io/v1", "NetworkPolicy", "hanse-probes", spec)]


def _amko_cluster(values: ValueSource) -> list[Wire]:
    """The AMKOCluster in the GSLB namespace, as a list of one."""
    spec = {
        "isLeader": values.value("gslb.isLeader"),
        "clusterContext": values.value_or("gslb.clusterContext", "clusterId"),
        "version": __version__,
        "clusters": values.value("gslb.clusters"),
    }
    made = make_object("amko.vmware.com/v1alpha1", "AMKOCluster", "amkocluster-federation", spec)
    made["metadata"]["namespace"] = GSLB_NAMESPACE  # which is among the rights
    return [made]
