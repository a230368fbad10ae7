"""Findings about name servers that are deployed in a cluster, and its DNS that asks them; pure."""

import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from hanse.cli.addresses import parse_server_address
from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import COREFILE, DEPLOYMENTS
from hanse.cli.errors import InputError
from hanse.cli.fleet import ClusterRead
from hanse.features.networks.names import SHARED_DNS
from hanse.model.findings import Ref
from hanse.model.kinds.core import Node, Service
from hanse.model.naming import DNS, SYSTEM_NAMESPACE, ZONE
from hanse.model.summaries import first_of

_LOST = {
    DNS: f"nothing answers names of {ZONE} in this cluster",
    SHARED_DNS: "pods in networks cannot look names up",
}
"""The name servers, and what users lose without them."""
_FORWARDED = re.compile(
    rf"^{re.escape(ZONE)}\.?(?::\d+)?\s*\{{[^}}]*?\sforward\s+\S+([^\n{{}}]*)", re.MULTILINE
)
"""The servers to which a Corefile forwards the zone, in a server block of its own."""


def check_name_servers(read: ClusterRead) -> Iterator[Finding]:
    """DnsDown for name servers without a ready pod; ZoneNotDelegated if hanse-dns is not asked.

    Only Deployments that were listed are looked at; the second only where hanse-dns is among them,
    and the cluster's own DNS does not forward our zone to it.
    """
    deployed = [one for one in read.listed(DEPLOYMENTS) if one.name in _LOST]
    for one in deployed:
        if not one.status.ready_replicas:
            kubectl = f"kubectl --context {read.context} -n {SYSTEM_NAMESPACE}"
            again = "rollout restart" if one.spec.replicas else "scale --replicas=1"
            why = "none is ready" if one.spec.replicas else "it is scaled to none"
            yield Finding(
                read.context,
                f"{one.name} has no ready pod, {why}: {_LOST[one.name]}",
                f"{kubectl} {again} deployment/{one.name}",
                "DnsDown",
                Ref("Deployment", one.name, SYSTEM_NAMESPACE),
                pasteable=True,
                advice=f"if its pods do not become ready, they say why: `{kubectl} describe pods "
                f"-l app.kubernetes.io/name={one.name}`",
            )
    if any(one.name == DNS for one in deployed):
        yield from _unforwarded_zone(read)


def _unforwarded_zone(read: ClusterRead) -> Iterator[Finding]:
    """ZoneNotDelegated: no Corefile names our zone, or it is only forwarded to other addresses.

    Other addresses are neither of the Service hanse-dns nor of a node; they are only looked for if
    the Service was read, and in a server block of the zone's own. Nothing if no Corefile was read.
    """
    corefiles = [text for one in read.listed(COREFILE) for text in one.data.values()]
    servers = _addresses(read)
    problem = ""
    if corefiles and not any(ZONE in text for text in corefiles):
        problem = f"the cluster's DNS does not hand {ZONE} over"
    elif servers:
        asked = _forwarded(corefiles)
        nodes = {a.address for node in read.objects(Node) for a in node.status.addresses}
        if asked and not {*servers, *nodes} & {*asked}:
            problem = (
                f"the cluster's DNS hands {ZONE} over to {first_of(asked)}, and Service {DNS} has "
                f"the address {first_of(servers)}"
            )
    if problem:
        shown = f"kubectl --context {read.context} -n {SYSTEM_NAMESPACE} get service {DNS}"
        where = "" if servers else f", with the address of `{shown}`"
        yield Finding(
            read.context,
            problem,
            f"let its Corefile have what `hanse dns corefile {' '.join(servers) or 'ADDRESS'}` "
            f"prints{where}",
            "ZoneNotDelegated",
            Ref("ConfigMap", "coredns", "kube-system"),
        )


def _forwarded(corefiles: Iterable[str]) -> list[str]:
    """The addresses, without protocols and ports, to which a server block of our zone forwards.

    What is no address, as the path of a file, stays as it is.
    """
    blocks = (several for text in corefiles for several in _FORWARDED.findall(text))
    return [_address(one) for several in blocks for one in several.split()]


def _address(server: str) -> str:
    """The IP address of `[PROTOCOL://]ADDRESS[:PORT]` as API servers write it; else the text."""
    try:
        host, _ = parse_server_address(server.rpartition("://")[2])
    except InputError:
        return server
    return str(ip_address(host))


def _addresses(read: ClusterRead) -> list[str]:
    """The cluster, external and load balancer addresses of the Service hanse-dns.

    Empty if there is no such Service, or it was not read.
    """
    for one in read.objects(Service):
        if (one.namespace, one.name) == (SYSTEM_NAMESPACE, DNS):
            spec, balancers = one.spec, one.status.load_balancer.ingress
            plain = (*(spec.cluster_ips or (spec.cluster_ip,)), *spec.external_ips)
            return [a for a in (*plain, *(each.ip for each in balancers)) if a not in ("", "None")]
    return []
