"""The pods and volume claims of a StatefulSet: names, ordinals, and owners of the claims."""

from collections.abc import Mapping

from tinykube.controllers.controller import VOLUME_CLAIMS, Create, Patch, Write
from tinykube.controllers.objects import (
    desired_replicas,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    owner_references_of,
    spec_of,
    uid_of,
)
from tinykube.controllers.pod_template import REVISION_LABEL, pod_from_template
from tinykube.controllers.revisions import template_of
from tinykube.resources import Object

NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


def first_ordinal(stateful_set: Object) -> int:
    """spec.ordinals.start, 0 by default."""
    return int((spec_of(stateful_set).get("ordinals") or {}).get("start") or 0)


def ordinals_of(stateful_set: Object) -> range:
    """The ordinals of the desired pods."""
    start = first_ordinal(stateful_set)
    return range(start, start + desired_replicas(stateful_set))


def ordinal_of(stateful_set: Object, pod: Object) -> int | None:
    """A pod's ordinal; None if its name is not one of the StatefulSet."""
    parent, _, number = name_of(pod).rpartition("-")
    return int(number) if parent == name_of(stateful_set) and number.isdecimal() else None


def stateful_pod(stateful_set: Object, revision: Object, ordinal: int) -> Object:
    """The Pod of an ordinal by a revision's template, with its labels and the volumes of claims.

    hostname is the name of the pod, subdomain the StatefulSet's serviceName. Nothing is created.
    """
    name = f"{name_of(stateful_set)}-{ordinal}"
    template = template_of(revision)
    labels = {NAME_LABEL: name, INDEX_LABEL: str(ordinal), REVISION_LABEL: name_of(revision)}
    spec: Object = {"hostname": name}
    if subdomain := spec_of(stateful_set).get("serviceName"):
        spec["subdomain"] = subdomain
    claims = spec_of(stateful_set).get("volumeClaimTemplates") or ()
    if claims:
        spec["volumes"] = _volumes(stateful_set, template, ordinal)
    return pod_from_template(template, stateful_set, {"name": name, "labels": labels}, spec)


def _volumes(stateful_set: Object, template: Object, ordinal: int) -> list[Object]:
    """The volumes of the claims, then those of the template that have other names."""
    claims = claim_names(stateful_set, ordinal)
    mounted = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
        for volume, claim in claims.items()
    ]
    template_volumes = (template.get("spec") or {}).get("volumes") or ()
    return mounted + [volume for volume in template_volumes if volume["name"] not in claims]


def claim_names(stateful_set: Object, ordinal: int) -> dict[str, str]:
    """The names of an ordinal's claims, by the names of the volumeClaimTemplates."""
    templates = spec_of(stateful_set).get("volumeClaimTemplates") or ()
    owner = name_of(stateful_set)
    return {name_of(one): f"{name_of(one)}-{owner}-{ordinal}" for one in templates}


def missing_claims(stateful_set: Object, ordinal: int, claims: Mapping[str, Object]) -> list[Write]:
    """Creations of the claims of an ordinal that are not in `claims`, the existing ones by name."""
    names = claim_names(stateful_set, ordinal)
    return [
        Create(VOLUME_CLAIMS, _new_claim(stateful_set, template, names[name_of(template)]))
        for template in spec_of(stateful_set).get("volumeClaimTemplates") or ()
        if names[name_of(template)] not in claims
    ]


def _new_claim(stateful_set: Object, template: Object, name: str) -> Object:
    """A claim from its template, with the labels of the selector.

    The StatefulSet is its controller if whenDeleted of its retention policy is Delete.
    """
    match_labels = (spec_of(stateful_set).get("selector") or {}).get("matchLabels") or {}
    metadata: Object = {
        "name": name,
        "namespace": namespace_of(stateful_set),
        "labels": {**labels_of(template), **match_labels},
    }
    if annotations := template["metadata"].get("annotations"):
        metadata["annotations"] = annotations
    if _claim_retention_policy(stateful_set, "whenDeleted") == "Delete":
        metadata["ownerReferences"] = [owner_reference(stateful_set)]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec_of(template),
    }


def claim_owner_patches(
    stateful_set: Object, ordinal: int, pod: Object, claims: Mapping[str, Object]
) -> list[Write]:
    """The writes that set the owners of a pod's claims by the retention policy, if they differ.

    `claims` are the existing ones by name; absent ones are skipped.
    """
    writes: list[Write] = []
    for name in claim_names(stateful_set, ordinal).values():
        claim = claims.get(name)
        if claim is None:
            continue
        desired = _claim_owner_references(stateful_set, ordinal, pod, claim)
        if desired != owner_references_of(claim):
            body = {"metadata": {"ownerReferences": desired or None}}
            writes.append(Patch(VOLUME_CLAIMS, claim, body))
    return writes


def _claim_owner_references(
    stateful_set: Object, ordinal: int, pod: Object, claim: Object
) -> list[Object]:
    """The desired owner references of a claim: all other owners, and at most one by the policy.

    That is the pod, if its ordinal is not a desired one and whenScaled is Delete; otherwise the
    StatefulSet, if whenDeleted is Delete. Neither if another owner is the claim's controller.
    """
    own_uids = {uid_of(stateful_set), uid_of(pod)}
    others = [ref for ref in owner_references_of(claim) if ref.get("uid") not in own_uids]
    if any(ref.get("controller") for ref in others):
        return others
    scaled_down = ordinal not in ordinals_of(stateful_set)
    if scaled_down and _claim_retention_policy(stateful_set, "whenScaled") == "Delete":
        return [*others, owner_reference(pod)]
    if _claim_retention_policy(stateful_set, "whenDeleted") == "Delete":
        return [*others, owner_reference(stateful_set)]
    return others


def _claim_retention_policy(stateful_set: Object, event: str) -> str:
    """The retention policy for `whenDeleted` or `whenScaled`; Retain by default."""
    policy = spec_of(stateful_set).get("persistentVolumeClaimRetentionPolicy") or {}
    return str(policy.get(event) or "Retain")
