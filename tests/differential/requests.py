"""The table of all cases that are sent to the embedded cluster and to a real API server."""

from tests.differential import (
    bodies,
    definitions,
    objects,
    patches,
    selections,
    services,
    webhooks,
    workloads,
)

CASES = [
    *objects.CASES,
    *patches.CASES,
    *bodies.CASES,
    *selections.CASES,
    *services.CASES,
    *workloads.CASES,
    *definitions.CASES,
    *webhooks.CASES,
]
