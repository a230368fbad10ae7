"""The table of all cases that are sent to the embedded cluster and to a real API server."""

from tests.differential import (
    access,
    bodies,
    definitions,
    lifecycle,
    objects,
    patches,
    policies,
    rules,
    selections,
    services,
    tables_others,
    tables_workloads,
    webhooks,
    workloads,
)

CASES = [
    *objects.CASES,
    *patches.CASES,
    *bodies.CASES,
    *selections.CASES,
    *services.CASES,
    *tables_workloads.CASES,
    *tables_others.CASES,
    *workloads.CASES,
    *definitions.CASES,
    *rules.CASES,  # before webhooks, which are called for the status of definitions, too
    *lifecycle.CASES,
    *webhooks.CASES,
    *access.CASES,
    *policies.CASES,
]
