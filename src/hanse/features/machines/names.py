"""Marks and names of VM Services."""

SERVICE = "svc"
"""The tag that makes a machine a Service, in any spelling of the domain: its value names it."""
PORTS = "ports"
"""The tag that tells its ports: `http:80/TCP,dns:53/UDP`."""
FEDERATING = ("svc.global.federated", "svc.federated")
"""Tags that stand as annotations on the VM Service, too."""

OF_MACHINES = "vm.antreaplus.vmware-tanzu.com"
"""Annotation of every VM Service."""

US = "machines.hanse.dev"

MACHINE = f"{US}/machine"
"""Label of ExternalEntities: the machine that one stands for."""
ENTITY_SERVICE = f"{US}/service"
"""Label of ExternalEntities: the VM Service that one belongs to."""
