"""What could not be read of a cluster is not known: neither absent, nor down."""

from typing import Any

from hanse.app.views import Examination, examine
from hanse.cli.fleet import ClusterRead, build_fleet
from hanse.features.federated.names import FEDERATED
from hanse.kube.watch_events import Listed
from hanse.model.facts import Role
from hanse.model.findings import Finding, credentials_ref
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.kinds.federation import SYSTEM
from hanse.model.kinds.hanse import ClusterSet
from hanse.model.kinds.stateful import (
    Share,
    StatefulSetPart,
    StatefulSetShares,
    StatefulSetSharesSpec,
)
from hanse.model.objects import Meta, Object
from hanse.model.snapshot import Watch
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH


def examined(denied: type[Object], *objects: Object) -> Examination:
    """A cluster with these objects, in which one kind could not be listed."""
    kinds = {type(one) for one in objects}
    lists: dict[Watch, Listed[Any]] = {
        Watch(Role.LOCAL, kind): Listed(tuple(o for o in objects if isinstance(o, kind)), "1")
        for kind in kinds
    }
    read = ClusterRead("hub", lists, denied={denied.kind: "no answer in time"})
    return examine(build_fleet([read], EPOCH))


def unread(found: Examination) -> Finding:
    """What was not read of the cluster; its consequences are what is not known by that."""
    (one,) = [f for f in found.findings if f.subject == credentials_ref("hub", "hub")]
    return one


def test_replicas_whose_reports_were_not_read_are_not_known_instead_of_down() -> None:
    spec = StatefulSetSharesSpec(shares=(Share(name="lubeck", replicas=3),))
    shares = stored(StatefulSetShares(metadata=Meta(name="store", namespace="shop"), spec=spec))

    found = examined(StatefulSetPart, stored(ClusterSet(metadata=Meta(name="default"))), shares)

    item = found.items["statefulsets"]["shop/store"]
    assert (item.told, item.parts[0].text) == ("?/3 ready", "?/3")
    assert [lost.summary for lost in unread(found).consequences] == [
        "how many replicas of StatefulSet shop/store are ready is not known in lubeck"
    ]


def test_a_federated_service_whose_records_were_not_read_is_not_known_instead_of_absent() -> None:
    meta = Meta(name="web", namespace=SYSTEM, annotations={FEDERATED: "true"})

    found = examined(ConfigMap, stored(Service(metadata=meta)))

    item = found.items["federated"][f"{SYSTEM}/web"]
    assert (item.told, item.state) == ("not known", "warn")
    assert [lost.summary for lost in unread(found).consequences] == [
        f"who serves federated Service {SYSTEM}/web is not known"
    ]
