"""Give the id of a cluster that is gone to another one."""

import click

from hanse.cli.member_records import (
    MemberPlace,
    delete_objects,
    find_record,
    list_prepared,
    list_published,
    set_phase,
)
from hanse.kube.client import Client
from hanse.model.kinds.hanse import ClusterMember


async def replace_member(
    broker: Client, place: MemberPlace, former: str, uid: str, *, dry_run: bool
) -> None:
    """Take the id from a cluster that is gone: delete its objects and account on the broker.

    Its record is set to `Replaced` first, and gets the new `uid` last; it stays so until the join
    goes on, so that an interrupted replacement is resumed. Prints the result, with the uid
    `former`; a dry run only prints.
    """
    name = place.broker
    published = await list_published(broker, place)
    prepared = await list_prepared(broker, place)
    if dry_run:
        click.echo(f"# {name}: would replace {place.cluster} (kube-system uid {former})")
        for one in (*published, *prepared):
            click.echo(f"# {name}: would delete {one}")
        return
    record = await find_record(broker, place)
    if record is not None and not record.has_left:
        record = await set_phase(broker, record, "Replaced")
    await delete_objects(broker, [*prepared, *published])
    await delete_objects(broker, await list_published(broker, place))  # written meanwhile
    if record is not None:
        await broker.patch(ClusterMember, place.cluster, place.namespace, {"spec": {"uid": uid}})
    count = len(published)
    click.echo(
        f"{name}: {place.cluster} (kube-system uid {former}) is replaced; "
        f"{count} object{'s' * (count != 1)} that it published and its account are deleted"
    )
