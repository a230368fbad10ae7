"""What is refused at a host's door before it is stored; all else is told in status."""

from collections.abc import Iterator

import msgspec

from hanse.features.statefulsets.fleet import members
from hanse.features.statefulsets.names import PREFERENCES, name_error
from hanse.features.statefulsets.submitted import SubmittedSet, from_federated_stateful_set
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, Deny, WebhookRule
from hanse.model.clusterset import broker_cluster
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.objects import ClusterId, Wire
from hanse.model.snapshot import Snapshot

MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)
_DEFAULTS = {"podManagementPolicy": "OrderedReady", "serviceName": "", "volumeClaimTemplates": []}


class FederatedStatefulSetWebhook:
    """Refuses a FederatedStatefulSet that no cluster could run, in the API's own words."""

    name = "federatedstatefulsets"
    asks: tuple[WebhookRule, ...] = (
        WebhookRule(
            ("hanse.dev",), ("federatedstatefulsets",), ("CREATE", "UPDATE"), required=False
        ),
    )

    def __init__(self, home: str) -> None:
        self._home = home

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        if review.operation not in ("CREATE", "UPDATE") or review.subresource == "status":
            return Allow()
        try:
            submitted = msgspec.convert(review.object, FederatedStatefulSet)
        except msgspec.ValidationError as error:
            return Deny(f"FederatedStatefulSet {review.name}: {error}; mend that field", 422)
        if submitted.metadata.deletion_timestamp is not None:
            return Allow()
        if review.before and _immutable(review.before) != _immutable(review.object):
            return Deny(f"spec.template.spec: Forbidden: {_FORBIDDEN}", 422)
        door = from_federated_stateful_set(submitted)
        joined = _joined(snapshot, self._home)
        long = name_error(door.name, joined) if not review.before else ""
        faults = [long] if long else []
        faults += [f for f in door.faults if not long or not f.startswith("metadata.name: ")]
        if faults:
            return Deny("; ".join(faults), 422)
        return Allow(warnings=tuple(_doubts(door, joined)))


def _immutable(submitted: Wire) -> Wire:
    spec = submitted.get("spec", {}).get("template", {}).get("spec", {})
    kept = {name: value for name, value in spec.items() if name not in MUTABLE}
    return {**_DEFAULTS, **kept}


def _joined(snapshot: Snapshot, home: str) -> tuple[ClusterId, ...]:
    broker = broker_cluster(snapshot)
    return tuple(m.cluster for m in members(snapshot, broker, home)) if broker is not None else ()


def _doubts(door: SubmittedSet, joined: tuple[ClusterId, ...]) -> Iterator[str]:
    """What is let in and yet will not come out as wished, now at least."""
    if not joined:
        return
    wishes = door.preferences.of(joined)
    where = f"annotation {PREFERENCES}" if PREFERENCES in door.marks else "spec.placement"
    unknown = sorted(door.preferences.wishes.keys() - set(joined))
    if unknown:
        yield f"{where}: there is no cluster {', '.join(unknown)} in the fleet yet"
    most = sum(wish.max if wish.weight else wish.min for wish in wishes.values())
    least = sum(wish.min for wish in wishes.values())
    if door.spec.replicas > most:
        yield f"{where}: {door.spec.replicas} replicas are more than max allows, {most}"
    if door.spec.replicas < least:
        yield f"{where}: {door.spec.replicas} replicas are fewer than min asks for, {least}"
