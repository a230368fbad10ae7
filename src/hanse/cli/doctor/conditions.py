"""Findings from the conditions and phases of objects; pure."""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import ClusterLists
from hanse.cli.federated_services import FailedCondition, FederatedView
from hanse.features.statefulsets.status import SHARE_DISPUTED
from hanse.model.kinds.acceptance import AcceptancePolicy
from hanse.model.kinds.stateful import SCHEMA, newer_schema_message
from hanse.model.objects import Wire

CONDITIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "tenants": ("Tenant", ("Ready",)),
    "imports": ("ServiceImport", ("Published",)),
    "hosts": ("GlobalService", ("Published",)),
    "sets": ("StatefulSet", ("Valid", "Accepted", "Placed", "Published")),
    "hosted": ("FederatedStatefulSet", ("Valid", "Accepted", "Placed", "Published")),
}
"""By list: the kind, and the condition types that must not be False."""

PROBLEM_CONDITIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "sets": ("StatefulSet", (SHARE_DISPUTED,)),
    "hosted": ("FederatedStatefulSet", (SHARE_DISPUTED,)),
}
"""By list: the kind, and the condition types that must not be True."""

UPDATE_REMEDY = "update Hanse where it is older: every agent, name server and this program"
FOLLOW_MESSAGE = "as it says; `hanse statefulsets` shows where its replicas are"


def check_conditions(lists: ClusterLists) -> Iterator[Finding]:
    """A finding for each object with a failed condition, phase or report."""
    for status, table in (("False", CONDITIONS), ("True", PROBLEM_CONDITIONS)):
        for what, (kind, types) in table.items():
            for obj in lists[what]:
                for message in _conditions_of(obj, types, status):
                    yield _finding(lists, kind, obj, message)
    for what, (kind, read) in STATUSES.items():
        for obj in lists[what]:
            for message in filter(None, read(obj.get("status") or {})):
                yield _finding(lists, kind, obj, message)
    yield from _check_sets(lists)
    yield from _check_acceptance(lists)


def _check_acceptance(lists: ClusterLists) -> Iterator[Finding]:
    """AcceptancePolicies that agents cannot decode."""
    for policy in lists["acceptance"]:
        try:
            msgspec.convert(policy, AcceptancePolicy)
        except msgspec.ValidationError as error:
            name = policy["metadata"]["name"]
            yield Finding(
                lists.name,
                f"AcceptancePolicy {name} cannot be read, so that its last version or the "
                f"defaults count: {error}",
                f"kubectl --context {lists.name} edit acceptancepolicy {name}",
            )


def _check_sets(lists: ClusterLists) -> Iterator[Finding]:
    """Problems in clusters' reports about StatefulSets, and records of a newer schema."""
    for record in lists["shares"]:
        schema, meta = record["spec"].get("schema", SCHEMA), record["metadata"]
        if schema > SCHEMA:
            place = f"{meta['namespace']}/{meta['name']}"
            yield Finding(
                lists.name,
                f"StatefulSetShares {place}: {newer_schema_message(schema)}",
                UPDATE_REMEDY,
            )
    for part in lists["parts"]:
        spec = part["spec"]
        schema, place = spec.get("schema", SCHEMA), f"{spec['namespace']}/{spec['name']}"
        about = f"its part of StatefulSet {place}"
        if schema > SCHEMA:
            yield Finding(
                spec["cluster"], f"{about}: {newer_schema_message(schema)}", UPDATE_REMEDY
            )
        elif trouble := spec.get("trouble"):
            yield Finding(spec["cluster"], f"{about}: {trouble}", FOLLOW_MESSAGE)


def _conditions_of(obj: Wire, types: tuple[str, ...], status: str) -> Iterator[str]:
    """The messages of an object's conditions of these types that have a status."""
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one.get("type") in types and one.get("status") == status:
            yield one.get("message") or one.get("reason", "")


def _failed_phase(status: Wire) -> Iterator[str]:
    """The message of a status with phase Failed or Unknown."""
    if status.get("phase") in ("Failed", "Unknown"):
        yield str(status.get("message", ""))


def _rejection_error(status: Wire) -> Iterator[str]:
    """The error of a status that says Rejected."""
    if status.get("status") == "Rejected":
        yield str(status.get("error", ""))


def _errors_and_warnings(status: Wire) -> Iterator[str]:
    if status.get("errorStatus"):
        yield str(status["errorStatus"])
    yield from map(str, status.get("warnings") or ())


STATUSES: Mapping[str, tuple[str, Callable[[Wire], Iterator[str]]]] = {
    "networks": ("Network", _failed_phase),
    "policies": ("GlobalDeploymentPolicy", _errors_and_warnings),
    "rules": ("GSLBHostRule", _rejection_error),
}


def _finding(lists: ClusterLists, kind: str, obj: Wire, message: str) -> Finding:
    """A finding about an object, with the command that describes it."""
    meta = obj["metadata"]
    name, namespace = meta["name"], meta.get("namespace", "")
    place = f"{namespace}/{name}" if namespace else name
    where = f" -n {namespace}" if namespace else ""
    return Finding(
        lists.name,
        f"{kind} {place}: {message}",
        f"as it says; kubectl --context {lists.name}{where} describe {kind.lower()} {name}",
    )


def check_federated_services(view: FederatedView) -> tuple[Finding, ...]:
    """A finding for each condition that is False: its message says what to do."""
    return tuple(
        Finding(
            failed.cluster,
            f"{failed.object}: {failed.message}",
            f"do as it says; {_describe_command(failed)} shows when it is well again",
        )
        for failed in view.troubles
    )


def _describe_command(failed: FailedCondition) -> str:
    kind, _, key = failed.object.partition(" ")
    namespace, _, name = key.partition("/")
    return f"kubectl --context {failed.cluster} -n {namespace} describe {kind.lower()} {name}"
