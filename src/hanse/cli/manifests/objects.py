"""The objects of an installation: workloads, Services, policies and RBAC."""

from typing import Any

from hanse import __version__
from hanse.cli.manifests.guard import guard_files
from hanse.cli.manifests.rights import DNS, dns_rights_files, rights_files
from hanse.cli.manifests.value_source import ChartFile, Condition, ValueSource
from hanse.model.kinds.gslb import NAMESPACE as GSLB_NAMESPACE
from hanse.model.kinds.gslb import AMKOCluster
from hanse.model.manifests import PART_OF
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE
from hanse.model.objects import Wire

METRICS_PORT = 8080
WEBHOOK_PORT = 9443
DASHBOARD_PORT = 8090
DNS_PORT = 5353
BROKER_FOLDER = "/var/run/hanse/broker"
CACHE_FOLDER = "/var/cache/hanse"
TOKEN_FOLDER = "/var/run/hanse/dashboard"  # noqa: S105 - where it is mounted
TSIG_FOLDER = "/var/run/hanse/publishing"
NETWORKS_FOLDER = "/etc/hanse/networks"
NETWORK_TEMPLATE = "hanse-network-template"
NON_ROOT_USER = 65532


def chart_files() -> tuple[ChartFile, ...]:
    """Every file of an installation but the CRDs, in the order of applying."""
    return (
        *rights_files(),
        ChartFile("agent", _agent_objects),
        *dns_rights_files(),
        ChartFile("dns", _dns_objects, Condition("dns.enabled")),
        *guard_files(),
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
    """The Deployment, PodDisruptionBudget and Service of the agent."""
    ports = {"metrics": METRICS_PORT, "webhooks": WEBHOOK_PORT, "dashboard": DASHBOARD_PORT}
    environment = {
        **_shared_environment(values),
        **_feature_environment(values),
        "HANSE_LISTEN": f"0.0.0.0:{METRICS_PORT}",
        "HANSE_DASHBOARD_LISTEN": values.either("dashboard.enabled", f"0.0.0.0:{DASHBOARD_PORT}"),
        "HANSE_DASHBOARD_TOKEN_FILE": f"{TOKEN_FOLDER}/token",
        "HANSE_DASHBOARD_HOST": values.value("dashboard.hosts"),
        "HANSE_WEBHOOK_LISTEN": values.either("webhooks.enabled", f"0.0.0.0:{WEBHOOK_PORT}"),
        "HANSE_WEBHOOK_URL": values.value("webhooks.url"),
        "HANSE_IDENTITY": _pod_field("metadata.name"),
        "HANSE_NAMESPACE": _pod_field("metadata.namespace"),
    }
    container = {
        **_container(values, "agent", ["agent"], environment),
        "ports": [{"name": n, "containerPort": p} for n, p in ports.items()],
        "livenessProbe": _http_probe("/healthz", 20),
        "readinessProbe": _http_probe("/readyz", 5),
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
        _secret_volume("broker", values.value("broker.secret")),
        _secret_volume("dashboard", values.value("dashboard.tokenSecret")),
        _secret_volume("publishing", values.text_or("publishing.keySecret", "hanse-publishing")),
        {"name": "networks", "configMap": {"name": NETWORK_TEMPLATE}},
        {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}},
    ]
    deployment = _deployment(
        values, AGENT, AGENT, values.value("agent.replicas"), container, volumes
    )
    # The agent reads the template once: another one has to restart it.
    deployment["spec"]["template"]["metadata"]["annotations"] = {
        "hanse.dev/network-template": values.digest("networks.template")
    }
    return [
        _network_template(values),
        deployment,
        _disruption_budget(AGENT),
        _service(
            AGENT,
            [
                {"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"},
                {"name": "dashboard", "port": DASHBOARD_PORT, "targetPort": "dashboard"},
            ],
        ),
    ]


def _shared_environment(values: ValueSource) -> dict[str, Any]:
    """The options that the agent and the name server have in common."""
    return {
        "HANSE_CLUSTER_ID": values.value("clusterId"),
        "HANSE_FEATURES": values.joined("features"),
        "HANSE_BROKER_KUBECONFIG": values.either("broker.enabled", f"{BROKER_FOLDER}/kubeconfig"),
        "HANSE_BROKER_CONTEXT": values.value("broker.context"),
        "HANSE_BROKER_NAMESPACE": values.value("broker.namespace"),
        "HANSE_REPLICA_ZONE": values.value("statefulsets.replicaZone"),
        "HANSE_FEDERATION": values.value("statefulsets.federation"),
    }


def _feature_environment(values: ValueSource) -> dict[str, Any]:
    """The options of the agent's features."""
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
        "labels": _labels(AGENT),
    }
    data = {"template": values.value("networks.template")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _dns_objects(values: ValueSource) -> list[Wire]:
    """The Deployment, PodDisruptionBudget and Service of the name server."""
    listens = f"0.0.0.0:{DNS_PORT}"
    metrics = f"0.0.0.0:{METRICS_PORT}"
    arguments = ["dns", f"--listen={listens}", f"--metrics-listen={metrics}"]
    environment = {
        **_shared_environment(values),
        "HANSE_DNS_ZONE": values.value("dns.zone"),
        "HANSE_DNS_PROFILE": values.value("dns.profile"),
        "HANSE_DNS_LOCAL_FIRST": values.either("dns.localFirst", "true", "false"),
        "HANSE_DNS_GLOBAL_ZONES": values.joined("dns.globalZones", " "),
        "HANSE_DNS_REGIONS": values.joined("dns.regions", " "),
        "HANSE_DNS_TRUST_RESOLVERS": values.joined("dns.trustedResolvers", " "),
        "HANSE_DNS_FORWARD": values.joined("dns.forward", " "),
        "HANSE_DNS_ALLOW_TRANSFER": values.joined("dns.allowTransfer", " "),
        "HANSE_DNS_WORKERS": values.text("dns.workers"),
        "HANSE_DNS_RATE_LIMIT": values.text("dns.rateLimit"),
        "HANSE_DNS_LOG_EVERY": values.text("dns.logEvery"),
        "HANSE_DNS_CACHE": CACHE_FOLDER,
    }
    protocols = [("dns", "UDP"), ("dns-tcp", "TCP")]
    container = {
        **_container(values, "dns", arguments, environment),
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            *({"name": n, "containerPort": DNS_PORT, "protocol": p} for n, p in protocols),
        ],
        "livenessProbe": _http_probe("/healthz", 20),
        "readinessProbe": _http_probe("/readyz", 5),
        "volumeMounts": [
            {"name": "broker", "mountPath": BROKER_FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
            {"name": "cache", "mountPath": CACHE_FOLDER},
        ],
        "resources": values.value("dns.resources"),
    }
    volumes = [
        _secret_volume("broker", values.value("broker.secret")),
        {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}},
        {"name": "cache", "emptyDir": {"sizeLimit": "64Mi"}},
    ]
    service = _service(
        DNS, [{"name": n, "port": 53, "targetPort": n, "protocol": p} for n, p in protocols]
    )
    service["spec"]["clusterIP"] = values.value("dns.clusterIp")
    return [
        _deployment(values, DNS, DNS, values.value("dns.replicas"), container, volumes),
        _disruption_budget(DNS),
        service,
    ]


def _network_policies() -> list[Wire]:
    """Who may connect to our pods."""
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
    }
    return [
        _object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            name,
            {
                "podSelector": {"matchLabels": _labels(name)},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": ports}],
            },
        )
        for name, ports in open_ports.items()
    ]


def _egress_policy(values: ValueSource) -> list[Wire]:
    """What our pods may connect to: DNS, and API servers."""
    dns = [{"protocol": name, "port": port} for name in ("UDP", "TCP") for port in (53, DNS_PORT)]
    spec = {
        "podSelector": {"matchLabels": {PART_OF: "hanse"}},
        "policyTypes": ["Egress"],
        "egress": [
            {"ports": dns},
            {"to": values.value("egress.to"), "ports": values.value("egress.ports")},
        ],
    }
    return [_object("networking.k8s.io/v1", "NetworkPolicy", "hanse-egress", spec)]


def _probe_policy(values: ValueSource) -> list[Wire]:
    """Health probes of global names go to any port."""
    spec = {
        "podSelector": {
            "matchExpressions": [
                {"key": "app.kubernetes.io/name", "operator": "In", "values": [AGENT, DNS]}
            ]
        },
        "policyTypes": ["Egress"],
        "egress": [{"to": values.value("egress.to")}],
    }
    return [_object("networking.k8s.io/v1", "NetworkPolicy", "hanse-probes", spec)]


def _amko_cluster(values: ValueSource) -> list[Wire]:
    """The AMKOCluster in the GSLB namespace, as a list of one."""
    spec = {
        "isLeader": values.value("gslb.isLeader"),
        "clusterContext": values.value_or("gslb.clusterContext", "clusterId"),
        "version": __version__,
        "clusters": values.value("gslb.clusters"),
    }
    made = _object("amko.vmware.com/v1alpha1", "AMKOCluster", "amkocluster-federation", spec)
    made["metadata"]["namespace"] = GSLB_NAMESPACE  # which is among the rights
    return [made]


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, PART_OF: "hanse"}


def _object(api_version: str, kind: str, name: str, spec: Wire) -> Wire:
    metadata = {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": _labels(name)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _deployment(
    values: ValueSource,
    name: str,
    account: str,
    replicas: Any,
    container: Wire,
    volumes: list[Wire],
) -> Wire:
    """A Deployment of one container, not as root, spread over zones and nodes if possible."""
    labels = _labels(name)
    pod = {
        "serviceAccountName": account,
        "priorityClassName": values.value("priorityClassName"),
        "nodeSelector": values.value("nodeSelector"),
        "tolerations": values.value("tolerations"),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": NON_ROOT_USER,
            "runAsGroup": NON_ROOT_USER,
            "fsGroup": NON_ROOT_USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
            for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ],
        "containers": [container],
        "volumes": volumes,
    }
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    made = _object("apps/v1", "Deployment", name, spec)
    made["metadata"]["labels"] = {**labels, "app.kubernetes.io/version": __version__}
    return made


def _container(
    values: ValueSource, name: str, arguments: list[Any], environment: dict[str, Any]
) -> Wire:
    return {
        "name": name,
        "image": values.image(),
        "imagePullPolicy": values.value("image.pullPolicy"),
        "args": arguments,
        "env": [
            {"name": name, "value": value}
            if not isinstance(value, dict)
            else {"name": name, "valueFrom": value}
            for name, value in environment.items()
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }


def _pod_field(path: str) -> Wire:
    return {"fieldRef": {"fieldPath": path}}


def _secret_volume(name: str, secret: Any) -> Wire:
    return {"name": name, "secret": {"secretName": secret, "optional": True}}


def _http_probe(path: str, every: int) -> Wire:
    return {"httpGet": {"path": path, "port": "metrics"}, "periodSeconds": every}


def _disruption_budget(name: str) -> Wire:
    spec = {"minAvailable": 1, "selector": {"matchLabels": _labels(name)}}
    return _object("policy/v1", "PodDisruptionBudget", name, spec)


def _service(name: str, ports: list[Wire]) -> Wire:
    return _object("v1", "Service", name, {"selector": _labels(name), "ports": ports})
