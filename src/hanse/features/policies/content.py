"""What is replicated of a policy, and when two of them say the same."""

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from hanse.model.kinds.antrea import AntreaNetworkPolicy, ClusterNetworkPolicy
from hanse.model.kinds.federation import label_spellings, spelled
from hanse.model.objects import Meta, Wire
from hanse.model.plan import Key

Policy: TypeAlias = ClusterNetworkPolicy | AntreaNetworkPolicy

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
    CLUSTER_WIDE: ClusterNetworkPolicy,
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
    """The decision that a policy belongs to."""
    topic = CLUSTER_WIDE if isinstance(policy, ClusterNetworkPolicy) else NAMESPACED
    return Key(topic, policy.metadata.name, policy.metadata.namespace)


def is_federated(policy: Policy) -> bool:
    """Whether its users want it in every member."""
    return spelled(policy.metadata.annotations, "federated.anp") == "true"


def replicated_content(policy: Policy) -> Content:
    """What a policy says, as it stands, without anybody's bookkeeping."""
    meta = policy.metadata
    return Content(policy.spec, _user_metadata(meta.labels), _user_metadata(meta.annotations))


def content_digest(content: Content) -> str:
    """A short name of what a policy means: what admission fills in makes no difference."""
    normal = (normalize_spec(content.spec), content.labels, content.annotations)
    return _hash(msgspec.json.encode(normal, order="deterministic"))


def build_policy(key: Key, content: Content, mark: Mapping[str, str]) -> Policy:
    """The policy as it is created in another member."""
    kind = KINDS[key.topic]
    meta = Meta(
        name=key.name,
        namespace=key.namespace,
        labels=dict(content.labels),
        annotations={**content.annotations, FEDERATED: "true", **mark},
    )
    return kind(metadata=meta, spec=content.spec)


def patch_to_content(content: Content, standing: Policy, mark: Mapping[str, str]) -> Wire:
    """The merge patch that lets a standing policy say this and nothing else."""
    meta = standing.metadata
    labels = _replacing_patch(content.labels, _user_metadata(meta.labels))
    annotations = {
        **_replacing_patch(content.annotations, _user_metadata(meta.annotations)),
        **mark,
    }
    spec = _replacing_patch(content.spec, standing.spec)
    change: Wire = {"metadata": {"labels": labels, "annotations": annotations}}
    return {**change, "spec": spec} if spec else change


def patch_to_unfederated(standing: Policy) -> Wire:
    """The merge patch that leaves a policy to its cluster alone."""
    ours = [
        name
        for name in standing.metadata.annotations
        if name in _FEDERATED or name.startswith(LEDGER_PREFIX)
    ]
    return {"metadata": {"annotations": dict.fromkeys(ours)}}


def normalize_spec(spec: Wire) -> Wire:
    """A spec without what Antrea's admission fills in: the tier, and names of unnamed rules."""
    normal = {name: value for name, value in spec.items() if not _is_default(name, value)}
    for direction in ("ingress", "egress"):
        rules = normal.get(direction)
        if isinstance(rules, list):
            normal[direction] = [_normal_rule(rule) for rule in rules]
    return normal


def _is_default(name: str, value: Any) -> bool:
    return value in (None, [], {}) or (name == "tier" and value == DEFAULT_TIER)


def _normal_rule(rule: Any) -> Any:
    if not isinstance(rule, dict):
        return rule
    return {name: value for name, value in rule.items() if not _is_rule_default(name, value)}


def _is_rule_default(name: str, value: Any) -> bool:
    if name == "name":
        return isinstance(value, str) and _GENERATED_RULE.fullmatch(value.lower()) is not None
    return value is None or (name == "enableLogging" and value is False)


def _user_metadata(marks: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in marks.items() if not name.startswith(_BOOKKEEPING)}


def _replacing_patch(wanted: Mapping[str, Any], standing: Mapping[str, Any]) -> Wire:
    """The merge patch that leaves nothing but what is wanted."""
    change: Wire = dict.fromkeys(standing.keys() - wanted.keys())
    for name, value in wanted.items():
        inner = standing.get(name)
        if value == inner:
            continue
        both = isinstance(value, dict) and isinstance(inner, dict)
        change[name] = _replacing_patch(value, inner) if both and isinstance(inner, dict) else value
    return change


@lru_cache(maxsize=65536)
def _hash(told: bytes) -> str:
    return blake2b(told, digest_size=8).hexdigest()
