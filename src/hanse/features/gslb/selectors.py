"""Which objects a policy selects."""

from collections.abc import Mapping

from hanse.model.kinds.core import Namespace
from hanse.model.kinds.gslb import GlobalDeploymentPolicySpec, LabelMatch
from hanse.model.objects import ClusterId, Object
from hanse.model.snapshot import Snapshot


def is_selected(
    obj: Object, policy: GlobalDeploymentPolicySpec, where: ClusterId, snapshot: Snapshot
) -> bool:
    """Whether a policy selects an object by all its selectors; without any it selects nothing.

    A namespaceSelector selects nothing in a namespace that is not known.
    """
    rules = policy.match_rules
    if rules.app_selector is None and rules.namespace_selector is None:
        return False
    if not _matches(rules.app_selector, obj.metadata.labels):
        return False
    if rules.namespace_selector is None:
        return True
    namespace = snapshot.get(where, Namespace, obj.metadata.namespace)
    return namespace is not None and _matches(rules.namespace_selector, namespace.metadata.labels)


def _matches(selector: LabelMatch | None, labels: Mapping[str, str]) -> bool:
    """Whether labels contain all of a selector's; None matches all, an empty selector nothing."""
    if selector is None:
        return True
    required = selector.label.items()
    return bool(required) and all(labels.get(name) == value for name, value in required)
