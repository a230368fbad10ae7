"""The watches of the feature: here, in member clusters, and at an Avi controller."""

from collections.abc import Iterator
from typing import Any

from hanse.features.gslb.aliases import RULES_BY_ALIAS, RULES_WITH_ALIASES
from hanse.features.gslb.backends import (
    BY_BALANCER_NAME,
    ROUTES_BY_GATEWAY,
    SLICES_BY_SERVICE,
    SOURCE_KINDS,
    SOURCES_BY_BACKEND,
    SOURCES_BY_HOST,
)
from hanse.features.gslb.configuration import RULES_BY_FQDN
from hanse.features.gslb.deletion import DEFINITION_WATCHES
from hanse.features.gslb.diagnostics import (
    CONTESTED_SERVICES,
    CROWDED_SERVICES,
    SUSPECT_GATEWAYS,
    SUSPECT_SOURCES,
)
from hanse.features.gslb.mapping import RULES_BY_GLOBAL_NAME, RULES_BY_LOCAL_NAME
from hanse.features.gslb.names import SECRET
from hanse.features.gslb.routes import GATEWAYS_BY_HOST
from hanse.model.facts import Role
from hanse.model.kinds.ako import AkoHostRule
from hanse.model.kinds.avi import AviGslbService, AviHealthMonitor
from hanse.model.kinds.coordination import Lease
from hanse.model.kinds.core import ConfigMap, Namespace, Secret
from hanse.model.kinds.discovery import EndpointSlice
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.kinds.gateways import Gateway
from hanse.model.kinds.globalservice import GlobalService
from hanse.model.kinds.gslb import (
    NAMESPACE,
    AMKOCluster,
    GlobalDeploymentPolicy,
    GSLBConfig,
    GSLBHostRule,
)
from hanse.model.objects import Object
from hanse.model.snapshot import Index, Watch, Writes

SERVICES_BY_ADDRESS = Index(
    GlobalService, "gslb-address", lambda s: {member.address for member in s.spec.members}
)
SERVICES_BY_SOURCE = Index(
    GlobalService, "gslb-source", lambda s: {member.source for member in s.spec.members}
)


_RULE_INDEXES = (
    RULES_BY_LOCAL_NAME,
    RULES_BY_GLOBAL_NAME,
    RULES_WITH_ALIASES,
    RULES_BY_ALIAS,
)


def _source_indexes(kind: type[Object]) -> Iterator[Index[Any]]:
    """The indexes that are defined for a kind of sources."""
    for indexes in (
        SOURCES_BY_HOST,
        SOURCES_BY_BACKEND,
        ROUTES_BY_GATEWAY,
        SUSPECT_SOURCES,
        BY_BALANCER_NAME,
    ):
        if kind in indexes:
            yield indexes[kind]


def _source_watches(role: Role) -> tuple[Watch, ...]:
    """The watches of sources and of what they depend on, in clusters of this role."""
    why = "hosts, addresses and backends that global names lead to"
    return (
        *(
            Watch(role, kind, indexes=tuple(_source_indexes(kind)), reason=why)
            for kind in SOURCE_KINDS
        ),
        Watch(
            role,
            Gateway,
            indexes=(SUSPECT_GATEWAYS, GATEWAYS_BY_HOST, BY_BALANCER_NAME[Gateway]),
            reason=why,
        ),
        Watch(role, AkoHostRule, indexes=_RULE_INDEXES, reason=why),
        Watch(role, EndpointSlice, indexes=(SLICES_BY_SERVICE,), reason=why),
        Watch(role, Namespace, reason=why),
    )


GLOBAL_SERVICE_WATCH = Watch(
    Role.LOCAL,
    GlobalService,
    namespace=NAMESPACE,
    indexes=(SERVICES_BY_ADDRESS, SERVICES_BY_SOURCE, CONTESTED_SERVICES, CROWDED_SERVICES),
    writes=Writes.OBJECTS | Writes.STATUS,
    reason="the global names, with the members of each and their health",
)

_CONFIGURATION = "the configuration of global names, and its status, also where it is misplaced"

LOCAL_WATCHES: tuple[Watch, ...] = (
    Watch(
        Role.LOCAL,
        AMKOCluster,
        writes=Writes.FIELDS | Writes.STATUS,
        reason="the sites, and which one leads",
    ),
    Watch(
        Role.LOCAL,
        GSLBConfig,
        writes=Writes.STATUS,
        reason=_CONFIGURATION,
    ),
    Watch(
        Role.LOCAL,
        GSLBConfig,
        namespace=NAMESPACE,
        writes=Writes.FIELDS,
        reason="the id by which an Avi controller knows who wrote its objects",
        only_with="an Avi controller",
    ),
    Watch(
        Role.LOCAL,
        GlobalDeploymentPolicy,
        writes=Writes.STATUS,
        reason=_CONFIGURATION,
    ),
    Watch(
        Role.LOCAL,
        GSLBHostRule,
        indexes=(RULES_BY_FQDN,),
        writes=Writes.STATUS,
        reason=_CONFIGURATION,
    ),
    Watch(
        Role.LOCAL,
        Secret,
        namespace=NAMESPACE,
        name=SECRET,
        writes=Writes.FIELDS,
        reason="tokens for sites, which are renewed before they expire",
    ),
    Watch(
        Role.LOCAL,
        Secret,
        namespace=NAMESPACE,
        reason="kubeconfigs of sites, and the password of an Avi controller",
    ),
    Watch(
        Role.LOCAL,
        ConfigMap,
        namespace=NAMESPACE,
        reason="records of which configuration was copied from where",
    ),
    GLOBAL_SERVICE_WATCH,
    Watch(
        Role.LOCAL,
        Lease,
        namespace=NAMESPACE,
        writes=Writes.OBJECTS,
        reason="by which name servers know whether the leader's word is fresh",
    ),
    *DEFINITION_WATCHES,
    *_source_watches(Role.LOCAL),
)

DNS_ENDPOINT_WATCH = Watch(
    Role.LOCAL,
    DNSEndpoint,
    namespace=NAMESPACE,
    writes=Writes.OBJECTS,
    reason="global names, for ExternalDNS",
)

CONTROLLER_WATCHES: tuple[Watch, ...] = (
    Watch(Role.OUTSIDE, AviGslbService, writes=Writes.OBJECTS),
    Watch(Role.OUTSIDE, AviHealthMonitor, writes=Writes.OBJECTS),
)

SITE_WATCHES: tuple[Watch, ...] = (
    Watch(Role.SITE, AMKOCluster, namespace=NAMESPACE, writes=Writes.FIELDS),
    Watch(Role.SITE, GSLBConfig, namespace=NAMESPACE, writes=Writes.OBJECTS),
    Watch(Role.SITE, GlobalDeploymentPolicy, namespace=NAMESPACE, writes=Writes.OBJECTS),
    Watch(Role.SITE, GSLBHostRule, namespace=NAMESPACE, writes=Writes.OBJECTS),
    Watch(Role.SITE, ConfigMap, namespace=NAMESPACE, writes=Writes.OBJECTS),
    Watch(Role.SITE, GlobalService, namespace=NAMESPACE, writes=Writes.OBJECTS | Writes.STATUS),
    Watch(Role.SITE, Lease, namespace=NAMESPACE, writes=Writes.OBJECTS),
    *_source_watches(Role.SITE),
)
