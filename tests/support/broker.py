"""A broker that scenarios share, one after the other."""

from contextlib import suppress

from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.kube.transport import Request
from hanse.model.naming import BROKER_NAMESPACE

_INSIDE = f"namespaces/{BROKER_NAMESPACE}"
_COLLECTIONS = (
    "/apis/hanse.dev/v1alpha1/clustersets",
    f"/apis/discovery.k8s.io/v1/{_INSIDE}/endpointslices",
    f"/apis/multicluster.x-k8s.io/v1beta1/{_INSIDE}/serviceimports",
    f"/apis/coordination.k8s.io/v1/{_INSIDE}/leases",
    f"/apis/hanse.dev/v1alpha1/{_INSIDE}/clustermembers",
    f"/apis/hanse.dev/v1alpha1/{_INSIDE}/statefulsetparts",
)


async def clear_broker(admin: Client) -> None:
    """Delete what agents share on a broker, and every ClusterSet.

    The first ClusterSet by name counts: one that a scenario left would rule the next ones.
    """
    for path in _COLLECTIONS:
        with suppress(NotFound):
            await admin.send(Request("DELETE", path))
