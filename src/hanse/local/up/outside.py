"""The part of the sample that is outside clusters, and what all clusters then share; pure."""

from hanse.local.up.topology import Member
from hanse.model.objects import Wire

GROUP = "antreaplus.vmware-tanzu.com/v1alpha1"
GLOBAL = "svc.global.federated.antreaplus.vmware.com"

FEDERATED = {GLOBAL: "web"}
"""Makes each cluster's `web` a member of one federated Service."""

HOSTNAME = "{name}.{namespace}.hanse.example"
"""The names of federated Services for whoever is outside, such as machines."""
ZONE = "hanse.example"


def things_outside(member: Member, namespace: str) -> tuple[Wire, ...]:
    """Children have a machine with a database; supervisors have a queue that their cloud runs."""
    address = str(member.ranges.outside[200])
    if member.standing == "child":
        return (_machine(namespace, address),)
    return (_interface(namespace, address), _native(namespace))


def _machine(namespace: str, address: str) -> Wire:
    return {
        "apiVersion": GROUP,
        "kind": "VirtualMachine",
        "metadata": {"name": "db-1", "namespace": namespace},
        "spec": {
            "id": "i-0a1b2c",
            "tags": {
                "svc.antreaplus.vmware.com": "db",
                "ports.antreaplus.vmware.com": "sql:5432/TCP",
                GLOBAL: "db",
            },
            "networkInterfaces": [
                {"name": "eth0", "ips": [{"addressType": "ExternalIP", "address": address}]}
            ],
        },
    }


def _interface(namespace: str, address: str) -> Wire:
    return {
        "apiVersion": GROUP,
        "kind": "NetworkInterface",
        "metadata": {"name": "queue", "namespace": namespace},
        "spec": {"internalIP": "10.255.0.1", "externalIP": address},
    }


def _native(namespace: str) -> Wire:
    return {
        "apiVersion": GROUP,
        "kind": "NativeService",
        "metadata": {"name": "queue", "namespace": namespace, "annotations": {GLOBAL: "queue"}},
        "spec": {
            "networkInterface": "queue",
            "ports": [{"name": "amqp", "port": 5672, "protocol": "TCP"}],
        },
    }
