"""Objects that the tests give to kubectl."""

from typing import Any

GROUP = "sea.example.com"


def configmap(name: str, data: dict[str, str] | None = None, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        **({"data": data} if data else {}),
    }


def deployment(name: str, replicas: int = 2, image: str = "nginx:1") -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    }


def listed(*objects: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def crd() -> dict[str, Any]:
    spec = {
        "type": "object",
        "description": "How the ship is built.",
        "required": ["masts"],
        "properties": {
            "masts": {
                "type": "integer",
                "minimum": 1,
                "description": "How many masts she carries.",
            },
            "rig": {"type": "string", "enum": ["square", "gaff"], "default": "gaff"},
            "cargo": {"type": "array", "items": {"type": "string"}},
            "replicas": {"type": "integer"},
        },
    }
    status = {
        "type": "object",
        "properties": {
            "state": {"type": "string"},
            "replicas": {"type": "integer"},
            "conditions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                },
            },
        },
    }
    schema = {
        "type": "object",
        "description": "A ship of the league.",
        "properties": {"spec": spec, "status": status},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Masts", "type": "integer", "jsonPath": ".spec.masts"},
            {"name": "Rig", "type": "string", "jsonPath": ".spec.rig", "priority": 1},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"ships.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "ships", "singular": "ship", "kind": "Ship", "shortNames": ["sh"]},
            "versions": [version],
        },
    }


def ship(name: str = "anna", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Ship",
        "metadata": {"name": name},
        "spec": {"masts": 3, **spec},
    }
