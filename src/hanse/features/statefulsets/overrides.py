"""What differs in single clusters: storage class, nodes, resources, environment, registry."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hanse.features.statefulsets.names import OVERRIDES
from hanse.model.json_input import decode_json
from hanse.model.kinds.apps import StatefulSetSpec
from hanse.model.objects import ClusterId, Wire

ALL = "*"
EXAMPLE = '{"lubeck": {"storageClassName": "fast", "nodeSelector": {"disk": "ssd"}}}'


class LoadBalancerOverride(
    Struct, frozen=True, forbid_unknown_fields=True, rename={"class_name": "class"}
):
    """The load balancers of a cluster's replicas."""

    annotations: dict[str, str] = {}
    class_name: str = ""


class Override(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What differs in one cluster."""

    storage_class_name: str = ""
    node_selector: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()
    resources: dict[str, dict[str, Any]] = {}
    """By container."""
    env: dict[str, str] = {}
    """Set in every container."""
    image_registry: str = ""
    load_balancer: LoadBalancerOverride = LoadBalancerOverride()


class Overrides(Struct, frozen=True):
    """The overrides of all clusters, and their errors."""

    by_cluster: dict[str, Override] = {}
    errors: tuple[str, ...] = ()

    def of(self, cluster: ClusterId) -> Override:
        """The override of one cluster; else that of `*`, else an empty one; they are not merged."""
        return self.by_cluster.get(cluster) or self.by_cluster.get(ALL) or Override()


def parse_overrides(text: str) -> Overrides:
    """Parse the annotation; if it is invalid, no overrides and an error in the result.

    No overrides and no error for an empty text.
    """
    if not text:
        return Overrides()
    try:
        return Overrides(decode_json(text, type=dict[str, Override]))
    except msgspec.DecodeError as error:
        return Overrides(errors=(f"annotation {OVERRIDES}: {error}; write it as {EXAMPLE}",))


def overridden_spec(spec: StatefulSetSpec, override: Override) -> StatefulSetSpec:
    """The spec with a cluster's storage class, and its override of the pod template."""
    if override == Override():
        return spec
    claims = spec.volume_claim_templates
    if override.storage_class_name:
        claims = tuple(_with_class(claim, override.storage_class_name) for claim in claims)
    return replace(
        spec, template=_pod_template(spec.template, override), volume_claim_templates=claims
    )


def _with_class(claim: Wire, storage_class: str) -> Wire:
    """The claim template with this storage class."""
    return {**claim, "spec": {**claim.get("spec", {}), "storageClassName": storage_class}}


def _pod_template(template: Wire, override: Override) -> Wire:
    """A copy of the pod template with the override merged into nodeSelector and containers.

    Init containers are among these. Tolerations are added.
    """
    pod: Wire = dict(template.get("spec") or {})
    if override.node_selector:
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), **override.node_selector}
    if override.tolerations:
        pod["tolerations"] = [*(pod.get("tolerations") or ()), *override.tolerations]
    for field in ("initContainers", "containers"):
        if pod.get(field):
            pod[field] = [_container(each, override) for each in pod[field]]
    return {**template, "spec": pod}


def _container(container: Wire, override: Override) -> Wire:
    """A container with the override's variables and image registry.

    Its resources are replaced, not merged, if the override names the container.
    """
    changed = dict(container)
    if resources := override.resources.get(str(container.get("name"))):
        changed["resources"] = resources
    if override.env:
        changed["env"] = list(_env(container.get("env") or (), override.env))
    if override.image_registry and container.get("image"):
        changed["image"] = _with_registry(str(container["image"]), override.image_registry)
    return changed


def _env(present: Iterable[Wire], env: dict[str, str]) -> Iterator[Wire]:
    """The container's variables with those of the override replaced, then the override's others.

    The latter by name.
    """
    names = {str(each.get("name")) for each in present}
    for each in present:
        name = str(each.get("name"))
        yield {"name": name, "value": env[name]} if name in env else each
    for name in sorted(env.keys() - names):
        yield {"name": name, "value": env[name]}


def _with_registry(image: str, registry: str) -> str:
    """The image in another registry; its own registry, if it names one, is replaced.

    The first part of the name is a registry if it has a dot or colon, or is `localhost`.
    """
    first, slash, rest = image.partition("/")
    is_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return f"{registry.rstrip('/')}/{rest if is_registry else image}"
