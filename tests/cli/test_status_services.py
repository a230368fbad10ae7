"""Exported services in `hanse status`: each one, or counts where nobody would read them."""

import pytest

from hanse.cli.status.services import MOST_LISTED, print_services
from hanse.features.services.view import ServiceExporter, ServiceItem
from hanse.model.view import State


def item(name: str, namespace: str = "shop", state: State = "good") -> ServiceItem:
    return ServiceItem(
        namespace=namespace,
        name=name,
        type="ClusterSetIP",
        state=state,
        ports=(),
        addresses={},
        exporters=(ServiceExporter(cluster="bergen", ready=int(state == "good"), all=1),),
        importers=(),
        problems=(),
    )


MANY = [
    *(item(f"web{number}") for number in range(MOST_LISTED)),
    item("api", state="bad"),
    item("ledger", "bank"),
]


def shown(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines() if line]


def test_of_many_services_those_are_listed_with_which_something_is_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_services(MANY, whole=False)

    (head, troubled, *counts) = shown(capsys)
    assert (head[0], troubled[0]) == ("SERVICE", "shop/api")
    assert counts[1:3] == [["bank", "1", "1"], ["shop", str(MOST_LISTED + 1), str(MOST_LISTED)]]


@pytest.mark.parametrize(
    ("services", "whole"), [(MANY, True), (MANY[2:], False)], ids=["on demand", "few"]
)
def test_every_service_is_listed_on_demand_or_if_they_are_few(
    capsys: pytest.CaptureFixture[str], services: list[ServiceItem], whole: bool
) -> None:
    print_services(services, whole=whole)

    assert len(shown(capsys)) == 1 + len(services)
