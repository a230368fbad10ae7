"""Rows as `kubectl get` shows them of Services, endpoints, ingresses, network policies."""

from datetime import datetime

from tinykube.resources import Object
from tinykube.tables.cells import (
    NONE,
    UNSET,
    age,
    first_few,
    ingress_addresses,
    labels,
    name,
    reference,
    selector,
)
from tinykube.tables.columns import AGE, NAME, Cell, Printer, text_columns, value_at, wide_columns


def _service(obj: Object, now: datetime) -> list[Cell]:
    """Name, type, first cluster IP, external addresses, ports, age and selector of a Service.

    Without a cluster IP, ports or a selector the cell is `<none>`.
    """
    addresses = value_at(obj, "spec", "clusterIPs", default=[])
    return [
        name(obj),
        value_at(obj, "spec", "type", default=""),
        addresses[0] if addresses else NONE,
        _external_address(obj),
        ",".join(_format_port(port) for port in value_at(obj, "spec", "ports", default=[])) or NONE,
        age(obj, now),
        labels(value_at(obj, "spec", "selector")),
    ]


def _external_address(obj: Object) -> str:
    """The EXTERNAL-IP cell of a Service: its externalIPs, `<none>` without any.

    Of a LoadBalancer the addresses in its status, then the externalIPs, `<pending>` without either;
    of an ExternalName that name; of an unknown type `<unknown>`.
    """
    external = value_at(obj, "spec", "externalIPs", default=[])
    match value_at(obj, "spec", "type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            found = ingress_addresses(obj)
            return ",".join([*([found] if found else []), *external]) or "<pending>"
        case "ExternalName":
            return str(value_at(obj, "spec", "externalName", default=""))
        case _:
            return "<unknown>"


def _format_port(port: Object) -> str:
    """`port[:nodePort]/protocol`, the node port only if set, TCP by default."""
    number = port.get("port", 0)
    protocol = port.get("protocol", "TCP")
    node_port = port.get("nodePort")
    return f"{number}:{node_port}/{protocol}" if node_port else f"{number}/{protocol}"


def _endpoints(obj: Object, now: datetime) -> list[Cell]:
    """Name, the first few ready sockets and age of Endpoints; bare addresses without ports.

    `<none>` without subsets.
    """
    subsets = obj.get("subsets") or []
    texts: list[str] = []
    for subset in subsets:
        addresses = [one.get("ip", "") for one in subset.get("addresses") or []]
        ports = [one.get("port", 0) for one in subset.get("ports") or []]
        if not ports:
            texts += addresses
        texts += [_format_socket(address, port) for port in ports for address in addresses]
    return [name(obj), first_few(texts) if subsets else NONE, age(obj, now)]


def _format_socket(address: str, port: int) -> str:
    """`address:port`, with an IPv6 address in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _endpoint_slice(obj: Object, now: datetime) -> list[Cell]:
    """Name, address type, the first few ports and addresses, unready ones too, and age.

    A port is its number, else its name, else `*`; without ports or addresses the cell is `<unset>`.
    """
    ports = [str(one.get("port") or one.get("name") or "*") for one in obj.get("ports") or []]
    endpoints = obj.get("endpoints") or []
    addresses = [address for one in endpoints for address in one.get("addresses") or []]
    return [
        name(obj),
        obj.get("addressType", ""),
        first_few(ports) or UNSET,
        first_few(addresses) or UNSET,
        age(obj, now),
    ]


def _ingress(obj: Object, now: datetime) -> list[Cell]:
    """Name, class, hosts, addresses, ports and age of an Ingress.

    Hosts are `*` if no rule has any; ports are 80, and 443 with TLS.
    """
    rules = value_at(obj, "spec", "rules", default=[])
    places = [index for index, rule in enumerate(rules) if rule.get("host")]
    hosts = [rules[index]["host"] for index in places]
    more = len(places) >= 3 and places[2] < len(rules) - 1
    return [
        name(obj),
        value_at(obj, "spec", "ingressClassName", default=NONE),
        first_few(hosts, len(rules) if more else len(hosts)) or "*",
        ingress_addresses(obj),
        "80, 443" if value_at(obj, "spec", "tls", default=[]) else "80",
        age(obj, now),
    ]


def _ingress_class(obj: Object, now: datetime) -> list[Cell]:
    """Name, controller, parameters and age; the parameters are `kind[.group]/name` or `<none>`."""
    parameters = NONE
    if (given := value_at(obj, "spec", "parameters")) is not None:
        group = given.get("apiGroup")
        kind = given.get("kind", "")
        parameters = f"{kind}.{group}" if group is not None else kind
        parameters += f"/{given.get('name', '')}"
    return [name(obj), value_at(obj, "spec", "controller", default=""), parameters, age(obj, now)]


def _network_policy(obj: Object, now: datetime) -> list[Cell]:
    """Name, podSelector (`<none>` if it is empty) and age of a NetworkPolicy."""
    return [name(obj), selector(value_at(obj, "spec", "podSelector")) or NONE, age(obj, now)]


def _service_cidr(obj: Object, now: datetime) -> list[Cell]:
    """Name, CIDRs joined by commas, and age."""
    return [name(obj), ",".join(value_at(obj, "spec", "cidrs", default=[])), age(obj, now)]


def _ip_address(obj: Object, now: datetime) -> list[Cell]:
    """Name and parent of an IPAddress, and its age, for which there is no column.

    The parent is `resource[.group][/namespace]/name`, or `<none>`.
    """
    parent = value_at(obj, "spec", "parentRef")
    shown = NONE
    if parent is not None:
        place = [parent["namespace"]] if parent.get("namespace") else []
        kind = reference(parent.get("resource", ""), parent.get("group", ""), "").rstrip("/")
        shown = "/".join([kind, *place, parent.get("name", "")])
    # the API server also sends the age, without a column
    return [name(obj), shown, age(obj, now)]


NETWORK = {
    ("", "Service"): Printer(
        (
            NAME,
            *text_columns("Type", "Cluster-IP", "External-IP", "Port(s)"),
            AGE,
            *wide_columns("Selector"),
        ),
        _service,
    ),
    ("", "Endpoints"): Printer((NAME, *text_columns("Endpoints"), AGE), _endpoints),
    ("discovery.k8s.io", "EndpointSlice"): Printer(
        (NAME, *text_columns("AddressType", "Ports", "Endpoints"), AGE), _endpoint_slice
    ),
    ("networking.k8s.io", "Ingress"): Printer(
        (NAME, *text_columns("Class", "Hosts", "Address", "Ports"), AGE), _ingress
    ),
    ("networking.k8s.io", "IngressClass"): Printer(
        (NAME, *text_columns("Controller", "Parameters"), AGE), _ingress_class
    ),
    ("networking.k8s.io", "NetworkPolicy"): Printer(
        (NAME, *text_columns("Pod-Selector"), AGE), _network_policy
    ),
    ("networking.k8s.io", "ServiceCIDR"): Printer(
        (NAME, *text_columns("CIDRs"), AGE), _service_cidr
    ),
    ("networking.k8s.io", "IPAddress"): Printer((NAME, *text_columns("ParentRef")), _ip_address),
}
