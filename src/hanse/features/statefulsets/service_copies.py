"""The copy of a headless Service in a cluster that runs replicas of its sets."""

from msgspec.structs import replace

from hanse.features.statefulsets.headless_services import service_keeper
from hanse.features.statefulsets.names import SET, user_metadata
from hanse.features.statefulsets.owned_objects import is_released_by
from hanse.model.kinds.core import Service, ServiceSpec
from hanse.model.objects import ClusterId, Meta, Object
from hanse.model.ownership import OWNER
from hanse.model.plan import Key
from hanse.model.snapshot import Snapshot


def was_kept_by_another_set(found: Object | None, key: Key) -> bool:
    """Whether a Service has our owner label and another set's name as label: this set adopts it."""
    labels = found.metadata.labels if isinstance(found, Service) else {}
    return OWNER in labels and labels.get(SET, key.name) != key.name


def headless_copy(
    service: Service | None, key: Key, snapshot: Snapshot, broker: ClusterId
) -> Service | None:
    """This cluster's copy of a set's headless Service; None where it must not be written.

    So it is if the set has none, if another set writes the Service of this name, or if users have
    made a headless one here with the same selector; one that the set released is none of users.
    """
    if service is None:
        return None
    if service_keeper(service.metadata.name, key.namespace, snapshot, broker) not in ("", key.name):
        return None
    meta, spec = service.metadata, service.spec
    current = snapshot.get(snapshot.local, Service, meta.name, meta.namespace)
    if current is not None and OWNER not in current.metadata.labels:
        same = current.headless and current.spec.selector == spec.selector
        if same and not is_released_by(current, key):
            return None
    labels = {**user_metadata(meta.labels), SET: key.name}
    return Service(
        metadata=Meta(
            name=meta.name,
            namespace=meta.namespace,
            labels=labels,
            annotations=user_metadata(meta.annotations),
        ),
        spec=copied_service_spec(spec),
    )


def copied_service_spec(spec: ServiceSpec) -> ServiceSpec:
    """A Service's spec without what each cluster assigns: addresses, families, node ports.

    clusterIP None stays, so that a headless Service remains one; ipFamilyPolicy SingleStack goes.
    """
    policy = "" if spec.ip_family_policy == "SingleStack" else spec.ip_family_policy
    cluster_ip = "None" if spec.cluster_ip == "None" else ""
    ports = tuple(replace(port, node_port=0) for port in spec.ports)
    return replace(
        spec,
        cluster_ip=cluster_ip,
        cluster_ips=(),
        ip_families=(),
        ip_family_policy=policy,
        ports=ports,
    )
