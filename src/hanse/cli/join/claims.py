"""What a cluster says about itself, asked before anything is done to it in a name."""

from collections.abc import Mapping

from hanse.cli.errors import InputError
from hanse.kube.client import Client
from hanse.kube.errors import NotFound
from hanse.model.kinds.federation import CLUSTER_ID, ClusterClaim


async def read_claims(client: Client) -> dict[str, str]:
    """The values of a cluster's claims, by what they are about."""
    try:
        return {c.about: c.value for c in (await client.list(ClusterClaim)).objects}
    except NotFound:
        return {}  # the kind itself is not there


def check_cluster_id(claims: Mapping[str, str], context: str, cluster: str) -> None:
    """Refuse an id that is not the one by which the cluster goes; one without a claim has any."""
    known = claims.get(CLUSTER_ID, "")
    if known and known != cluster:
        raise InputError(
            f"{context} says that it is {known!r} (ClusterClaim {CLUSTER_ID}); "
            f"use --cluster-id {known}"
        )
