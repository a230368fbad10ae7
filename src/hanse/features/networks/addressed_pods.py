"""Pods as far as they say whose an address is, for programs that hold all pods of a cluster."""

from msgspec.structs import force_setattr

from hanse.features.networks.names import APP, CNI_ARGS, DNS, NETWORK, READINESS, TENANT
from hanse.model.kinds.core import Pod, PodIP, PodSpec, PodStatus
from hanse.model.objects import Meta

_LABELS = (TENANT, NETWORK, DNS, APP)
_ANNOTATIONS = (READINESS, CNI_ARGS)
_PLAIN, _ON_HOST = PodSpec(), PodSpec(host_network=True)


class AddressedPod(Pod, frozen=True, kw_only=True):
    """A pod without the fields that its network does not depend on.

    They are dropped when it is decoded: whole pods take several times the memory.
    """

    def __post_init__(self) -> None:
        meta, spec, status = self.metadata, self.spec, self.status
        kept = Meta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            deletion_timestamp=meta.deletion_timestamp,
            labels={name: meta.labels[name] for name in _LABELS if name in meta.labels},
            annotations={n: meta.annotations[n] for n in _ANNOTATIONS if n in meta.annotations},
        )
        force_setattr(self, "metadata", kept)
        gated = PodSpec(host_network=spec.host_network, scheduling_gates=spec.scheduling_gates)
        plain = _ON_HOST if spec.host_network else _PLAIN
        force_setattr(self, "spec", gated if spec.scheduling_gates else plain)
        addresses = status.pod_ips or ((PodIP(ip=status.pod_ip),) if status.pod_ip else ())
        force_setattr(self, "status", PodStatus(phase=status.phase, pod_ips=addresses))
