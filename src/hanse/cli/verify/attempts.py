"""What is tried between clusters, and what a failure means; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from hanse.cli.verify.manifests import PORT, SERVICE, SERVICE_PORT
from hanse.model.naming import ZONE

Topic = Literal["routes", "names", "services", "policies", "hosts"]
TOPICS: tuple[Topic, ...] = ("routes", "names", "services", "policies", "hosts")
Status = Literal["ok", "failed", "warning"]

CONNECTIONS = 4
"""How often a service is connected to in one try: its endpoints take turns."""


class DeployedCluster(Struct, frozen=True):
    """What runs in one cluster for the tries."""

    cluster: str
    server: str
    """The address of the pod that answers."""
    guarded: str
    service: str
    """The address of the Service."""


class ImportedService(Struct, frozen=True):
    """The exported Service as one cluster imports it."""

    ips: tuple[str, ...] = ()
    exporters: tuple[str, ...] = ()
    """The ids of the clusters that export it."""
    addresses: tuple[str, ...] = ()
    """The endpoints behind it."""
    missing: str = ""
    """Why it is not imported; empty if it is."""


class Attempt(Struct, frozen=True):
    """One command that runs in a pod of the source cluster."""

    topic: Topic
    source: str
    target: str
    """The target's cluster, or a name."""
    subject: str
    arguments: tuple[str, ...]
    expects_answer: bool = True
    needed: bool = True
    """Whether a failure breaks anything that Hanse does here."""


class Outcome(Struct, frozen=True):
    """How an attempt ended, with its output or its error."""

    attempt: Attempt
    answered: bool
    output: str

    @property
    def is_expected(self) -> bool:
        """Whether it was answered, or for an isolated pod not answered."""
        return self.answered == self.attempt.expects_answer


class VerifyResult(Struct, frozen=True):
    """The result of one attempt for people, with the cause of a failure and its remedy."""

    source: str
    target: str
    topic: Topic
    subject: str
    status: Status
    message: str
    """The cause of a failure."""
    output: str
    remedy: str = ""


def plan_attempts(
    source: str,
    deployed: Sequence[DeployedCluster],
    imported: ImportedService | None,
    hosts: Sequence[str],
    namespace: str,
    topics: Sequence[Topic],
) -> list[Attempt]:
    """Everything that pods of the source cluster are to try, of these topics; nothing is run.

    `imported` is None where Hanse is not installed.
    """
    attempts = [*_routes(source, deployed, imported), *_policies(source, deployed)]
    if imported is not None:
        attempts += _names_and_services(source, imported, f"{SERVICE}.{namespace}.svc.{ZONE}")
    attempts += [Attempt("hosts", source, h, f"host {h}", ("lookup", h)) for h in hosts]
    return [attempt for attempt in attempts if attempt.topic in topics]


def _dial(target: str, port: int, count: int = 1) -> tuple[str, ...]:
    """The netcheck arguments for `count` TCP connections, of 3 s each at most."""
    host = f"[{target}]" if ":" in target else target
    return ("tcp", "-n", str(count), "-timeout", "3s", f"{host}:{port}")


def _routes(
    source: str, deployed: Sequence[DeployedCluster], imported: ImportedService | None
) -> Iterator[Attempt]:
    """To each cluster's pod, and to its Service's address.

    A failure of the latter counts in the own cluster, or where the address is published.
    """
    published = imported.addresses if imported is not None else ()
    for one in deployed:
        yield Attempt("routes", source, one.cluster, "pod address", _dial(one.server, PORT))
        needed = one.cluster == source or one.service in published
        arguments = _dial(one.service, SERVICE_PORT)
        yield Attempt("routes", source, one.cluster, "Service address", arguments, needed=needed)


def _policies(source: str, deployed: Sequence[DeployedCluster]) -> Iterator[Attempt]:
    """To each cluster's pod that a NetworkPolicy isolates: nobody answers."""
    for one in deployed:
        arguments = _dial(one.guarded, PORT)
        yield Attempt(
            "policies", source, one.cluster, "isolated pod", arguments, expects_answer=False
        )


def _names_and_services(source: str, imported: ImportedService, name: str) -> Iterator[Attempt]:
    """A lookup and connections by name, and by clusterset IPs; without IPs by clusters' names."""
    yield Attempt("names", source, name, "name", ("lookup", name))
    yield Attempt("services", source, name, "name", _dial(name, SERVICE_PORT, CONNECTIONS))
    for ip in imported.ips:
        arguments = _dial(ip, SERVICE_PORT, CONNECTIONS)
        yield Attempt("services", source, ip, "clusterset IP", arguments)
    for cluster in () if imported.ips else imported.exporters:
        own = f"{cluster}.{name}"
        yield Attempt("services", source, own, "name of a cluster", _dial(own, SERVICE_PORT))


def explain(
    outcomes: Sequence[Outcome], imported: Mapping[str, ImportedService | None]
) -> list[VerifyResult]:
    """The result of each attempt; the cause of a failure is judged by all outcomes."""
    return [_explain(outcome, outcomes, imported) for outcome in outcomes]


def _explain(
    outcome: Outcome,
    outcomes: Sequence[Outcome],
    imported: Mapping[str, ImportedService | None],
) -> VerifyResult:
    """The result of one attempt."""
    attempt = outcome.attempt
    cause, remedy, status = "", "", "failed" if attempt.needed else "warning"
    if not outcome.is_expected:
        match attempt.topic:
            case "routes":
                cause, remedy = _route_cause(outcome)
            case "policies":
                cause, remedy, status = _policy_cause(outcome, outcomes)
            case "hosts":
                cause = "the cluster's DNS does not answer the host"
                remedy = "forward or delegate its zone to `hanse dns`: docs/guides/gslb.md"
            case _:
                cause, remedy = _service_cause(outcome, outcomes, imported[attempt.source])
    return VerifyResult(
        attempt.source,
        attempt.target,
        attempt.topic,
        attempt.subject,
        "ok" if outcome.is_expected else "warning" if status == "warning" else "failed",
        cause,
        outcome.output,
        remedy,
    )


def _route_cause(outcome: Outcome) -> tuple[str, str]:
    """The cause and the remedy where an address is not reached."""
    attempt = outcome.attempt
    kind = "pod" if attempt.subject == "pod address" else "service"
    if "refused" in outcome.output and attempt.needed:
        cause = f"{attempt.target} is reached, and nothing answers there"
        return cause, f"is the {kind} range of another cluster the same? see `hanse check --pre`"
    cause = f"no route from {attempt.source} to the {kind} range of {attempt.target}"
    remedy = (
        f"route it to the nodes of {attempt.target}, and the way back; or let firewalls pass it"
    )
    if not attempt.needed:
        remedy = "nothing: no Service's address is published here"
    return cause, remedy


def _policy_cause(outcome: Outcome, outcomes: Sequence[Outcome]) -> tuple[str, str, Status]:
    """The cause, remedy and status where an isolated pod answered.

    A warning if it also answers in its own cluster, or that was not tried; else failed.
    """
    target = outcome.attempt.target
    own = [
        o
        for o in outcomes
        if (o.attempt.topic, o.attempt.source, o.attempt.target) == ("policies", target, target)
    ]
    if any(o.answered for o in own) or not own:
        cause = f"the network of {target} does not enforce NetworkPolicies"
        return cause, "use a network plugin that does, if you rely on policies", "warning"
    cause = f"policies of {target} do not hold for connections from {outcome.attempt.source}"
    remedy = "let the connection between the clusters keep the addresses of pods (no SNAT)"
    return cause, remedy, "failed"


def _service_cause(
    outcome: Outcome, outcomes: Sequence[Outcome], imported: ImportedService | None
) -> tuple[str, str]:
    """The cause and the remedy where a service or its name fails.

    In this order: not imported, no DNS, no route, or kube-proxy.
    """
    source = outcome.attempt.source
    if imported is None or imported.missing:
        missing = imported.missing if imported is not None else "it is not installed"
        return f"not imported in {source}: {missing}", "hanse doctor"
    if (
        "no such host" in outcome.output
        or "misbehaving" in outcome.output
        or (outcome.attempt.topic == "names")
    ):
        cause = f"the DNS of {source} does not forward {ZONE}"
        return cause, "add what `hanse dns corefile ADDRESS` prints to its Corefile"
    lost = [
        o.attempt
        for o in outcomes
        if o.attempt.topic == "routes"
        and o.attempt.source == source
        and o.attempt.needed
        and not o.answered
    ]
    if lost:
        cause = f"no route from {source} to the {lost[0].subject} in {lost[0].target}"
        return cause, "see the failed routes above"
    cause = "addresses are reached, and the service is not: the proxy has not followed"
    return cause, f"kubectl --context {source} -n kube-system get pods -l k8s-app=kube-proxy"
