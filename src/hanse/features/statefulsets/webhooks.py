"""The admission webhook for FederatedStatefulSets in a host cluster."""

from collections.abc import Iterator

import msgspec

from hanse.features.statefulsets.collisions import collision_error
from hanse.features.statefulsets.fleet import list_members
from hanse.features.statefulsets.names import (
    FORBIDDEN_UPDATE,
    KUBEFED_PREFIX,
    NO_AUTOSCALER,
    PREFERENCES,
    PREFIX,
    SET,
    name_error,
)
from hanse.features.statefulsets.submitted import SubmittedSet, from_federated_stateful_set
from hanse.model.admission import AdmissionDecision, AdmissionRequest, Allow, Deny, WebhookRule
from hanse.model.clusterset import broker_cluster
from hanse.model.kinds.apps import StatefulSet
from hanse.model.kinds.hanse import FederatedStatefulSet
from hanse.model.objects import ClusterId, Wire
from hanse.model.ownership import OWNER
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
_DEFAULTS = {"podManagementPolicy": "OrderedReady", "serviceName": "", "volumeClaimTemplates": []}


class FederatedStatefulSetWebhook:
    """Denies a FederatedStatefulSet that no cluster could run, with the API's own messages."""

    name = "federatedstatefulsets"
    rules: tuple[WebhookRule, ...] = (
        WebhookRule(
            ("hanse.dev",), ("federatedstatefulsets",), ("CREATE", "UPDATE"), required=False
        ),
    )

    def __init__(self, broker_namespace: str) -> None:
        self._broker_namespace = broker_namespace

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Deny undecodable or invalid sets and changed immutable fields; else allow, with warnings.

        Deletions, terminating sets, status updates, and updates that keep the spec and our
        annotations, such as those of labels, are always allowed. Only new sets are denied for a
        name that is too long for a member, or collides with another set's.
        """
        if review.operation not in ("CREATE", "UPDATE") or review.subresource == "status":
            return Allow()
        if _is_terminating(review.object) or _keeps_settings(review):
            return Allow()
        try:
            federated_set = msgspec.convert(review.object, FederatedStatefulSet)
        except msgspec.ValidationError as error:
            return Deny(f"FederatedStatefulSet {review.name}: {error}; mend that field", 422)
        if review.before and _immutable_spec(review.before) != _immutable_spec(review.object):
            return Deny(f"spec.template.spec: Forbidden: {FORBIDDEN_UPDATE}", 422)
        submitted = from_federated_stateful_set(federated_set)
        joined = _list_joined_clusters(snapshot, self._broker_namespace)
        length_error = name_error(submitted.name, joined) if not review.before else ""
        errors = [length_error] if length_error else []
        errors += [
            f for f in submitted.errors if not length_error or not f.startswith("metadata.name: ")
        ]
        broker = broker_cluster(snapshot)
        if broker is not None and not review.before:
            errors += filter(None, [collision_error(submitted, joined, snapshot, broker)])
        if errors:
            return Deny("; ".join(errors), 422)
        return Allow(warnings=tuple(_placement_warnings(submitted, joined)))


class AutoscalerWebhook:
    """Denies autoscalers of federated sets: they would scale all by the pods of one cluster."""

    name = "autoscalers"
    rules: tuple[WebhookRule, ...] = (
        WebhookRule(("autoscaling",), ("horizontalpodautoscalers",), required=False),
    )

    def review(self, review: AdmissionRequest, snapshot: Snapshot) -> AdmissionDecision:
        """Deny an autoscaler of a FederatedStatefulSet, or of a StatefulSet that Hanse owns.

        Terminating ones and updates that keep the spec are allowed.
        """
        if _is_terminating(review.object) or _keeps_spec(review):
            return Allow()
        target = review.object.get("spec", {}).get("scaleTargetRef", {})
        kind, name = target.get("kind"), str(target.get("name", ""))
        if kind == FederatedStatefulSet.kind.name:
            return Deny(NO_AUTOSCALER, 422)
        if kind == StatefulSet.kind.name:
            found = snapshot.get(snapshot.local, StatefulSet, name, review.namespace)
            if (
                found is not None
                and SET in found.metadata.labels
                and OWNER in found.metadata.labels
            ):
                return Deny(NO_AUTOSCALER, 422)
        return Allow()


def _is_terminating(wire: Wire) -> bool:
    """Whether an object is being deleted: its finalizers must not be kept by a denial."""
    return bool((wire.get("metadata") or {}).get("deletionTimestamp"))


def _keeps_spec(review: AdmissionRequest) -> bool:
    """Whether a request is an update that does not change the spec."""
    return bool(review.before) and review.object.get("spec") == review.before.get("spec")


def _keeps_settings(review: AdmissionRequest) -> bool:
    """Whether a request is an update that changes neither the spec nor annotations of ours."""
    return _keeps_spec(review) and _settings(review.object) == _settings(review.before)


def _settings(federated_set: Wire) -> Wire:
    """The annotations of a set that Hanse may read, by prefix.

    `hanse.dev/`, `statefulsets.hanse.dev/` and `federation.kubernetes.io/`.
    """
    annotations: Wire = (federated_set.get("metadata") or {}).get("annotations") or {}
    prefixes = ("hanse.dev/", f"{PREFIX}/", f"{KUBEFED_PREFIX}/")
    return {name: value for name, value in annotations.items() if name.startswith(prefixes)}


def _immutable_spec(federated_set: Wire) -> Wire:
    """`spec.template.spec` without its mutable fields, with defaults where a field is missing."""
    spec = federated_set.get("spec", {}).get("template", {}).get("spec", {})
    kept = {name: value for name, value in spec.items() if name not in MUTABLE}
    return {**_DEFAULTS, **kept}


def _list_joined_clusters(snapshot: Snapshot, broker_namespace: str) -> tuple[ClusterId, ...]:
    """The clusters of the fleet by name; empty without a broker."""
    broker = broker_cluster(snapshot)
    return (
        tuple(m.cluster for m in list_members(snapshot, broker, broker_namespace))
        if broker is not None
        else ()
    )


def _placement_warnings(submitted: SubmittedSet, joined: tuple[ClusterId, ...]) -> Iterator[str]:
    """Warnings about unknown clusters, and replicas over the sum of max or below the sum of min.

    A cluster of weight 0 adds its min to the sum of max. No warnings without members.
    """
    if not joined:
        return
    preferences = submitted.preferences.of(joined)
    where = (
        f"annotation {PREFERENCES}"
        if PREFERENCES in submitted.all_annotations
        else "spec.placement"
    )
    unknown = sorted(submitted.preferences.by_cluster.keys() - set(joined))
    if unknown:
        yield f"{where}: there is no cluster {', '.join(unknown)} in the fleet yet"
    largest = sum(
        preference.max if preference.weight else preference.min
        for preference in preferences.values()
    )
    smallest = sum(preference.min for preference in preferences.values())
    if submitted.spec.replicas > largest:
        yield f"{where}: {submitted.spec.replicas} replicas are more than max allows, {largest}"
    if submitted.spec.replicas < smallest:
        yield f"{where}: {submitted.spec.replicas} replicas are fewer than min asks for, {smallest}"
