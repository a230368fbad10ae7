"""A client of an API server without controllers, and objects to send to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from tinykube.apiserver import ApiServer
from tinykube.request import JSON, MERGE_PATCH, Request
from tinykube.users import ADMIN, User

Object = dict[str, Any]
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


class ManualClock:
    """A clock that only `advance` moves."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def now(self) -> datetime:
        return self.moment

    def advance(self, **duration: float) -> None:
        self.moment += timedelta(**duration)


class Answer(Struct, frozen=True):
    """A response with its decoded body."""

    status: int
    body: Object
    headers: dict[str, str]

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Cluster:
    """One API server, with requests by object."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        self.api = ApiServer("lubeck", clock=self.clock, seed=1, **options)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = JSON,
        user: User = ADMIN,
        accept: str = JSON,
        headers: tuple[tuple[str, str], ...] = (),
        **query: Any,
    ) -> Answer:
        text = body if isinstance(body, bytes) else msgspec.json.encode(body)
        request = Request(
            method,
            path,
            tuple((key, str(value)) for key, value in query.items()),
            b"" if body is None else text,
            kind,
            accept,
            headers=headers,
        )
        response = await self.api.send(request, user)
        plain = response.headers["content-type"].startswith("text/")
        read = {"message": response.body.decode()} if plain else msgspec.json.decode(response.body)
        return Answer(response.status, read, response.headers)

    async def create(self, path: str, obj: Object, **query: Any) -> Object:
        answer = await self.send("POST", path, obj, **query)
        assert answer.status == 201, answer.body
        return answer.body

    async def get(self, path: str) -> Object:
        answer = await self.send("GET", path)
        assert answer.status == 200, answer.body
        return answer.body

    async def merge(self, path: str, patch: Object) -> Object:
        answer = await self.send("PATCH", path, patch, kind=MERGE_PATCH)
        assert answer.status == 200, answer.body
        return answer.body

    async def names(self, path: str, **query: Any) -> list[str]:
        answer = await self.send("GET", path, **query)
        assert answer.status == 200, answer.body
        return [item["metadata"]["name"] for item in answer.body["items"]]

    @asynccontextmanager
    async def watch(self, path: str, **query: Any) -> AsyncIterator["WatchReader"]:
        asked = tuple((key, str(value)) for key, value in {"watch": "true", **query}.items())
        async with self.api.stream(Request("GET", path, asked)) as lines:
            yield WatchReader(lines)


class WatchReader:
    """Reads the events of a watch."""

    def __init__(self, lines: AsyncIterator[bytes]) -> None:
        self._lines = lines

    async def next(self) -> Object:
        event: Object = msgspec.json.decode(await anext(self._lines))
        return event

    async def next_name(self) -> tuple[str, str]:
        event = await self.next()
        return event["type"], event["object"]["metadata"].get("name", "")

    async def rest(self) -> list[Object]:
        return [msgspec.json.decode(line) async for line in self._lines]


def configmap(name: str, labels: dict[str, str] | None = None, **data: str) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


def service(name: str, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def deployment(name: str, **spec: Any) -> Object:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]},
    }
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template, **spec},
    }


def pod(name: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}], **spec},
    }


def widget(name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


_SPEC_SCHEMA: Object = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2},
        "replicas": {"type": "integer"},
        "either": {"x-kubernetes-int-or-string": True},
        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maybe": {"type": "string", "nullable": True},
        "when": {"type": "string", "format": "date-time"},
        "notes": {"type": "object", "additionalProperties": {"type": "string"}},
        "tags": {
            "type": "array",
            "maxItems": 3,
            "x-kubernetes-list-type": "set",
            "items": {"type": "string"},
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "protocol": {"type": "string", "default": "TCP"},
                },
            },
        },
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
    "oneOf": [{"required": ["size"]}, {"required": ["anything", "code"]}],
}


def widget_crd(**changes: Any) -> Object:
    schema = {
        "type": "object",
        "properties": {
            "spec": _SPEC_SCHEMA,
            "status": {
                "type": "object",
                "properties": {
                    "replicas": {"type": "integer"},
                    "ready": {"type": "boolean"},
                    "selector": {"type": "string"},
                },
            },
        },
    }
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    current = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}, "scale": scale},
        "schema": {"openAPIV3Schema": schema},
    }
    older = {
        "name": "v1beta1",
        "served": True,
        "storage": False,
        "deprecated": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [current, older],
        **changes,
    }
    return {"metadata": {"name": "widgets.example.com"}, "spec": spec}
