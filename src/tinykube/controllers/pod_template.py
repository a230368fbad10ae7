"""Pods from pod templates, and hashes of templates."""

import msgspec

from tinykube.controllers.objects import namespace_of, owner_reference
from tinykube.resources import Object

HASH_LABEL = "pod-template-hash"
REVISION_LABEL = "controller-revision-hash"
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193
_SAFE_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(template: Object, collisions: int = 0) -> str:
    """A hash of a template as text without vowels; equal templates have equal hashes.

    They are compared in the form of `normalized_template`. `collisions` above 0 change the hash.
    """
    content = msgspec.json.encode(normalized_template(template), order="deterministic")
    value = _FNV_OFFSET
    for byte in content + (str(collisions).encode() if collisions else b""):
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return "".join(_SAFE_CHARACTERS[ord(digit) % len(_SAFE_CHARACTERS)] for digit in str(value))


def normalized_template(template: Object) -> Object:
    """Only metadata and spec of a template, for comparison.

    The metadata is without empty fields, creationTimestamp and the label pod-template-hash.
    """
    metadata = {k: v for k, v in (template.get("metadata") or {}).items() if v}
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH_LABEL}
    metadata.pop("creationTimestamp", None)
    if labels:
        metadata["labels"] = labels
    else:
        metadata.pop("labels", None)
    return {"metadata": metadata, "spec": template.get("spec") or {}}


def with_label(template: Object, name: str, value: str) -> Object:
    """A copy of the template with a label added, or with its value replaced."""
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), name: value}
    return {**template, "metadata": {**metadata, "labels": labels}}


def pod_from_template(
    template: Object, owner: Object, metadata: Object, spec: Object | None = None
) -> Object:
    """A Pod by a template in the owner's namespace, controlled by the owner; nothing is created.

    `metadata` and `spec` are merged in and win over the template; labels and annotations are
    joined. Of the template's own metadata only labels, annotations and finalizers are taken.
    """
    template_metadata = template.get("metadata") or {}
    labels = {**(template_metadata.get("labels") or {}), **(metadata.get("labels") or {})}
    annotations = {
        **(template_metadata.get("annotations") or {}),
        **(metadata.get("annotations") or {}),
    }
    merged: Object = {
        **metadata,
        "namespace": namespace_of(owner),
        "labels": labels,
        "ownerReferences": [owner_reference(owner)],
    }
    if annotations:
        merged["annotations"] = annotations
    if finalizers := template_metadata.get("finalizers"):
        merged["finalizers"] = finalizers
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": merged,
        "spec": {**(template.get("spec") or {}), **(spec or {})},
    }
