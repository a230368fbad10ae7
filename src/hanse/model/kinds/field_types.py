"""Types of fields that several of our kinds share, with what an API server checks about them."""

from typing import Annotated

from hanse.model.conditions import Condition
from hanse.model.schema import ADDRESS, LABEL, SUBDOMAIN, Schema

ClusterName = Annotated[str, Schema(pattern=LABEL, min_length=1, max_length=63)]
"""A cluster's id: it becomes part of names, so it is a label."""
NamespaceName = Annotated[str, Schema(pattern=LABEL, min_length=1, max_length=63)]
ObjectName = Annotated[str, Schema(pattern=SUBDOMAIN, min_length=1, max_length=253)]
ContextName = Annotated[str, Schema(min_length=1, max_length=253)]
"""The name of a kubeconfig context."""
Address = Annotated[str, Schema(pattern=ADDRESS, max_length=45)]
Cidr = Annotated[str, Schema(format="cidr", max_length=49)]
PortNumber = Annotated[int, Schema(minimum=1, maximum=65535)]
Count = Annotated[int, Schema(minimum=0)]
Conditions = Annotated[
    tuple[Condition, ...],
    Schema("What is known about the object, one entry per type.", keys=("type",), max_items=16),
]
