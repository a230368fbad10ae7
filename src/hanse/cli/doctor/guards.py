"""Findings about the admission policies that hold members on a broker; pure."""

from collections.abc import Iterator

from hanse import app
from hanse.cli.doctor.clusters import Finding
from hanse.cli.doctor.lists import GUARDS, members_of
from hanse.cli.fleet import ClusterRead
from hanse.features.services.manifests import broker_policies
from hanse.model.broker_namespace import shared_namespace
from hanse.model.findings import Ref
from hanse.model.kinds.admission import ValidatingAdmissionPolicyBinding

_SHOWN = 3


def check_guards(read: ClusterRead) -> Iterator[Finding]:
    """BrokerUnguarded: bindings of admission policies are missing on a broker, by their names.

    Only namespaces with ServiceAccounts of members are checked; none if bindings were not listed.
    """
    if GUARDS not in read.lists:
        return
    bound = {binding.name for binding in read.listed(GUARDS)}
    for namespace in sorted({shared_namespace(one.namespace) for one in members_of(read)}):
        missing = sorted(_expected(namespace) - bound)
        if missing:
            names = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
            yield Finding(
                read.context,
                f"{len(missing)} admission policies of {namespace} are missing "
                f"({names}), so that a member can write what is another's",
                f"hanse broker init --context {read.context} --namespace {namespace}",
                "BrokerUnguarded",
                Ref(ValidatingAdmissionPolicyBinding.kind.name, missing[0]),
                pasteable=True,
            )


def _expected(namespace: str) -> set[str]:
    """The names of the bindings that a broker of this version has."""
    rules = (rule for access in app.broker_access() for rule in access.rules)
    kind = ValidatingAdmissionPolicyBinding.kind
    return {m.name for m in broker_policies(rules, namespace) if m.kind == kind}
