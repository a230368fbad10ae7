"""The default network of a new tenant, from a template."""

import re
from typing import Any

import msgspec
import yaml

from hanse.features.networks.names import FINALIZER, NetworkName
from hanse.model.kinds.networks import Network
from hanse.model.objects import Meta

TENANT_HERE = "{{.}}"
_OTHER = re.compile(r"\{\{(?!\.\}\}).*?(\}\}|$)", re.DOTALL)


class InvalidTemplate(ValueError):
    """A default-network template that no network can be made of; the text says what to change."""


def default_network(template: str, tenant: str) -> Network | None:
    """The network that a tenant is given; None where the template is empty."""
    if not template.strip():
        return None
    if (other := _OTHER.search(template)) is not None:
        raise InvalidTemplate(
            f"the default-network template uses {other.group()[:40]!r}; "
            f"{TENANT_HERE} (the tenant's name) is the only substitution"
        )
    told = _document(template.replace(TENANT_HERE, tenant))
    metadata, spec = told.get("metadata") or {}, told.get("spec")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        raise InvalidTemplate("the default-network template needs metadata and spec as objects")
    short = metadata.get("name")
    if not isinstance(short, str) or not short:
        raise InvalidTemplate("the default-network template needs metadata.name, such as default")
    name = NetworkName(tenant, short.removeprefix(f"{tenant}."))
    wire = {
        "metadata": {"name": str(name), "finalizers": [FINALIZER]},
        "spec": {**spec, "tenant": tenant},
    }
    try:
        network = msgspec.convert(wire, Network)
    except msgspec.ValidationError as error:
        raise InvalidTemplate(f"the default-network template is not a Network: {error}") from None
    if network.spec.type == "vpc" and not network.spec.vpc_id:
        raise InvalidTemplate("the default-network template needs spec.vpcID for type vpc")
    marks = {n: v for n, v in (metadata.get("labels") or {}).items() if isinstance(v, str)}
    meta = Meta(name=str(name), labels=marks, finalizers=(FINALIZER,))
    return Network(metadata=meta, spec=network.spec)


def _document(text: str) -> dict[str, Any]:
    try:
        told = yaml.safe_load(text)  # JSON is YAML
    except yaml.YAMLError as error:
        where = " ".join(str(error).split())[:120]
        raise InvalidTemplate(
            f"the default-network template is neither JSON nor YAML: {where}"
        ) from None
    if not isinstance(told, dict):
        raise InvalidTemplate("the default-network template must be one object")
    return told
