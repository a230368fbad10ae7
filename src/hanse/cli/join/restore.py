"""Give members what a broker has lost with its namespace: their rights, records and Leases."""

from hanse import app
from hanse.cli.apply import AppliedManifest, Effect, apply
from hanse.cli.member_records import set_phase
from hanse.features.services import manifests
from hanse.features.services.manifests import FEATURES
from hanse.kube.client import Client
from hanse.kube.optional_reads import read_or_none
from hanse.kube.requests import resource_path
from hanse.kube.transport import Request
from hanse.model.broker_namespace import GIVEN_UP, MEMBER, accounts_namespace
from hanse.model.clusterset import CLUSTER_UID
from hanse.model.json_input import decode_json
from hanse.model.kinds.hanse import ClusterMember
from hanse.model.manifests import SERVICE_ACCOUNT
from hanse.model.objects import Wire


async def restore_members(
    client: Client, broker_namespace: str, *, dry_run: bool
) -> list[AppliedManifest]:
    """Create rights, record and Lease anew for each account of a member without a record.

    An account says by annotations which cluster, by its uid, and which features it is for; those
    without the former are skipped. Clusters that were given up get a record with the phase Left,
    and the right to read it. Returns what was made or changed, or in a dry run would be.
    """
    done: list[AppliedManifest] = []
    for account in await _accounts(client, broker_namespace):
        meta = account["metadata"]
        cluster, marks = meta["name"], meta.get("annotations") or {}
        record = await read_or_none(client, ClusterMember, cluster, broker_namespace)
        if CLUSTER_UID not in marks or record is not None:
            continue
        if marks.get(GIVEN_UP) == "true":
            done += await _restore_former(client, broker_namespace, cluster, marks, dry_run=dry_run)
            continue
        names = tuple(name for name in marks.get(FEATURES, "").split(",") if name)
        options = app.Options(broker_namespace=broker_namespace)
        access = app.broker_access(
            app.Options(features=names, broker_namespace=broker_namespace) if names else options
        )
        uid = marks[CLUSTER_UID]
        objects = manifests.member(access, broker_namespace, cluster, uid, new=True)
        done += await apply(client, objects, dry_run=dry_run)
    return [one for one in done if one.effect is not Effect.UNCHANGED]


async def _restore_former(
    client: Client, broker_namespace: str, cluster: str, marks: Wire, *, dry_run: bool
) -> list[AppliedManifest]:
    """Create the record, with phase Left and abandoned, and the rights of a cluster given up.

    If it returns, its agent reads there that it has left. Returns the effects; a dry run only
    reads.
    """
    record = manifests.member_record(broker_namespace, cluster, marks[CLUSTER_UID])
    former = manifests.former_member(broker_namespace, cluster)
    done = await apply(client, (record, *former), dry_run=dry_run)
    if not dry_run:
        made = await client.read(ClusterMember, cluster, broker_namespace)
        await set_phase(client, made, "Left", abandoned=True)
    return done


async def _accounts(client: Client, broker_namespace: str) -> list[Wire]:
    """List the labelled ServiceAccounts of members in their namespace, as JSON values."""
    path = resource_path(SERVICE_ACCOUNT, accounts_namespace(broker_namespace))
    answer = await client.send(Request("GET", path, (("labelSelector", MEMBER),)))
    listed: Wire = decode_json(answer.body)
    return list(listed.get("items") or ())
