"""Shared parts of the webhooks: the network of an object, trusted users, and live reads."""

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import msgspec
from msgspec import Struct

from hanse.features.networks.lookups import labelled_network
from hanse.features.networks.names import NETWORK, TENANT, NetworkName, is_managed
from hanse.features.networks.options import NetworksOptions
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Deny, NeedsAnswer
from hanse.model.facts import Answer, is_recent
from hanse.model.kinds.core import Namespace
from hanse.model.kinds.networks import Network
from hanse.model.objects import ClusterObjectRef, Object, ObjectRef, Wire
from hanse.model.plan import Read
from hanse.model.snapshot import Snapshot

O = TypeVar("O", bound=Object)  # noqa: E741 - an object

TENANT_NAMESPACES: Wire = {"matchExpressions": [{"key": TENANT, "operator": "Exists"}]}
OTHER_NAMESPACES: Wire = {"matchExpressions": [{"key": TENANT, "operator": "DoesNotExist"}]}
READ_MAX_AGE = timedelta(seconds=2)
"""How long the answer to a live read is used."""

SYSTEM_USERS = ("system:kube-controller-manager", "system:kube-scheduler", "system:apiserver")


class ReadRequired(Exception):
    """Raised if an object must be read live before there can be a verdict."""

    def __init__(self, ask: NeedsAnswer) -> None:
        """`ask` is the verdict that makes the webhook server read and review again."""
        super().__init__(ask)
        self.ask = ask


class RequestDenied(Exception):
    """Raised to deny a request from nested functions."""

    def __init__(self, message: str, code: int = 403) -> None:
        """The request is denied with this message and HTTP code."""
        super().__init__(message)
        self.deny = Deny(message, code)


def evaluate(
    admit: Callable[[AdmissionRequest, Snapshot], AdmissionDecision],
    review: AdmissionRequest,
    snapshot: Snapshot,
) -> AdmissionDecision:
    """The decision of `admit`, whether it returns it or raises `ReadRequired` or `RequestDenied`.

    These become NeedsAnswer and Deny; other exceptions pass.
    """
    try:
        return admit(review, snapshot)
    except ReadRequired as missing:
        return missing.ask
    except RequestDenied as refused:
        return refused.deny


class NetworkMembership(Struct, frozen=True):
    """The tenant and network of an object."""

    tenant: str
    name: NetworkName
    network: Network


def is_trusted(review: AdmissionRequest, options: NetworksOptions) -> bool:
    """Whether the user is an agent or system component, or in one of the administrators' groups.

    All by the options, apart from the system components.
    """
    return (
        review.user in options.agents
        or review.user in SYSTEM_USERS
        or any(group in options.admins for group in review.groups)
    )


def is_own_write(review: AdmissionRequest, options: NetworksOptions) -> bool:
    """Whether a trusted user writes an object with the owner label of this feature.

    By the new object, which a deletion does not have.
    """
    return is_managed(labels_of(review.object)) and is_trusted(review, options)


def labels_of(wire: Wire) -> dict[str, str]:
    """The labels of a wire object; empty if they are missing or malformed."""
    found = (wire.get("metadata") or {}).get("labels")
    return found if isinstance(found, dict) else {}


def annotations_of(wire: Wire) -> dict[str, str]:
    """The annotations of a wire object; empty if they are missing or malformed."""
    found = (wire.get("metadata") or {}).get("annotations")
    return found if isinstance(found, dict) else {}


def get_or_read(kind: type[O], name: str, snapshot: Snapshot) -> O | None:
    """A cluster-scoped object of the snapshot; if it is not there, as a live read answered.

    None if it does not exist. Raises `ReadRequired` without an answer of the last 2 seconds, and
    `RequestDenied` (503) if the read failed.
    """
    found = snapshot.get(snapshot.local, kind, name)
    return found if found is not None else _read(kind, name, snapshot)


def _read(kind: type[O], name: str, snapshot: Snapshot) -> O | None:
    """A cluster-scoped object as a live read answered; None if it does not exist.

    Raises `ReadRequired` without an answer of the last 2 seconds, and `RequestDenied` (503) if the
    read failed.
    """
    question = Read(ClusterObjectRef(snapshot.local, ObjectRef(kind.kind, name)))
    answer = snapshot.fact(Answer, question.id)
    if answer is None or not is_recent(answer.at, snapshot.now, READ_MAX_AGE):
        raise ReadRequired(NeedsAnswer(question))
    if answer.error:
        raise RequestDenied(f"{kind.kind} {name} could not be read; try again", 503)
    return None if answer.value is None else msgspec.convert(answer.value, kind, strict=False)


def read_tenant(namespace: str, snapshot: Snapshot) -> str:
    """The tenant label of a namespace; by a live read if the snapshot has no label.

    Empty if the namespace has none, or does not exist. Raises `ReadRequired` without an answer of
    the last 2 seconds, and `RequestDenied` (503) if the read failed.
    """
    found = snapshot.get(snapshot.local, Namespace, namespace)
    if found is None or TENANT not in found.metadata.labels:
        found = _read(Namespace, namespace, snapshot)
    return found.metadata.labels.get(TENANT, "") if found is not None else ""


def resolve_network(
    labels: dict[str, str], namespace: str, snapshot: Snapshot, field: str
) -> NetworkMembership:
    """The network of the namespace's tenant that the network label selects, or `default`.

    Raises `RequestDenied` if it does not exist, the tenant label is another's or a read failed;
    `ReadRequired` while that is not known. `field` is the labels' path for messages.
    """
    tenant = read_tenant(namespace, snapshot)
    labelled = labels.get(TENANT, tenant)
    if labelled != tenant:
        raise RequestDenied(
            f"{field}[{TENANT}]: namespace {namespace} belongs to tenant {tenant}, "
            f"not to {labelled[:63]}; remove the label"
        )
    name = labelled_network(labels, tenant)
    network = get_or_read(Network, str(name), snapshot)
    if network is None or network.spec.tenant != tenant:
        raise RequestDenied(
            f"{field}[{NETWORK}]: tenant {tenant} has no network {name.network[:63]}; "
            f"create Network {name}, or name another"
        )
    return NetworkMembership(tenant, name, network)
