"""Creates the default ServiceAccount and the root CA ConfigMap of every namespace."""

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
    """Enqueues a namespace, and that of a changed default object."""

    name = "namespace-defaults"
    watches = frozenset((NAMESPACES, SERVICE_ACCOUNTS, CONFIG_MAPS))

    def __init__(self, root_ca: str = "") -> None:
        """`root_ca` is the PEM that each namespace gets in the ConfigMap kube-root-ca.crt."""
        self._root_ca = root_ca

    def keys_for(self, change: Change, lister: Lister) -> Iterable[Key]:  # noqa: ARG002 - the contract's
        """The key of a namespace, also when a default object in it is modified or deleted."""
        if change.store == NAMESPACES:
            yield Key(NAMESPACES, "", name_of(change.object))
        elif change.type != "ADDED" and name_of(change.object) in (ACCOUNT, ROOT_CA):
            yield Key(NAMESPACES, "", namespace_of(change.object))

    def reconcile(self, key: Key, lister: Lister) -> Result:
        """The writes that create the default ServiceAccount if absent, and publish the root CA.

        No writes if the namespace is absent or terminating.
        """
        namespace = lister.get(NAMESPACES, "", key.name)
        if namespace is None or is_deleting(namespace):
            return DONE
        writes: list[Write] = []
        if lister.get(SERVICE_ACCOUNTS, key.name, ACCOUNT) is None:
            metadata = {"name": ACCOUNT, "namespace": key.name}
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
            writes.append(Create(SERVICE_ACCOUNTS, account))
        writes += root_ca_writes(
            key.name, lister.get(CONFIG_MAPS, key.name, ROOT_CA), self._root_ca
        )
        return Result(tuple(writes))


def root_ca_writes(namespace: str, existing: Object | None, certificate: str) -> list[Write]:
    """The write that publishes the root CA in kube-root-ca.crt; empty if it is up to date.

    Empty also while the ConfigMap is being deleted. Other keys in it are removed.
    """
    desired = {"ca.crt": certificate}
    if existing is None:
        description = (
            "Contains a CA bundle that can be used to verify the kube-apiserver when using "
            "internal endpoints such as the internal service IP or kubernetes.default.svc. "
            "No other usage is guaranteed across distributions of Kubernetes clusters."
        )
        metadata = {
            "name": ROOT_CA,
            "namespace": namespace,
            "annotations": {"kubernetes.io/description": description},
        }
        config_map = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": desired,
        }
        return [Create(CONFIG_MAPS, config_map)]
    if existing.get("data") == desired or is_deleting(existing):
        return []
    removed = {name: None for name in existing.get("data") or () if name not in desired}
    return [Patch(CONFIG_MAPS, existing, {"data": {**removed, **desired}})]
