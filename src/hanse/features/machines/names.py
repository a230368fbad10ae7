"""Names, labels, annotations and tags of VM Services."""

SERVICE_TAG = "svc"
"""The tag that makes a machine a backend of a Service, under any spelling of the domain."""
PORTS_TAG = "ports"
"""The tag with its ports: `http:80/TCP,dns:53/UDP`."""
FEDERATION_TAGS = ("svc.global.federated", "svc.federated")
"""Tags that are copied to the VM Service as annotations."""

VM_SERVICE = "vm.antreaplus.vmware-tanzu.com"
"""Annotation of every VM Service."""

DOMAIN = "machines.hanse.dev"
"""Prefix of our labels, and the manager of our EndpointSlices."""

MACHINE_LABEL = f"{DOMAIN}/machine"
"""Label of ExternalEntities: the machine."""
SERVICE_LABEL = f"{DOMAIN}/service"
"""Label of ExternalEntities: the VM Service of the machine."""
