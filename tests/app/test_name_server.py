"""A network's name server knows the tenant's namespaces before it is ready, and keeps them."""

from typing import Any

import pytest

from hanse.app.name_server import Judgement, NameServer
from hanse.dns.compiler import Compiler
from hanse.dns.messages import Delta
from hanse.features.networks.zone import NAMESPACES, NetworkZone
from hanse.kube.clock import WallClock
from hanse.kube.watch_events import Applied, Deleted, Listed, WatchEvent
from hanse.model.facts import Facts, Role
from hanse.model.kinds.core import ConfigMap, Service
from hanse.model.objects import Meta, Object
from hanse.runtime.informers import ClusterInformers
from tests.features.networks.test_zone import LAB, VIEW, service
from tests.support.builders import stored

HOME = LAB.dns_namespace
META = Meta(name=LAB.kube_dns, namespace=HOME, uid="1")
NAMED = stored(ConfigMap(metadata=META, data={NAMESPACES: f"acme-web {HOME}"}))
UNNAMED = stored(ConfigMap(metadata=META))
WEB = service("web", "10.1.0.5")


class Follower:
    """A name server of a network whose watch events are given by the test."""

    def __init__(self) -> None:
        zone = NetworkZone(VIEW, LAB, follow=True)
        self.compiler = Compiler(VIEW, (zone,))
        self._informers = ClusterInformers(zone.watches, Facts(), WallClock(), "here")
        self._informers.join("here", {Role.LOCAL}, self)  # type: ignore[arg-type]  # nothing is asked
        judgement = Judgement(probe=None)  # type: ignore[arg-type]  # nothing is probed
        NameServer(self.compiler, self, self._informers, WallClock(), judgement)

    def update(self, delta: Delta) -> None: ...

    async def wait_applied(self) -> None: ...

    def take(self, kind: type[Object], namespace: str, event: WatchEvent[Any]) -> None:
        """Let the watch of a kind in a namespace see an event."""
        connection = self._informers.connections["here"]
        [informer] = [
            one
            for scope, one in connection.informers.items()
            if (scope.kind, scope.namespace) == (kind, namespace)
        ]
        self._informers._handle_event(connection, informer, event)

    def list_all(self, namespace: str, *objects: Service) -> None:
        """Let all but the ConfigMap be listed in a namespace."""
        scopes = [*self._informers.connections["here"].informers]
        for scope in scopes:
            if scope.namespace == namespace and scope.kind is not ConfigMap:
                listed = objects if scope.kind is Service else ()
                self.take(scope.kind, namespace, Listed(listed, "5"))

    def is_synced(self) -> bool:
        """Whether it is ready to answer."""
        return self.compiler.synced

    def watched(self) -> set[str]:
        """The namespaces whose Services are watched."""
        scopes = self._informers.connections["here"].informers
        return {scope.namespace for scope in scopes if scope.kind is Service}

    def answers(self) -> bool:
        """Whether the name of a Service in another namespace is served."""
        while self.compiler.due:
            self.compiler.compile(self._informers.snapshot())
        return any(b"\x03web\x08acme-web" in name for name in self.compiler._owners)


@pytest.fixture
async def follower() -> Follower:
    return Follower()


async def test_it_is_synced_after_the_namespaces_that_the_last_list_names(
    follower: Follower,
) -> None:
    follower.list_all(HOME)
    follower.take(ConfigMap, HOME, Listed((NAMED,), "5"))

    assert follower.watched() == {HOME, "acme-web"}
    assert not follower.is_synced()
    follower.list_all("acme-web", WEB)
    assert follower.is_synced()
    assert follower.answers()


@pytest.mark.parametrize("lost", [Deleted(NAMED), Applied(UNNAMED), Listed((), "9")])
async def test_names_stay_while_the_config_map_names_no_namespaces(
    follower: Follower, lost: WatchEvent[ConfigMap]
) -> None:
    follower.take(ConfigMap, HOME, Listed((NAMED,), "5"))
    follower.list_all(HOME)
    follower.list_all("acme-web", WEB)
    assert follower.answers()

    follower.take(ConfigMap, HOME, lost)

    assert follower.watched() == {HOME, "acme-web"}
    assert follower.answers()


async def test_it_is_not_synced_by_a_config_map_that_names_no_namespaces(
    follower: Follower,
) -> None:
    follower.list_all(HOME)
    follower.take(ConfigMap, HOME, Listed((UNNAMED,), "5"))

    assert not follower.is_synced()
    follower.take(ConfigMap, HOME, Applied(stored(NAMED)))
    follower.list_all("acme-web", WEB)
    assert follower.is_synced()


async def test_names_go_with_a_namespace_that_is_no_longer_named(follower: Follower) -> None:
    follower.take(ConfigMap, HOME, Listed((NAMED,), "5"))
    follower.list_all(HOME)
    follower.list_all("acme-web", WEB)
    assert follower.answers()

    only_home = ConfigMap(metadata=META, data={NAMESPACES: HOME})
    follower.take(ConfigMap, HOME, Applied(stored(only_home)))

    assert follower.watched() == {HOME}
    assert not follower.answers()
