"""The console of an installation: a page over the fleet, which reads, and asks who comes."""

from hanse.app.views import reads
from hanse.cli.doctor.lists import CONSOLE_LISTS
from hanse.cli.fleet_lists import BROKER_READS
from hanse.cli.manifests.value_source import ChartFile, Condition, ValueSource
from hanse.cli.manifests.workloads import (
    make_container,
    make_deployment,
    make_service,
    secret_volume,
)
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
from hanse.model.rbac import RbacRule, rbac_rules

CONSOLE = "hanse-console"
PORT = 8088
FOLDER = "/var/run/hanse/console"
_WHEN = Condition("console.enabled")
_REVIEWS = (
    RbacRule("", "authentication.k8s.io", "tokenreviews", ("create",)),
    RbacRule("", "authorization.k8s.io", "subjectaccessreviews", ("create",)),
)


def console_files() -> tuple[ChartFile, ...]:
    """The chart files of the console: its rights, then its Deployment and Service.

    They are part of an installation with the value `console.enabled`.
    """
    return (
        ChartFile("console-rights", lambda _: _rights(), _WHEN),
        ChartFile("console", _objects, _WHEN),
    )


def _rights() -> list[Wire]:
    """The console's ServiceAccount, roles and bindings as JSON values.

    It may list what the page shows, and create TokenReviews and SubjectAccessReviews.
    """
    rules = [*rbac_rules((*reads(), *BROKER_READS, *CONSOLE_LISTS), Role.LOCAL), *_REVIEWS]
    account = manifest(SERVICE_ACCOUNT, CONSOLE, SYSTEM_NAMESPACE)
    subject = Subject(CONSOLE, SYSTEM_NAMESPACE)
    bound = binding_manifests(CONSOLE, CONSOLE, rules, subject, {})
    return [one.wire for one in (account, *role_manifests(CONSOLE, rules), *bound)]


def _objects(values: ValueSource) -> list[Wire]:
    """The console's Service and Deployment, of one replica since sessions are kept in memory."""
    arguments = ["console", f"--listen=0.0.0.0:{PORT}", "--own-cluster", values.value("clusterId")]
    environment = {
        "HANSE_CONSOLE_HOSTS": values.joined("console.hosts", " "),
        "KUBECONFIG": f"{FOLDER}/kubeconfig",
    }
    probe = {"tcpSocket": {"port": "http"}, "periodSeconds": 10}
    container = {
        **make_container(values, "console", arguments, environment),
        "ports": [{"name": "http", "containerPort": PORT}],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "volumeMounts": [
            {"name": "clusters", "mountPath": FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108 - the pod's own
        ],
        "resources": values.value("console.resources"),
    }
    volumes = [
        secret_volume("clusters", values.value("console.kubeconfigSecret")),
        {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}},
    ]
    return [
        make_deployment(values, CONSOLE, CONSOLE, 1, container, volumes),
        make_service(CONSOLE, [{"name": "http", "port": 80, "targetPort": "http"}]),
    ]
