"""What the Avi Kubernetes operator is told of host names; we read it and never write it."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Value


class GlobalName(Value, frozen=True, kw_only=True):
    """The name under which a host is balanced over all clusters."""

    fqdn: str = ""
    include_aliases: bool = False


class VirtualHost(Value, frozen=True, kw_only=True):
    """A host of this cluster, and its global name."""

    fqdn: str = ""
    fqdn_type: str = "Exact"
    gslb: GlobalName = GlobalName()
    aliases: tuple[str, ...] = ()


class AkoHostRuleSpec(Value, frozen=True, kw_only=True):
    """Which host it is about."""

    virtualhost: VirtualHost = VirtualHost()


class AkoHostRuleStatus(Value, frozen=True, kw_only=True):
    """What the operator made of it, where there is one."""

    status: str = ""


class AkoHostRule(Object, frozen=True, kw_only=True):
    """Maps a host name of one cluster to a global one."""

    kind: ClassVar[Kind] = Kind("ako.vmware.com", "v1beta1", "HostRule", "hostrules")
    fallback_versions: ClassVar[tuple[str, ...]] = ("v1alpha1",)

    spec: AkoHostRuleSpec = AkoHostRuleSpec()
    status: AkoHostRuleStatus = AkoHostRuleStatus()
