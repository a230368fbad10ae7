"""Pods as far as they say whose an address is, for programs that hold all pods of a cluster."""

from functools import lru_cache
from sys import intern

from msgspec.structs import force_setattr

from hanse.features.networks.names import APP, CNI_ARGS, DNS, NETWORK, READINESS, TENANT
from hanse.model.kinds.core import Pod, PodIP, PodSpec, PodStatus
from hanse.model.objects import Meta, SharedLabels

_LABELS = (TENANT, NETWORK, DNS, APP)
_ANNOTATIONS = (READINESS, CNI_ARGS)
_NO_NOTES: dict[str, str] = {}
_PLAIN, _ON_HOST = PodSpec(), PodSpec(host_network=True)


class AddressedPod(Pod, frozen=True, kw_only=True):
    """A pod without the fields that its network does not depend on.

    They are dropped when it is decoded: whole pods take several times the memory. Annotations are
    for the network plugin: they go once it has attached the pod, which has an address then.
    """

    def __post_init__(self) -> None:
        """Drop all but identity, network labels and annotations, gates, phase and addresses.

        deletionTimestamp and hostNetwork are kept, too; without `podIPs` the address is that of
        `podIP`. Annotations are dropped once the pod has addresses.
        """
        meta, spec, status = self.metadata, self.spec, self.status
        addresses = status.pod_ips or ((PodIP(ip=status.pod_ip),) if status.pod_ip else ())
        notes = {n: meta.annotations[n] for n in _ANNOTATIONS if n in meta.annotations}
        kept = Meta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            deletion_timestamp=meta.deletion_timestamp,
            labels=_shared_labels(*(meta.labels.get(name) for name in _LABELS)),
            annotations=_NO_NOTES if addresses else notes,
        )
        force_setattr(self, "metadata", kept)
        gated = PodSpec(host_network=spec.host_network, scheduling_gates=spec.scheduling_gates)
        plain = _ON_HOST if spec.host_network else _PLAIN
        force_setattr(self, "spec", gated if spec.scheduling_gates else plain)
        force_setattr(self, "status", PodStatus(phase=status.phase, pod_ips=addresses))


@lru_cache(maxsize=16384)
def _shared_labels(*values: str | None) -> SharedLabels:
    """The labels `_LABELS` with these values, in that order; None leaves a label out.

    Equal values get the same object from a cache, for all pods that have them.
    """
    named = zip(_LABELS, values, strict=True)
    return SharedLabels({name: intern(value) for name, value in named if value is not None})
