"""Our checks of the Pod Security Standards against those of a real API server, field by field."""

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import msgspec
import pytest

from hanse.kube.transport import Request, Response, Transport
from hanse.local.real.fleet import RealFleet
from hanse.model.objects import Wire
from hanse.model.pod_security import (
    APPARMOR_ANNOTATION,
    BASELINE_CAPABILITIES,
    RESTRICTED_VOLUMES,
    SAFE_SYSCTLS,
    violations,
)
from tests.model.pod_security_cases import BASELINE, RESTRICTED, put, template
from tests.real.api_requests import admin_transport

pytestmark = pytest.mark.anyio

Level = Literal["baseline", "restricted"]
LEVELS: tuple[Level, ...] = ("baseline", "restricted")
COMPARED_AT_LEAST = {"baseline": 140, "restricted": 140}
"""Of the cases below, those that an API server takes as valid pods at all."""


def pod(level: Level) -> Wire:
    made = template(level)
    del made["spec"]["ephemeralContainers"]  # these cannot be created with a pod
    return made


def cases(level: Level) -> Iterator[tuple[str, Wire]]:
    """Pods with one field changed each, and what was changed."""
    for row in (*BASELINE, *RESTRICTED):
        path, allowed, denied = row.values
        if "ephemeral" not in str(path):
            for value in (*allowed, *denied):
                yield f"{path} {value}", put(pod(level), str(path), value)
    for name in (*BASELINE_CAPABILITIES, "SYS_ADMIN", "NET_RAW", "ALL"):
        path = "containers[0].securityContext.capabilities.add"
        yield f"add {name}", put(pod(level), path, [name])
    for name in (*SAFE_SYSCTLS, "kernel.msgmax", "net.ipv4.ip_forward"):
        sysctls = [{"name": name, "value": "1"}]
        yield f"sysctl {name}", put(pod(level), "securityContext.sysctls", sysctls)
    for name, source in VOLUMES.items():
        yield f"volume {name}", put(pod(level), "volumes[0]", {"name": "v", name: source})
    for value in ("runtime/default", "localhost/mine", "unconfined"):
        annotated = pod(level)
        annotated["metadata"]["annotations"] = {f"{APPARMOR_ANNOTATION}c": value}
        yield f"AppArmor {value}", annotated


VOLUMES: dict[str, Any] = {
    "hostPath": {"path": "/"},
    "nfs": {"server": "nfs.example", "path": "/"},
    "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:disk", "lun": 0},
    "configMap": {"name": "c"},
    "csi": {"driver": "csi.example"},
    "downwardAPI": {},
    "emptyDir": {},
    "persistentVolumeClaim": {"claimName": "c"},
    "projected": {},
    "secret": {"secretName": "s"},
    "ephemeral": {
        "volumeClaimTemplate": {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
        }
    },
}


@pytest.fixture
async def server(real_clusters: RealFleet, level: Level) -> AsyncIterator[Transport]:
    """A real API server with a namespace that enforces a level."""
    async with admin_transport(real_clusters.clusters["broker"]) as transport:
        labels = {
            "pod-security.kubernetes.io/enforce": level,
            "pod-security.kubernetes.io/enforce-version": "latest",
        }
        await create(transport, "namespaces", {"name": f"psa-{level}", "labels": labels})
        await create(transport, f"namespaces/psa-{level}/serviceaccounts", {"name": "default"})
        yield transport
        await transport.send(Request("DELETE", f"/api/v1/namespaces/psa-{level}"))


async def create(transport: Transport, collection: str, metadata: Wire) -> None:
    kind = "Namespace" if collection == "namespaces" else "ServiceAccount"
    body = msgspec.json.encode({"apiVersion": "v1", "kind": kind, "metadata": metadata})
    response = await transport.send(Request("POST", f"/api/v1/{collection}", body=body))
    assert response.status in (201, 409), response.body


async def try_to_create(transport: Transport, level: Level, judged: Wire) -> Response:
    metadata = {**judged["metadata"], "name": "judged"}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": judged["spec"]}
    path = f"/api/v1/namespaces/psa-{level}/pods"
    return await transport.send(
        Request("POST", path, query=(("dryRun", "All"),), body=msgspec.json.encode(made))
    )


@pytest.mark.parametrize("level", LEVELS)
async def test_a_real_api_server_judges_each_field_as_we_do(
    server: Transport, level: Level
) -> None:
    compared, differences = 0, list[str]()
    for name, judged in cases(level):
        response = await try_to_create(server, level, judged)
        text = response.body.decode()
        if response.status in (400, 422):
            continue  # no API server takes it, whatever the level
        assert response.status == 201 or "violates PodSecurity" in text, text
        compared += 1
        if (response.status == 201) != (violations(judged, level) == ()):
            differences.append(f"{name}: {text[:300]}")

    assert differences == []
    assert compared >= COMPARED_AT_LEAST[level]


def test_every_allowed_volume_type_is_compared() -> None:
    assert set(VOLUMES) >= RESTRICTED_VOLUMES
