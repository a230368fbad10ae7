"""Check that admission policies are in force, before a token is given away."""

import asyncio
from datetime import timedelta

from hanse.cli.clusters import ClusterAccess, open_client
from hanse.cli.errors import CommandFailed
from hanse.features.services.manifests import RESERVED
from hanse.features.services.names import SOURCE_CLUSTER
from hanse.kube.client import Client
from hanse.kube.client_config import ClientConfig, Identity, StaticCredentials
from hanse.kube.errors import Forbidden
from hanse.kube.requests import create
from hanse.kube.transport import Request
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.federation import SYSTEM

IN_FORCE_TIMEOUT = timedelta(seconds=60)
"""How long an API server may take until it evaluates new policies; usually a second."""

_POLL_INTERVAL = timedelta(milliseconds=200)
_BY_POLICY = "ValidatingAdmissionPolicy"


def members_attack(broker_namespace: str) -> Request:
    """A dry-run request that creates a slice of a reserved cluster id; policies must refuse it."""
    kind = EndpointSlice.kind
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": "hanse-attack", "labels": {SOURCE_CLUSTER: RESERVED[0]}},
        "addressType": "IPv4",
        "endpoints": [],
    }
    return create(kind, broker_namespace, body, field_manager="hanse", dry_run=True)


def supervisors_attack() -> Request:
    """A dry-run request that creates a Lease that is not the member's; policies must refuse it."""
    kind = Lease.kind
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": "hanse-attack"},
        "spec": {},
    }
    return create(kind, SYSTEM, body, field_manager="hanse", dry_run=True)


async def await_policies_in_force(cluster: ClusterAccess, token: str, attack: Request) -> None:
    """Send `attack`, a dry-run request, with a new token until an admission policy refuses it.

    The attacks break the rules whose policies are written last, so that all are in force then; a
    refusal for want of rights does not end it. Raises `CommandFailed` after `IN_FORCE_TIMEOUT`, and
    any `KubeError` other than a refusal.
    """
    endpoint = (await cluster.credentials.config()).endpoint
    identity = Identity(token=token)
    async with open_client(StaticCredentials(ClientConfig(endpoint, identity))) as client:
        try:
            async with asyncio.timeout(IN_FORCE_TIMEOUT.total_seconds()):
                while not await _is_refused(client, attack):  # noqa: ASYNC110 - polls a server
                    await asyncio.sleep(_POLL_INTERVAL.total_seconds())
        except TimeoutError:
            raise CommandFailed(
                f"{cluster.name} does not enforce our admission policies, so that whoever has the "
                "token could write what is another's: it was not given away; see "
                f"kubectl --context {cluster.name} get validatingadmissionpolicies"
            ) from None


async def _is_refused(client: Client, attack: Request) -> bool:
    """Whether a ValidatingAdmissionPolicy refuses a request.

    False if it is allowed, or refused by RBAC; other errors are raised.
    """
    try:
        await client.send(attack)
    except Forbidden as error:
        return _BY_POLICY in str(error)
    return False
