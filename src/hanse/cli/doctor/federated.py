"""Findings about federated Services and VM Services; pure."""

from hanse.cli.doctor.clusters import Finding
from hanse.cli.federated_services import FailedCondition, FederatedView


def check_federated_services(view: FederatedView) -> tuple[Finding, ...]:
    """A finding for each condition that is False: its message says what to do."""
    return tuple(
        Finding(
            failed.cluster,
            f"{failed.object}: {failed.message}",
            f"do as it says; {_describe_command(failed)} shows when it is well again",
        )
        for failed in view.troubles
    )


def _describe_command(failed: FailedCondition) -> str:
    kind, _, key = failed.object.partition(" ")
    namespace, _, name = key.partition("/")
    return f"kubectl --context {failed.cluster} -n {namespace} describe {kind.lower()} {name}"
