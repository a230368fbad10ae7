"""Marks and names of VM Services."""

SERVICE = "svc"
"""The tag that makes a machine a Service, in any spelling of the domain: its value names it."""
PORTS_TAG = "ports"
"""The tag that tells its ports: `http:80/TCP,dns:53/UDP`."""
FEDERATION_TAGS = ("svc.global.federated", "svc.federated")
"""Tags that stand as annotations on the VM Service, too."""

VM_SERVICE = "vm.antreaplus.vmware-tanzu.com"
"""Annotation of every VM Service."""

DOMAIN = "machines.hanse.dev"

MACHINE = f"{DOMAIN}/machine"
"""Label of ExternalEntities: the machine that one stands for."""
SERVICE_LABEL = f"{DOMAIN}/service"
"""Label of ExternalEntities: the VM Service that one belongs to."""
