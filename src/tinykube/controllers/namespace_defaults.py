"""What every namespace has from its beginning: the default ServiceAccount and the cluster's CA."""

from collections.abc import Iterable

from tinykube.controllers.controller import (
    CONFIG_MAPS,
    DONE,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    Create,
    Key,
    Lister,
    Patch,
    Result,
    Write,
)
from tinykube.controllers.objects import is_deleting, name_of, namespace_of
from tinykube.resources import Object
from tinykube.storage import Change

ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"


class NamespaceDefaultsController:
    """Wakes with a namespace, and with the end of what it should have."""

    name = "namespace-defaults"
    watches = frozenset((NAMESPACES, SERVICE_ACCOUNTS, CONFIG_MAPS))

    def __init__(self, root_ca: str = "") -> None:
        self._root_ca = root_ca

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:  # noqa: ARG002 - the contract's
        if change.store == NAMESPACES:
            yield Key(NAMESPACES, "", name_of(change.object))
        elif change.type != "ADDED" and name_of(change.object) in (ACCOUNT, ROOT_CA):
            yield Key(NAMESPACES, "", namespace_of(change.object))

    def reconcile(self, key: Key, lister: Lister) -> Result:
        namespace = lister.get(NAMESPACES, "", key.name)
        if namespace is None or is_deleting(namespace):
            return DONE
        writes: list[Write] = []
        if lister.get(SERVICE_ACCOUNTS, key.name, ACCOUNT) is None:
            made = {"name": ACCOUNT, "namespace": key.name}
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": made}
            writes.append(Create(SERVICE_ACCOUNTS, account))
        writes += root_ca(key.name, lister.get(CONFIG_MAPS, key.name, ROOT_CA), self._root_ca)
        return Result(tuple(writes))


def root_ca(namespace: str, standing: Object | None, certificate: str) -> list[Write]:
    """The write by which a namespace knows the cluster's certificate authority."""
    wanted = {"ca.crt": certificate}
    if standing is None:
        note = (
            "Contains a CA bundle that can be used to verify the kube-apiserver when using "
            "internal endpoints such as the internal service IP or kubernetes.default.svc. "
            "No other usage is guaranteed across distributions of Kubernetes clusters."
        )
        metadata = {
            "name": ROOT_CA,
            "namespace": namespace,
            "annotations": {"kubernetes.io/description": note},
        }
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": wanted}
        return [Create(CONFIG_MAPS, made)]
    if standing.get("data") == wanted or is_deleting(standing):
        return []
    gone = {name: None for name in standing.get("data") or () if name not in wanted}
    return [Patch(CONFIG_MAPS, standing, {"data": {**gone, **wanted}})]
