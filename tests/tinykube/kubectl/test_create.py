"""`kubectl create` and `apply` of each kind that kubectl offers."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.tinykube.kubectl.command import Kubectl
from tinykube.serving import self_signed

CREATED = [
    pytest.param(["namespace", "shop"], "namespace", {}, id="namespace"),
    pytest.param(
        ["configmap", "c", "--from-literal=a=b"],
        "configmap/c",
        {"data": {"a": "b"}},
        id="configmap",
    ),
    pytest.param(
        ["secret", "generic", "s", "--from-literal=a=b"],
        "secret/s",
        {"data": {"a": base64.b64encode(b"b").decode()}, "type": "Opaque"},
        id="secret generic",
    ),
    pytest.param(
        [
            "secret",
            "docker-registry",
            "s",
            "--docker-server=r.example",
            "--docker-username=u",
            "--docker-password=p",
        ],
        "secret/s",
        {"type": "kubernetes.io/dockerconfigjson"},
        id="secret docker-registry",
    ),
    pytest.param(
        ["service", "clusterip", "s", "--tcp=80:8080"],
        "service/s",
        {
            "spec": {
                "type": "ClusterIP",
                "ports": [{"name": "80-8080", "port": 80, "protocol": "TCP", "targetPort": 8080}],
                "selector": {"app": "s"},
                "sessionAffinity": "None",
            }
        },
        id="service clusterip",
    ),
    pytest.param(
        ["service", "nodeport", "s", "--tcp=80", "--node-port=30080"],
        "service/s",
        {"spec": {"type": "NodePort"}},
        id="service nodeport",
    ),
    pytest.param(
        ["service", "loadbalancer", "s", "--tcp=80"],
        "service/s",
        {"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": True}},
        id="service loadbalancer",
    ),
    pytest.param(
        ["service", "externalname", "s", "--external-name=a.example"],
        "service/s",
        {"spec": {"type": "ExternalName", "externalName": "a.example"}},
        id="service externalname",
    ),
    pytest.param(
        ["deployment", "d", "--image=nginx", "--replicas=0", "--port=80"],
        "deployment/d",
        {"spec": {"replicas": 0, "selector": {"matchLabels": {"app": "d"}}}},
        id="deployment",
    ),
    pytest.param(["serviceaccount", "r"], "serviceaccount/r", {}, id="serviceaccount"),
    pytest.param(
        ["role", "r", "--verb=get,list", "--resource=pods,deployments.apps"],
        "role/r",
        {
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list"]},
            ]
        },
        id="role",
    ),
    pytest.param(
        ["rolebinding", "b", "--role=r", "--user=ada", "--serviceaccount=default:x"],
        "rolebinding/b",
        {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}},
        id="rolebinding",
    ),
    pytest.param(
        ["clusterrole", "r", "--verb=get", "--non-resource-url=/metrics"],
        "clusterrole/r",
        {"rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]},
        id="clusterrole",
    ),
    pytest.param(
        ["clusterrolebinding", "b", "--clusterrole=r", "--group=sailors"],
        "clusterrolebinding/b",
        {
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "sailors"}
            ]
        },
        id="clusterrolebinding",
    ),
    pytest.param(["ingress", "i", "--rule=a.example/x*=web:80"], "ingress/i", {}, id="ingress"),
    pytest.param(["job", "j", "--image=busybox", "--", "date"], "job/j", {}, id="job"),
    pytest.param(
        ["cronjob", "c", "--image=busybox", "--schedule=*/5 * * * *", "--", "date"],
        "cronjob/c",
        {"spec": {"schedule": "*/5 * * * *"}},
        id="cronjob",
    ),
    pytest.param(
        ["poddisruptionbudget", "p", "--selector=a=b", "--min-available=50%"],
        "poddisruptionbudget/p",
        {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}},
        id="poddisruptionbudget",
    ),
    pytest.param(
        ["priorityclass", "p", "--value=7", "--description=x"],
        "priorityclass/p",
        {"value": 7, "description": "x"},
        id="priorityclass",
    ),
]


def holds(expected: object, found: object) -> bool:
    """Whether an object has at least what is expected of it."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(holds(value, found.get(name)) for name, value in expected.items())
    return expected == found


@pytest.mark.parametrize(("arguments", "target", "expected"), CREATED)
async def test_create(
    kubectl: Kubectl, arguments: list[str], target: str, expected: dict[str, object]
) -> None:
    output = await kubectl("create", *arguments)
    found = await kubectl.read("namespace/shop" if target == "namespace" else target)

    assert output.endswith(" created\n")
    assert holds(expected, found), found


async def test_create_a_tls_secret(kubectl: Kubectl) -> None:
    issued = self_signed("x")
    (kubectl.folder / "crt").write_bytes(issued.certificate)
    (kubectl.folder / "key").write_bytes(issued.key)

    await kubectl("create", "secret", "tls", "s", "--cert=crt", "--key=key")

    assert (await kubectl.read("secret/s"))["type"] == "kubernetes.io/tls"


async def test_a_token_lets_its_account_in(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "robot")
    token = (await kubectl("create", "token", "robot", "--duration=20m")).strip()

    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    whoami = json.loads(
        await kubectl(
            "auth",
            "whoami",
            f"--token={token}",
            "-o",
            "json",
            KUBECONFIG=str(kubeconfig_with_wrong_token(kubectl)),
        )
    )

    assert claims["sub"] == "system:serviceaccount:default:robot"
    assert datetime.fromtimestamp(claims["exp"], UTC) < datetime.now(UTC) + timedelta(minutes=21)
    assert whoami["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"


def kubeconfig_with_wrong_token(kubectl: Kubectl) -> Path:
    config = json.loads((kubectl.folder / "kubeconfig").read_text())
    config["users"][0]["user"]["token"] = "wrong"
    path = kubectl.folder / "wrong"
    path.write_text(json.dumps(config))
    return path


async def test_a_wrong_token_is_unauthorized(kubectl: Kubectl) -> None:
    path = kubeconfig_with_wrong_token(kubectl)

    errors = await kubectl.fails("get", "pods", f"--kubeconfig={path}")

    assert "Unauthorized" in errors or "must be logged in" in errors


async def test_create_from_a_file_with_several_objects(kubectl: Kubectl) -> None:
    text = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
- {apiVersion: v1, kind: Secret, metadata: {name: c}, stringData: {x: z}}
"""

    output = await kubectl("create", "-f", "-", stdin=text)

    assert output.split() == [
        "configmap/a",
        "created",
        "configmap/b",
        "created",
        "secret/c",
        "created",
    ]


async def test_a_generated_name(kubectl: Kubectl) -> None:
    stdin = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}}

    output = await kubectl("create", "-f", "-", stdin=stdin)

    assert output.startswith("configmap/g-")


async def test_a_dry_run_on_the_server_creates_nothing(kubectl: Kubectl) -> None:
    output = await kubectl("create", "configmap", "c", "--dry-run=server", "-o", "name")

    assert output == "configmap/c\n"
    assert "not found" in await kubectl.fails("get", "configmap", "c")
