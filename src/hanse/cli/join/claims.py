"""A cluster's ClusterClaims, which are checked before anything is written to it."""

from collections.abc import Mapping

from hanse.cli.errors import InputError
from hanse.features.federation.claims import SUPERVISOR_MARK
from hanse.kube.client import Client
from hanse.kube.optional_reads import list_or_empty
from hanse.model.kinds.federation import CLUSTER_ID, ClusterClaim, spelled_value


async def read_claims(client: Client) -> dict[str, str]:
    """Read ClusterClaims: values by the property they are about; empty if they are not served."""
    return {c.about: c.value for c in await list_or_empty(client, ClusterClaim)}


def is_supervisor(claims: Mapping[str, str]) -> bool:
    """Whether the claim that marks supervisors is there, in any spelling, and is not `false`."""
    return spelled_value(claims, SUPERVISOR_MARK) not in (None, "false")


def check_cluster_id(claims: Mapping[str, str], context: str, cluster: str) -> None:
    """Raise `InputError` if a ClusterClaim has another id than `cluster`; without one any is fine.

    `context` is named in the error's text.
    """
    known = claims.get(CLUSTER_ID, "")
    if known and known != cluster:
        raise InputError(
            f"{context} says that it is {known!r} (ClusterClaim {CLUSTER_ID}); "
            f"use --cluster-id {known}"
        )
