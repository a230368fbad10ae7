"""Domain metrics: counted from the items that every presentation shows."""

from datetime import timedelta

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from hanse.app.domain_metrics import DomainMetrics
from hanse.features.services.feature import Services
from hanse.features.services.view import ServiceExporter, ServiceItem
from hanse.model.facts import HolderState, LeaseLiveness, Role, ServerClock
from hanse.model.fleet import MultiClusterSnapshot
from hanse.model.kinds.coordination import Lease, LeaseMeta, LeaseSpec, ManagedFieldsEntry
from hanse.model.naming import BROKER_NAMESPACE
from hanse.model.view import ClusterPart, FeatureItem, State
from tests.support.builders import cluster, snapshot
from tinykube.virtual_time import EPOCH


def service(state: State, *exporters: ServiceExporter) -> ServiceItem:
    return ServiceItem(
        namespace="shop",
        name="web",
        type="ClusterSetIP",
        state=state,
        ports=(),
        addresses={},
        exporters=exporters,
        importers=(),
        problems=(),
    )


def text_of(metrics: DomainMetrics) -> str:
    registry = CollectorRegistry()
    registry.register(metrics)
    return generate_latest(registry).decode()


def test_exports_and_endpoints_are_counted_by_cluster_and_state() -> None:
    metrics = DomainMetrics(lambda: MultiClusterSnapshot({}))
    lubeck = ServiceExporter(cluster="lubeck", ready=2, all=3)
    bergen = ServiceExporter(cluster="bergen", ready=0, all=1, lost=True)
    metrics.on_item("services", "shop/web", service("warn", lubeck, bergen))
    metrics.on_item("services", "shop/db", service("good", lubeck))
    metrics.on_item("services", "shop/db", None)

    text = text_of(metrics)

    assert 'hanse_services{state="warn"} 1.0' in text
    assert 'hanse_exports{cluster="bergen",state="lost"} 1.0' in text
    assert 'hanse_endpoints{cluster="lubeck",state="ready"} 2.0' in text
    assert 'hanse_endpoints{cluster="lubeck",state="all"} 3.0' in text


def test_parts_of_items_are_counted_under_the_name_of_their_view() -> None:
    metrics = DomainMetrics(lambda: MultiClusterSnapshot({}))
    part = ClusterPart(cluster="bergen", state="warn", ready=2, all=3)
    item = FeatureItem(namespace="shop", name="store", state="warn", told="2/3", parts=(part,))
    metrics.on_item("statefulsets", "shop/store", item)

    text = text_of(metrics)

    assert 'hanse_set_replicas{cluster="bergen",set="shop/store",state="ready"} 2.0' in text
    assert 'hanse_set_replicas{cluster="bergen",set="shop/store",state="all"} 3.0' in text


@pytest.mark.parametrize("members", [0, 3, -3], ids=lambda hours: f"member {hours} h ahead")
@pytest.mark.parametrize("brokers", [0, 1, -1], ids=lambda hours: f"broker {hours} h ahead")
def test_the_age_of_a_lease_is_told_by_the_clock_of_its_broker(members: int, brokers: int) -> None:
    written = EPOCH + timedelta(hours=brokers, seconds=-7)
    renewed = (written + timedelta(hours=members)).isoformat()
    fields = (ManagedFieldsEntry(time=written),)
    meta = LeaseMeta(name="bergen", namespace=BROKER_NAMESPACE, managed_fields=fields)
    lease = Lease(metadata=meta, spec=LeaseSpec(holder_identity="bergen", renew_time=renewed))
    ready = LeaseLiveness("broker", BROKER_NAMESPACE, "bergen", "bergen", HolderState.READY, EPOCH)
    seen = snapshot(
        Services(),
        "lubeck",
        [cluster("lubeck", Role.LOCAL), cluster("broker", Role.BROKER)],
        {"broker": (lease,)},
        [ready, ServerClock("broker", timedelta(hours=brokers))],
    )

    text = text_of(DomainMetrics(lambda: MultiClusterSnapshot({"lubeck": seen})))

    assert 'hanse_lease_age_seconds{cluster="bergen"} 7.0' in text
