"""Global services on an Avi controller: written, kept, and left alone where they must be."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from hanse.app import Options
from hanse.app.agent import Agent, AgentParts, AgentSettings
from hanse.features.gslb.avi import AviAccess
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.options import GslbOptions
from hanse.kube.client import Client
from hanse.kube.clock import WallClock
from hanse.kube.errors import BadCredentials, Conflict, NotFound, Throttled, Unreachable
from hanse.kube.transport import Request
from hanse.local.in_process import InProcessTransport
from hanse.model.crds import crd_of
from hanse.model.kinds.avi import AviGslbService, AviServiceSpec
from hanse.model.kinds.core import Namespace, Secret
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
    GSLBLeader,
)
from hanse.model.objects import Meta
from hanse.providers.avi import AviController, NoController
from tests.features.gslb.fleet import HOST, amko, balancer, config, policy
from tests.providers.avi_server import PASSWORD, USER, AviServer
from tinykube.apiserver import ApiServer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def avi() -> AsyncIterator[AviServer]:
    async with AviServer().running() as server:
        yield server


def controller(avi: AviServer, password: str = PASSWORD) -> AviAccess:
    url = f"https://127.0.0.1:{avi.port}"
    return AviAccess(
        url.removeprefix("https://"),
        "22.1.3",
        "admin",
        USER,
        password,
        avi.authority.certificate.decode(),
    )


@asynccontextmanager
async def client_of(avi: AviServer, password: str = PASSWORD) -> AsyncIterator[AviController]:
    made = AviController(lambda: controller(avi, password))
    try:
        yield made
    finally:
        await made.close()


def service(name: str = HOST, **spec: Any) -> AviGslbService:
    return AviGslbService(metadata=Meta(name=name), spec=AviServiceSpec(**spec))


async def test_what_is_written_is_read_back_the_same(avi: AviServer) -> None:
    async with client_of(avi) as system:
        made = await system.create(service(domain_names=(HOST,), ttl=9, health_monitors=("hm",)))

        (found,) = await system.list(AviGslbService)

    assert found == made
    assert found.spec == AviServiceSpec(domain_names=(HOST,), ttl=9, health_monitors=("hm",))
    assert avi.logins == 1


async def test_many_objects_are_listed_page_by_page(avi: AviServer) -> None:
    for n in range(450):
        avi.services[str(n)] = {"name": f"h{n}", "uuid": str(n)}

    async with client_of(avi) as system:
        assert len(await system.list(AviGslbService)) == 450


async def test_a_session_that_was_forgotten_is_begun_anew(avi: AviServer) -> None:
    async with client_of(avi) as system:
        await system.list(AviGslbService)
        avi.forget_sessions()
        await system.create(service())

    assert avi.logins == 2
    assert [one["name"] for one in avi.services.values()] == [HOST]


async def test_a_bad_password_is_reported_without_its_value(avi: AviServer) -> None:
    async with client_of(avi, "not-it") as system:
        with pytest.raises(BadCredentials, match="refuses user 'amko'") as raised:
            await system.list(AviGslbService)

    assert "not-it" not in str(raised.value)


async def test_an_authority_that_is_no_certificate_is_named(avi: AviServer) -> None:
    bad = msgspec.structs.replace(controller(avi), ca="not a certificate")
    system = AviController(lambda: bad)

    with pytest.raises(BadCredentials, match="certificateAuthorityData"):
        await system.list(AviGslbService)


async def test_a_controller_that_does_not_lead_is_not_used(avi: AviServer) -> None:
    avi.leads = False

    async with client_of(avi) as system:
        with pytest.raises(Unreachable, match="does not lead the GSLB"):
            await system.list(AviGslbService)


async def test_what_somebody_else_changed_is_not_overwritten(avi: AviServer) -> None:
    async with client_of(avi) as system:
        made = await system.create(service())
        (uuid,) = avi.services
        del avi.services[uuid]
        with pytest.raises(NotFound):
            await system.update(made)
        await system.create(service())
        with pytest.raises(Conflict):
            await system.update(made)


async def test_the_controller_says_how_long_to_wait(avi: AviServer) -> None:
    avi.failures = [(429, {"Retry-After": "7"})]

    async with client_of(avi) as system:
        with pytest.raises(Throttled) as raised:
            await system.create(service())

    assert raised.value.retry_after == timedelta(seconds=7)


async def test_a_page_of_a_proxy_is_no_answer_of_the_controller(avi: AviServer) -> None:
    avi.page = "<html>maintenance</html>"

    async with client_of(avi) as system:
        with pytest.raises(Unreachable, match="not JSON"):
            await system.list(AviGslbService)


async def test_without_a_controller_nothing_is_asked() -> None:
    system = AviController(lambda: NoController("this cluster does not lead"))

    with pytest.raises(Unreachable, match="does not lead"):
        await system.list(AviGslbService)


# -- an agent that leads


class Site:
    """One cluster with its agent, and the controller that its configuration names."""

    def __init__(self, avi: AviServer) -> None:
        self.avi = avi
        self.server = ApiServer("lubeck", clock=WallClock())
        self.admin = Client(InProcessTransport(self.server))

    async def form(self) -> None:
        for kind in (AMKOCluster, GSLBConfig, GlobalDeploymentPolicy, GSLBHostRule, GlobalService):
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            body = msgspec.json.encode(crd_of(kind))
            await self.admin.send(Request("POST", path, body=body))
        for name in (NAMESPACE, "shop"):
            await self.admin.create(Namespace(metadata=Meta(name=name)))
        login = {
            "username": USER.encode(),
            "password": PASSWORD.encode(),
            "certificateAuthorityData": self.avi.authority.certificate,
        }
        await self.admin.create(Secret(metadata=Meta(name="avi", namespace=NAMESPACE), data=login))
        leader = GSLBLeader(credentials="avi", controller_ip=f"127.0.0.1:{self.avi.port}")
        gslb_config = config("lubeck")
        gslb_config = msgspec.structs.replace(
            gslb_config, spec=msgspec.structs.replace(gslb_config.spec, gslb_leader=leader)
        )
        await self.admin.create(gslb_config)
        await self.admin.create(amko("lubeck", leads=True))
        await self.admin.create(policy("lubeck", ttl=9))
        await self.serve("10.1.0.9")

    async def serve(self, address: str) -> None:
        made = balancer("", 80, hostname=HOST)
        await self.admin.create(made)
        status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
        await self.admin.patch(type(made), "db", "shop", status, subresource="status")

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[None]:
        options = GslbOptions(providers=("avi",))
        settings = AgentSettings("lubeck", "only", replicated=False, options=Options(gslb=options))
        parts = AgentParts(local=InProcessTransport(self.server), features=(Gslb(options),))
        agent = Agent(settings, parts)
        try:
            async with agent.running():
                yield
        finally:
            await agent.close()


async def eventually(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.02)


async def test_a_leader_keeps_the_controller_as_its_clusters_are(avi: AviServer) -> None:
    site = Site(avi)
    await site.form()

    async with site.agent():
        await eventually(lambda: avi.services)
        (found,) = avi.services.values()
        assert (found["name"], found["domain_names"], found["ttl"]) == (HOST, [HOST], 9)
        (group,) = found["groups"]
        assert (group["name"], group["priority"]) == ("amko-gs-group-10", 10)
        assert [m["ip"]["addr"] for m in group["members"]] == ["10.1.0.9"]
        (monitor,) = avi.objects["healthmonitor"].values()
        assert (monitor["type"], monitor["monitor_port"]) == ("HEALTH_MONITOR_TCP", 80)
        await eventually(lambda: _created_by(avi).startswith("amko-"))

        await site.admin.patch(GlobalDeploymentPolicy, "gdp", NAMESPACE, {"spec": {"ttl": 5}})
        await eventually(lambda: next(iter(avi.services.values()))["ttl"] == 5)

        await site.admin.patch(GlobalDeploymentPolicy, "gdp", NAMESPACE, {"spec": {"ttl": None}})
        await eventually(lambda: "ttl" not in next(iter(avi.services.values())))
        await site.admin.patch(GlobalDeploymentPolicy, "gdp", NAMESPACE, {"spec": {"ttl": 5}})
        await eventually(lambda: next(iter(avi.services.values())).get("ttl") == 5)
        assert avi.logins == 1

        await site.admin.patch(AMKOCluster, "amkocluster", NAMESPACE, {"spec": {"isLeader": False}})
        await site.admin.patch(GlobalDeploymentPolicy, "gdp", NAMESPACE, {"spec": {"ttl": 6}})
        await asyncio.sleep(0.2)

    assert next(iter(avi.services.values()))["ttl"] == 5


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("secret", "there is no Secret 'avi' in avi-system"),
        ("password", "refuses user 'amko'"),
        ("leader", "does not lead the GSLB; set controllerIP"),
        ("address", "cannot connect to https://127.0.0.1:1"),
    ],
)
async def test_a_controller_that_cannot_be_used_is_told_on_the_configuration(
    avi: AviServer, fault: str, told: str
) -> None:
    site = Site(avi)
    await site.form()
    if fault == "secret":
        await site.admin.delete(Secret, "avi", NAMESPACE)
    elif fault == "password":
        await site.admin.patch(Secret, "avi", NAMESPACE, {"data": {"password": "bm90LWl0"}})
    elif fault == "address":
        change = {"spec": {"gslbLeader": {"controllerIP": "127.0.0.1:1"}}}
        await site.admin.patch(GSLBConfig, "gc-1", NAMESPACE, change)
    avi.leads = fault != "leader"

    async with site.agent(), asyncio.timeout(20):
        state = ""
        while told not in state:
            await asyncio.sleep(0.02)
            state = (await site.admin.read(GSLBConfig, "gc-1", NAMESPACE)).status.state
    assert state.startswith("error: ")
    assert "not-it" not in state


async def test_the_virtual_service_that_ako_names_is_a_member(avi: AviServer) -> None:
    site = Site(avi)
    await site.form()
    said = {
        "ako.vmware.com/controller-cluster-uuid": "cluster-1",
        "ako.vmware.com/host-fqdn-vs-uuid-map": msgspec.json.encode(
            {HOST: "virtualservice-7"}
        ).decode(),
    }
    change = {"metadata": {"annotations": said}}
    await site.admin.patch(type(balancer("")), "db", "shop", change)

    async with site.agent():
        await eventually(lambda: avi.services)
    ((member,),) = [g["members"] for s in avi.services.values() for g in s["groups"]]
    assert (member["cluster_uuid"], member["vs_uuid"]) == ("cluster-1", "virtualservice-7")


async def test_a_restart_over_a_settled_controller_writes_nothing(avi: AviServer) -> None:
    site = Site(avi)
    await site.form()
    async with site.agent():
        await eventually(lambda: avi.services and _created_by(avi) != "amko-")
        await asyncio.sleep(0.2)
    before = list(avi.writes)

    async with site.agent():
        await asyncio.sleep(0.5)

    assert avi.writes == before


async def test_the_last_member_takes_its_service_and_monitor_with_it(avi: AviServer) -> None:
    site = Site(avi)
    await site.form()

    async with site.agent():
        await eventually(lambda: avi.services)
        await site.admin.delete(type(balancer("")), "db", "shop")
        await eventually(lambda: not avi.services and not avi.objects["healthmonitor"])


async def test_services_of_others_are_left_alone(avi: AviServer) -> None:
    avi.services["theirs"] = {"name": HOST, "uuid": "theirs", "_last_modified": "1"}
    site = Site(avi)
    await site.form()

    async with site.agent():
        await asyncio.sleep(0.5)

    assert avi.services == {"theirs": {"name": HOST, "uuid": "theirs", "_last_modified": "1"}}


def _created_by(avi: AviServer) -> str:
    raised = next(iter(avi.services.values())).get("created_by", "")
    return str(raised)
