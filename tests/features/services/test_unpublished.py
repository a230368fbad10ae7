"""An import that waits for this cluster's own export, after all others have withdrawn theirs."""

import pytest
from msgspec.structs import replace

from hanse.features.services.derived import derived_name
from hanse.features.services.names import SERVICE_NAME
from hanse.model.conditions import condition, merge_conditions
from hanse.model.facts import HolderState, LeaseLiveness
from hanse.model.kinds.core import Service, ServiceSpec
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.hanse import MemberSettings
from hanse.model.kinds.multicluster import ServiceExport, ServiceExportStatus, ServiceImport
from hanse.model.objects import Meta, Object
from hanse.model.plan import Plan
from tests.features.services.builders import (
    BROKER,
    FEATURE,
    HERE,
    HOME,
    IMPORT,
    SHOP,
    created_objects,
    desired,
    export,
    observed,
    published_slices,
    record,
    rules,
    service,
)
from tests.support.builders import stored
from tinykube.virtual_time import EPOCH

KEP = rules("kep-1645")
ADDRESS = "10.0.0.77"
DERIVED = stored(
    Service(
        metadata=Meta(
            name=derived_name(IMPORT), namespace=SHOP, labels={SERVICE_NAME: IMPORT.name}
        ),
        spec=ServiceSpec(cluster_ip=ADDRESS, cluster_ips=(ADDRESS,)),
    )
)


def plan(here: list[Object], *broker: Object) -> Plan:
    """The plan of the import while every cluster renews its Lease."""
    facts = [
        LeaseLiveness(BROKER, HOME, cluster, cluster, HolderState.READY, EPOCH)
        for cluster in (HERE, "bergen", "riga")
    ]
    return FEATURE.plan(IMPORT, observed(here, broker, facts=facts))


def imported_before(*more: Object) -> list[Object]:
    """These objects, and what is here once bergen, the only exporter so far, has withdrawn."""
    view = observed([DERIVED], [KEP, *published_slices(record("bergen"))])
    return [DERIVED, *created_objects(FEATURE.plan(IMPORT, view), IMPORT, view), *more]


def exporters(result: Plan) -> list[str]:
    [found] = desired(result, ServiceImport)
    return [c.cluster for c in found.status.clusters]


def test_an_import_stands_until_our_own_export_is_published() -> None:
    here = imported_before(export(), service())

    result = plan(here, KEP)

    [kept] = desired(result, ServiceImport)
    assert kept.spec.ips == (ADDRESS,)
    assert [s.metadata.name for s in desired(result, Service)] == [derived_name(IMPORT)]
    assert desired(result, EndpointSlice) == [], "what bergen withdrew is not kept"


@pytest.mark.parametrize("cluster", [HERE, "riga"])
def test_an_import_follows_whoever_publishes_next(cluster: str) -> None:
    here = imported_before(export(), service())

    assert exporters(plan(here, KEP, *published_slices(record(cluster)))) == [cluster]


def deleted_export() -> ServiceExport:
    made = export()
    return replace(made, metadata=replace(made.metadata, deletion_timestamp=EPOCH))


def refused_export() -> ServiceExport:
    failed = condition("Ready", False, "Failed", "the broker refused it")
    return replace(
        export(), status=ServiceExportStatus(conditions=merge_conditions((), [failed], EPOCH))
    )


OTHER_NAMESPACES = (MemberSettings(id=HERE, namespaces=("other",)),)


@pytest.mark.parametrize(
    ("here", "clusterset"),
    [
        pytest.param([service()], KEP, id="not-exported"),
        pytest.param([export()], KEP, id="without-service"),
        pytest.param([service(), deleted_export()], KEP, id="deleted"),
        pytest.param([service(), refused_export()], KEP, id="refused"),
        pytest.param(
            [service(), export()], rules("kep-1645", clusters=OTHER_NAMESPACES), id="not-allowed"
        ),
    ],
)
def test_an_import_goes_where_our_own_export_will_not_be_published(
    here: list[Object], clusterset: Object
) -> None:
    assert plan(imported_before(*here), clusterset) == Plan()


def test_our_own_export_that_is_no_longer_allowed_is_not_awaited() -> None:
    before = [DERIVED, service(), export()]
    view = observed(before, [KEP, *published_slices(record(HERE))])
    here = [*before, *created_objects(FEATURE.plan(IMPORT, view), IMPORT, view)]

    assert exporters(plan(here, KEP)) == [HERE], "the broker has lost what we published"
    assert plan(here, rules("kep-1645", clusters=OTHER_NAMESPACES)) == Plan()


def test_an_export_that_is_not_published_yet_makes_no_import() -> None:
    assert plan([export(), service()], KEP) == Plan()
