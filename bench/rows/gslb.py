"""Global load balancing: 5,000 hosts planned, ten thousand members probed, failover, weights."""

import asyncio
import gc
import resource
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from random import Random
from typing import cast

import dns.message
from msgspec.structs import replace

from bench.figures import AtMost, Figure
from bench.row import Effort, Once, Row
from hanse.dns.compiler import Compiler
from hanse.dns.listeners import bind_listeners
from hanse.dns.server import ServedView, serving
from hanse.dns.updater import ViewUpdater
from hanse.features.gslb.feature import Gslb
from hanse.features.gslb.keys import all_keys
from hanse.features.gslb.names import TERM, site_of
from hanse.features.gslb.zone import GlobalZone
from hanse.kube.clock import WallClock
from hanse.kube.store import Store
from hanse.kube.watch_events import Listed
from hanse.model.dns.zones import View
from hanse.model.facts import ClusterState, Facts, Phase, Role
from hanse.model.kinds.core import LoadBalancerIngress, LoadBalancerStatus, Namespace
from hanse.model.kinds.globalservice import (
    GlobalMember,
    GlobalService,
    GlobalServiceSpec,
    GlobalServiceStatus,
    MemberHealth,
    Monitor,
)
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    AMKOClusterSpec,
    GlobalDeploymentPolicy,
    GlobalDeploymentPolicySpec,
    GSLBConfig,
    GSLBConfigSpec,
    LabelMatch,
    MatchCluster,
    MatchRules,
    MemberCluster,
)
from hanse.model.kinds.networking import Ingress, IngressRule, IngressSpec, IngressStatus
from hanse.model.objects import ClusterId, Kind, Meta, Object
from hanse.model.plan import Key
from hanse.model.probes import Probe, ProbePolicy, ProbeTarget, TargetHealth
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot
from hanse.providers.probe_sockets import SocketProbe
from hanse.providers.probes import Prober
from hanse.runtime.reconciler import Reconciler

HOSTS, SITES, PROBES = 5_000, 3, 10_000
ZONE = "bench.test"
HOST = f"web.{ZONE}"
HOME = "c0"
LABELS = {"app": "web"}
SECONDS = 10.0
QUICK = ProbePolicy(timedelta(milliseconds=200), timedelta(milliseconds=200), 1, 2)
QUESTIONS = 10_000
CHANGES = 50
NAME_SERVERS = 3


@asynccontextmanager
async def _prepared(effort: Effort) -> AsyncIterator[Once]:
    seen = _seen(effort.of(HOSTS, 50))

    async def once() -> Mapping[str, float]:
        return {
            "plan": _planned(seen) * HOSTS / effort.of(HOSTS, 50),
            "change": _planned_again(seen),
            "probes": await _probed(effort),
            "failover": await _failed_over(),
            "weights": await _weighed(effort.of(QUESTIONS, 1_000)),
        }

    yield once


def _planned(snapshot: Snapshot) -> float:
    """CPU seconds for the plans of all hosts."""
    feature = Gslb()
    gc.collect()
    began = _cpu()
    keys = [key for key in all_keys(snapshot) if key.topic == "host"]
    for key in keys:
        assert feature.plan(key, snapshot).desired, "every host has members"
    return _cpu() - began


def _planned_again(snapshot: Snapshot) -> float:
    """CPU milliseconds for one changed Ingress: its keys and their plans, on average."""
    feature = Gslb()
    found = list(snapshot.all(HOME, Ingress))[:CHANGES]
    gc.collect()
    began = _cpu()
    for obj in found:
        for key in feature.keys_for(ObjectChange(HOME, obj, obj), snapshot):
            feature.plan(key, snapshot)
    return (_cpu() - began) / len(found) * 1000


async def _probed(effort: Effort) -> float:
    """The share of a core that ten thousand members cost a name server, half TCP, half HTTP.

    Each is probed every ten seconds; the servers that answer are in the same process, and counted.
    """
    number, seconds = effort.of(PROBES, 500), effort.of(int(SECONDS), 2)
    async with _answering() as port:
        rule = ProbePolicy(interval=timedelta(seconds=seconds))
        targets = [
            ProbeTarget(
                "TCP" if n % 2 else "HTTP",
                f"127.{1 + n // 60000}.{n // 250 % 240}.{n % 250 + 1}",
                port,
            )
            for n in range(number)
        ]
        source = _Wish([Probe(target, rule) for target in targets])
        reconciler, prober = _prober(source)
        async with reconciler.running(), prober.running():
            await asyncio.sleep(seconds)  # everything was tried once and has its time
            began, tried = _cpu(), prober.probes_sent
            await asyncio.sleep(seconds)
            spent, done = _cpu() - began, prober.probes_sent - tried
    assert done >= number * 0.9, f"{done} of {number} probes were made"
    return spent / done * PROBES / SECONDS


async def _failed_over() -> float:
    """Milliseconds over the probe's rule until no name server answers with a member that died."""
    async with _answering() as port, _answering() as other, AsyncExitStack() as stack:
        several = [
            await stack.enter_async_context(_judging(port, other)) for _ in range(NAME_SERVERS)
        ]
        _STOPPED.add(port)
        began = time.perf_counter()
        asking = (asyncio.to_thread(_ask_until_alone, server) for server in several)
        out = max(await asyncio.gather(*asking))
    allowed = QUICK.interval.total_seconds() * QUICK.down
    return max(out - began - allowed, 0.0) * 1000


@asynccontextmanager
async def _judging(port: int, other: int) -> AsyncIterator[tuple[str, int]]:
    """A name server with probes of its own that has found both members up; gives its address."""
    view = View("bench", global_zones=(ZONE,))
    listeners = bind_listeners("127.0.0.1", 0, 1)
    reconciler, prober = _prober(_Wish(_watching(port, other)))
    seen = _with_service(reconciler, _service(port, other))
    compiler = Compiler(view, [GlobalZone(view)])
    try:
        async with serving([ServedView(compiler, (listeners,))]) as server:
            feed = ViewUpdater(compiler, server, seen)
            reconciler.event_handlers.append(feed.on_change)
            async with reconciler.running(), prober.running(), feed.running():
                await feed.wait_applied()
                while len(list(reconciler.informers.facts.all(TargetHealth))) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                yield listeners.address
    finally:
        listeners.close()


def _ask_until_alone(server: tuple[str, int]) -> float:
    """Ask until the first member was not told twenty times in a row; gives when that began."""
    query = dns.message.make_query(HOST, "A").to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.connect(server)
        alone, since = 0, 0.0
        while alone < 20:
            client.send(query)
            answer = client.recv(512)
            if answer.endswith(bytes((127, 0, 0, 1))):
                alone = 0
                continue
            since = time.perf_counter() if not alone else since
            alone += 1
        return since


async def _weighed(questions: int) -> float:
    """By how many per cent the worst of three weights is missed, over a real server."""
    weights = {"10.0.0.1": 13, "10.0.0.2": 5, "10.0.0.3": 2}
    members = tuple(
        GlobalMember(cluster=a, address=a, weight=weight) for a, weight in weights.items()
    )
    service = GlobalService(
        metadata=Meta(name=HOST, namespace=NAMESPACE, uid="1", resource_version="1"),
        spec=GlobalServiceSpec(host=HOST, members=members),
    )
    reconciler, _ = _prober(_Wish([]))
    view = View("bench", global_zones=(ZONE,))
    compiler, listeners = Compiler(view, [GlobalZone(view)]), bind_listeners("127.0.0.1", 0, 1)
    try:
        async with serving([ServedView(compiler, (listeners,))]) as server:
            feed = ViewUpdater(compiler, server, _with_service(reconciler, service))
            async with feed.running():
                await feed.wait_applied()
                answers = await asyncio.to_thread(_ask_many, listeners.address, questions)
    finally:
        listeners.close()
    whole = sum(weights.values())
    shares = {a: answers[socket.inet_aton(a)] / questions for a in weights}
    return max(abs(shares[a] - weights[a] / whole) / (weights[a] / whole) * 100 for a in weights)


def _ask_many(server: tuple[str, int], questions: int) -> Counter[bytes]:
    query = dns.message.make_query(HOST, "A").to_wire()
    answers: Counter[bytes] = Counter()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(10)
        client.connect(server)
        for _ in range(questions):
            client.send(query)
            answers[client.recv(512)[-4:]] += 1
    return answers


class _Wish:
    """Who wants the probes of the bench."""

    name = "bench"

    def __init__(self, wanted: Sequence[Probe]) -> None:
        self._wanted = tuple(wanted)

    def probe_keys(self, snapshot: Snapshot) -> Iterator[Key]:  # noqa: ARG002
        yield Key("bench")

    def probe_keys_for(self, change: Change, snapshot: Snapshot) -> Sequence[Key]:  # noqa: ARG002
        return () if isinstance(change, FactChange) else (Key("bench"),)

    def probes(self, key: Key, snapshot: Snapshot) -> Sequence[Probe]:  # noqa: ARG002
        return self._wanted

    def forbidden(self, snapshot: Snapshot) -> frozenset[str]:  # noqa: ARG002
        return frozenset()


def _prober(wish: _Wish) -> tuple[Reconciler, Prober]:
    reconciler = Reconciler([], HOME, clock=WallClock(), random=Random(1))
    informers = reconciler.informers
    return reconciler, Prober(informers, [wish], SocketProbe(), clock=WallClock(), loopback=True)


_STOPPED: set[int] = set()
"""Ports whose servers hang up on everybody."""


@asynccontextmanager
async def _answering() -> AsyncIterator[int]:
    """A server on all of loopback in a process of its own kind: as cheap as one can be."""
    port = 0

    class _Server(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

        def data_received(self, data: bytes) -> None:  # noqa: ARG002
            code = b"503 No" if port in _STOPPED else b"200 OK"
            self._transport.write(b"HTTP/1.1 " + code + b"\r\nContent-Length: 0\r\n\r\n")
            self._transport.close()

    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Server, "0.0.0.0", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    try:
        yield port
    finally:
        server.close()


def _watching(port: int, other: int) -> list[Probe]:
    return [
        Probe(ProbeTarget("HTTP", "127.0.0.1", port, HOST, "/"), QUICK),
        Probe(ProbeTarget("HTTP", "127.0.0.2", other, HOST, "/"), QUICK),
    ]


def _service(port: int, other: int) -> GlobalService:
    members = tuple(
        GlobalMember(
            cluster=address,
            address=address,
            monitors=(Monitor(type="HTTP", port=number, path="/"),),
        )
        for address, number in (("127.0.0.1", port), ("127.0.0.2", other))
    )
    up = tuple(MemberHealth(cluster=m.cluster, address=m.address, up=True) for m in members)
    return GlobalService(
        metadata=Meta(name=HOST, namespace=NAMESPACE, uid="1", resource_version="1"),
        spec=GlobalServiceSpec(host=HOST, members=members),
        status=GlobalServiceStatus(members=up),
    )


def _with_service(reconciler: Reconciler, service: GlobalService) -> "_Seeing":
    return _Seeing(reconciler, service)


class _Seeing:
    """What the zone sees: one service, and the engine's facts."""

    def __init__(self, reconciler: Reconciler, service: GlobalService) -> None:
        self._reconciler = reconciler
        watch = GlobalZone.watches[0]
        store: Store[GlobalService] = Store(watch.indexes)
        store.apply_event(Listed((service,), "1"))
        self._stores: dict[tuple[ClusterId, Kind], list[Store[GlobalService]]] = {
            (HOME, GlobalService.kind): [store]
        }

    def __call__(self) -> Snapshot:
        facts, now = self._reconciler.informers.facts, WallClock().now()
        return Snapshot(self._stores, facts, now, HOME)


def _seen(hosts: int) -> Snapshot:
    """Ten clusters that all serve every host, as their leader sees them."""
    names = [f"c{n}" for n in range(SITES)]
    now, facts = WallClock().now(), Facts()
    stores: dict[tuple[ClusterId, Kind], list[Store[Object]]] = {}
    feature = Gslb()
    for number, name in enumerate(names):
        role = Role.LOCAL if name == HOME else Role.SITE
        where = HOME if name == HOME else site_of(name)
        facts.put(ClusterState(where, frozenset({role}), Phase.SYNCED, now, listed=True))
        objects = [*_inputs(number, hosts), *_said(name, names)]
        for watch in feature.watches:
            if watch.role is role:
                store: Store[Object] = Store(watch.indexes)
                mine = tuple(o for o in objects if type(o) is watch.kind)
                store.apply_event(Listed(mine, "1"))
                stores.setdefault((where, watch.kind.kind), []).append(store)
    return Snapshot(stores, facts, now, HOME)


def _inputs(number: int, hosts: int) -> Iterator[Object]:
    for host in range(hosts):
        address = LoadBalancerIngress(ip=f"10.{number}.{host // 250}.{host % 250 + 1}")
        name = f"host-{host}"
        yield Ingress(
            metadata=Meta(
                name=name, namespace="web", uid=name, resource_version="1", labels=LABELS
            ),
            spec=IngressSpec(rules=(IngressRule(host=f"{name}.{ZONE}"),)),
            status=IngressStatus(load_balancer=LoadBalancerStatus(ingress=(address,))),
        )


def _said(name: str, names: Sequence[str]) -> Iterator[Object]:
    yield Namespace(metadata=Meta(name=NAMESPACE, uid=name, resource_version="1"))
    meta = Meta(name="said", namespace=NAMESPACE, uid=name, resource_version="1")
    leads = name == HOME
    yield AMKOCluster(
        metadata=replace(meta, annotations={TERM: "1"} if leads else {}),
        spec=AMKOClusterSpec(
            is_leader=leads, cluster_context=name, version="1", clusters=tuple(names)
        ),
    )
    if leads:
        members = tuple(MemberCluster(cluster_context=n) for n in names)
        yield GSLBConfig(metadata=meta, spec=GSLBConfigSpec(member_clusters=members))
        rules = MatchRules(app_selector=LabelMatch(label=LABELS))
        yield GlobalDeploymentPolicy(
            metadata=meta,
            spec=GlobalDeploymentPolicySpec(
                match_rules=rules, match_clusters=tuple(MatchCluster(cluster=n) for n in names)
            ),
        )


def _cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


GSLB = Row(
    name="gslb",
    about="5,000 hosts of 3 members planned, and one of them changed; 10,000 members probed every "
    "10 s, half TCP, half HTTP, with the servers that answer; a member that dies, until three name "
    "servers leave it out; 10,000 answers by weight",
    against="the goals of the contract",
    figures=(
        Figure("plan", "s CPU", AtMost(2.0)),
        Figure("change", "ms CPU", AtMost(5.0)),
        Figure("probes", "cores", AtMost(0.3)),
        Figure("failover", "ms over the rule", AtMost(200)),
        Figure("weights", "% missed by", AtMost(2.0)),
    ),
    prepare=_prepared,
)
