"""The replicated part of a policy, its digest, and patches between versions of it."""

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from hanse.model.kinds.antrea import AntreaClusterNetworkPolicy, AntreaNetworkPolicy
from hanse.model.kinds.federation import label_spellings, spelled_value
from hanse.model.objects import Meta, Wire
from hanse.model.plan import Key

Policy: TypeAlias = AntreaClusterNetworkPolicy | AntreaNetworkPolicy

FEDERATED = "federated.anp.antreaplus.vmware.com"
_FEDERATED = label_spellings("federated.anp")
LEDGER_PREFIX = "ledger.hanse.dev/"
_BOOKKEEPING = (
    "hanse.dev/",
    LEDGER_PREFIX,
    "kubectl.kubernetes.io/last-applied-configuration",
    *_FEDERATED,
)

CLUSTER_WIDE = "acnp"
NAMESPACED = "anp"
KINDS: Mapping[str, type[Policy]] = {
    CLUSTER_WIDE: AntreaClusterNetworkPolicy,
    NAMESPACED: AntreaNetworkPolicy,
}
"""The kinds of policy by the topic of their keys."""

DEFAULT_TIER = "application"
_GENERATED_RULE = re.compile(r"(ingress|egress)-(allow|drop|reject|pass)-[0-9a-f]{7,8}")


class Content(Struct, frozen=True, omit_defaults=True):
    """The part of a policy that is the same in every member."""

    spec: Wire = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def policy_key(policy: Policy) -> Key:
    """The key of a policy: topic `acnp` if it is cluster-wide, else `anp`, name and namespace."""
    topic = CLUSTER_WIDE if isinstance(policy, AntreaClusterNetworkPolicy) else NAMESPACED
    return Key(topic, policy.metadata.name, policy.metadata.namespace)


def is_federated(policy: Policy) -> bool:
    """Whether the annotation `federated.anp.DOMAIN` is `true`.

    Of several known domains that a policy is annotated with, the first counts.
    """
    return spelled_value(policy.metadata.annotations, "federated.anp") == "true"


def replicated_content(policy: Policy) -> Content:
    """A policy's spec as it is, and its labels and annotations without bookkeeping.

    Left out are those of Hanse, kubectl's last-applied-configuration, and the federation
    annotation.
    """
    meta = policy.metadata
    return Content(policy.spec, _user_metadata(meta.labels), _user_metadata(meta.annotations))


def content_digest(content: Content) -> str:
    """A hash, of 16 hexadecimal digits, of a policy's normalized spec, labels and annotations.

    Empty fields and Antrea's defaults do not change it.
    """
    normal = (normalize_spec(content.spec), content.labels, content.annotations)
    return _hash(msgspec.json.encode(normal, order="deterministic"))


def build_policy(key: Key, content: Content, annotation: Mapping[str, str]) -> Policy:
    """The object of a policy with this content, to be created in another member; it is not written.

    It gets the federation annotation `true` and those in `annotation`, which go before the
    content's.
    """
    kind = KINDS[key.topic]
    meta = Meta(
        name=key.name,
        namespace=key.namespace,
        labels=dict(content.labels),
        annotations={**content.annotations, FEDERATED: "true", **annotation},
    )
    return kind(metadata=meta, spec=content.spec)


def patch_to_content(
    content: Content, current: Policy, more_annotations: Mapping[str, str | None]
) -> Wire:
    """The merge patch that gives a policy exactly this spec and these labels and annotations.

    Those of Hanse and kubectl stay. `more_annotations` are set besides; None in it removes one. The
    patch always has `metadata`, even if nothing differs, and `spec` only if that differs.
    """
    meta = current.metadata
    labels = _replacing_patch(content.labels, _user_metadata(meta.labels))
    annotations = {
        **_replacing_patch(content.annotations, _user_metadata(meta.annotations)),
        **more_annotations,
    }
    spec = _replacing_patch(content.spec, current.spec)
    change: Wire = {"metadata": {"labels": labels, "annotations": annotations}}
    return {**change, "spec": spec} if spec else change


def patch_to_unfederated(current: Policy) -> Wire:
    """The merge patch that makes a policy local, by removing annotations.

    It removes `ledger.hanse.dev/*` and, if its federation annotation is `true`, that in all
    spellings; one with another value, by which users ended the federation themselves, stays.
    """
    ours = (*_FEDERATED, LEDGER_PREFIX) if is_federated(current) else (LEDGER_PREFIX,)
    owned = [name for name in current.metadata.annotations if name.startswith(ours)]
    return {"metadata": {"annotations": dict.fromkeys(owned)}}


def normalize_spec(spec: Wire) -> Wire:
    """A copy of a spec without empty top-level fields and without Antrea's defaults.

    These are the tier `application` and, in rules, generated names, disabled logging and None.
    """
    normal = {name: value for name, value in spec.items() if not _is_default(name, value)}
    for direction in ("ingress", "egress"):
        rules = normal.get(direction)
        if isinstance(rules, list):
            normal[direction] = [_normal_rule(rule) for rule in rules]
    return normal


def _is_default(name: str, value: Any) -> bool:
    """Whether a top-level field of the spec is None, [], {}, or the default tier."""
    return value in (None, [], {}) or (name == "tier" and value == DEFAULT_TIER)


def _normal_rule(rule: Any) -> Any:
    """A rule without its defaults; a value that is no object is returned as it is."""
    if not isinstance(rule, dict):
        return rule
    return {name: value for name, value in rule.items() if not _is_rule_default(name, value)}


def _is_rule_default(name: str, value: Any) -> bool:
    """Whether a rule's field is a generated name, None, or disabled logging."""
    if name == "name":
        return isinstance(value, str) and _GENERATED_RULE.fullmatch(value.lower()) is not None
    return value is None or (name == "enableLogging" and value is False)


def _user_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations without those of Hanse, of kubectl, and the federation annotation."""
    return {name: value for name, value in metadata.items() if not name.startswith(_BOOKKEEPING)}


def _replacing_patch(desired: Mapping[str, Any], current: Mapping[str, Any]) -> Wire:
    """The merge patch that turns `current` into `desired`, recursively; empty if they are equal.

    A name that `desired` lacks is None in it; lists are replaced as a whole.
    """
    change: Wire = dict.fromkeys(current.keys() - desired.keys())
    for name, value in desired.items():
        inner = current.get(name)
        if value == inner:
            continue
        both = isinstance(value, dict) and isinstance(inner, dict)
        change[name] = _replacing_patch(value, inner) if both and isinstance(inner, dict) else value
    return change


@lru_cache(maxsize=65536)
def _hash(encoded: bytes) -> str:
    """The BLAKE2b digest of 8 bytes in hexadecimal, cached."""
    return blake2b(encoded, digest_size=8).hexdigest()
