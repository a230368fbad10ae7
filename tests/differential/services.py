"""The rules of Services and EndpointSlices."""

from typing import Any

from tests.differential.cases import (
    RV,
    SERVICES,
    SLICES,
    TABLE,
    case,
    create,
    endpoint_slice,
    get,
    grouped,
    merge,
    put,
    service,
)

S = f"{SERVICES}/s"


def ports(*given: dict[str, Any]) -> dict[str, Any]:
    return service(ports=list(given))


SERVICE_RULES = (
    case(
        "defaults", create(SERVICES, service(selector={"app": "web"})), get(S), get(S, accept=TABLE)
    ),
    case("headless", create(SERVICES, service(clusterIP="None", selector={"a": "b"})), get(S)),
    case("headless without ports", create(SERVICES, service(clusterIP="None", ports=[]))),
    case("without ports", create(SERVICES, service(ports=[]))),
    case("two ports without names", create(SERVICES, ports({"port": 1}, {"port": 2}))),
    case(
        "one name twice",
        create(SERVICES, ports({"port": 1, "name": "a"}, {"port": 2, "name": "a"})),
    ),
    case(
        "one port twice",
        create(SERVICES, ports({"port": 1, "name": "a"}, {"port": 1, "name": "b"})),
    ),
    case("a port out of range", create(SERVICES, ports({"port": 70000}))),
    case("a port of zero", create(SERVICES, ports({"port": 0}))),
    case("a protocol unknown", create(SERVICES, ports({"port": 1, "protocol": "ICMP"}))),
    case("a bad port name", create(SERVICES, ports({"port": 1, "name": "Bad_"}))),
    case("a bad target port", create(SERVICES, ports({"port": 1, "targetPort": "a b"}))),
    case("a named target port", create(SERVICES, ports({"port": 1, "targetPort": "web"}))),
    case("a type unknown", create(SERVICES, service(type="Ship"))),
    case("a name that begins with a digit", create(SERVICES, service("1a"))),
    case("a node port", create(SERVICES, service(type="NodePort"))),
    case(
        "a node port out of range",
        create(SERVICES, service(type="NodePort", ports=[{"port": 80, "nodePort": 80}])),
    ),
    case(
        "a node port on a cluster service",
        create(SERVICES, service(ports=[{"port": 80, "nodePort": 30080}])),
    ),
    case("a load balancer", create(SERVICES, service(type="LoadBalancer")), get(S, accept=TABLE)),
    case(
        "an external name",
        create(SERVICES, service(type="ExternalName", externalName="a.example", ports=[])),
        get(S),
    ),
    case("no external name", create(SERVICES, service(type="ExternalName"))),
    case("a bad external name", create(SERVICES, service(type="ExternalName", externalName="a b"))),
    case("an address out of range", create(SERVICES, service(clusterIP="192.0.2.1"))),
    case("an address that is none", create(SERVICES, service(clusterIP="x"))),
    case(
        "an address that is taken",
        get(
            "/api/v1/namespaces/default/services/kubernetes",
            save={"taken": "spec.clusterIP"},
            setup=True,
        ),
        create(SERVICES, service(clusterIP="$taken")),
    ),
    case("an affinity unknown", create(SERVICES, service(sessionAffinity="Love"))),
    case("client affinity", create(SERVICES, service(sessionAffinity="ClientIP"))),
    case("a bad selector", create(SERVICES, service(selector={"a b": "c"}))),
    case("bad external addresses", create(SERVICES, service(externalIPs=["127.0.0.1"]))),
    case(
        "source ranges without a load balancer",
        create(SERVICES, service(loadBalancerSourceRanges=["10.0.0.0/8"])),
    ),
    case("a traffic policy unknown", create(SERVICES, service(internalTrafficPolicy="Some"))),
    case(
        "an external traffic policy on a cluster service",
        create(SERVICES, service(externalTrafficPolicy="Local")),
    ),
    case(
        "local external traffic",
        create(SERVICES, service(type="LoadBalancer", externalTrafficPolicy="Local")),
    ),
    case(
        "the cluster address does not change",
        get(
            "/api/v1/namespaces/default/services/kubernetes",
            save={"taken": "spec.clusterIP"},
            setup=True,
        ),
        create(SERVICES, service()),
        merge(S, {"spec": {"clusterIP": "$taken", "clusterIPs": ["$taken"]}}),
    ),
    case(
        "the type changes",
        create(SERVICES, service(), save={"ip": "spec.clusterIP"}),
        merge(S, {"spec": {"type": "NodePort"}}),
        merge(S, {"spec": {"type": "ClusterIP"}}),
        merge(S, {"spec": {"type": "ExternalName", "externalName": "x.example"}}),
    ),
    case(
        "a put that leaves the address out",
        create(SERVICES, service(), save=RV),
        put(S, service(selector={"a": "b"})),
    ),
    case(
        "dual stack where there is one family",
        create(SERVICES, service(ipFamilyPolicy="RequireDualStack")),
    ),
    case("dual stack preferred", create(SERVICES, service(ipFamilyPolicy="PreferDualStack"))),
    case("the other family", create(SERVICES, service(ipFamilies=["IPv6"]))),
)

SLICE_RULES = (
    case(
        "defaults",
        create(SLICES, endpoint_slice(ports=[{"port": 80}])),
        get(f"{SLICES}/e", accept=TABLE),
    ),
    case(
        "conditions and zones",
        create(
            SLICES,
            endpoint_slice(
                endpoints=[
                    {
                        "addresses": ["198.51.100.3"],
                        "conditions": {"ready": False},
                        "zone": "z",
                        "hostname": "h",
                        "nodeName": "n",
                    }
                ]
            ),
        ),
    ),
    case(
        "a loopback address",
        create(SLICES, endpoint_slice(endpoints=[{"addresses": ["127.0.0.1"]}])),
    ),
    case(
        "a link-local address",
        create(SLICES, endpoint_slice(endpoints=[{"addresses": ["169.254.1.1"]}])),
    ),
    case(
        "an address that is none", create(SLICES, endpoint_slice(endpoints=[{"addresses": ["x"]}]))
    ),
    case(
        "an address of the other family",
        create(SLICES, endpoint_slice(endpoints=[{"addresses": ["fd00::1"]}])),
    ),
    case(
        "an IPv4 address that is written as the other family",
        create(
            SLICES,
            endpoint_slice(addressType="IPv6", endpoints=[{"addresses": ["::ffff:198.51.100.3"]}]),
        ),
    ),
    case("no address", create(SLICES, endpoint_slice(endpoints=[{"addresses": []}]))),
    case(
        "too many addresses",
        create(
            SLICES,
            endpoint_slice(endpoints=[{"addresses": [f"198.51.100.{n}" for n in range(1, 102)]}]),
        ),
    ),
    case("no address type", create(SLICES, endpoint_slice(addressType=""))),
    case("an address type unknown", create(SLICES, endpoint_slice(addressType="Ship"))),
    case(
        "an address type does not change",
        create(SLICES, endpoint_slice()),
        merge(f"{SLICES}/e", {"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}]}),
    ),
    case(
        "names as addresses",
        create(
            SLICES, endpoint_slice(addressType="FQDN", endpoints=[{"addresses": ["a.example"]}])
        ),
    ),
    case(
        "one port name twice",
        create(SLICES, endpoint_slice(ports=[{"name": "a", "port": 1}, {"name": "a", "port": 2}])),
    ),
    case(
        "a bad host name",
        create(
            SLICES, endpoint_slice(endpoints=[{"addresses": ["198.51.100.3"], "hostname": "A_"}])
        ),
    ),
    case(
        "a thousand endpoints and one",
        create(
            SLICES,
            endpoint_slice(
                endpoints=[{"addresses": [f"100.64.{n // 250}.{n % 250 + 1}"]} for n in range(1001)]
            ),
        ),
    ),
    case(
        "a protocol unknown", create(SLICES, endpoint_slice(ports=[{"port": 1, "protocol": "X"}]))
    ),
)


CASES = [*grouped("service", SERVICE_RULES), *grouped("slice", SLICE_RULES)]
