"""What is tried between clusters, and what a failure means; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from hanse.cli.verify.manifests import PORT, SERVICE, SERVICE_PORT
from hanse.model.naming import ZONE

Topic = Literal["routes", "names", "services", "policies", "hosts"]
TOPICS: tuple[Topic, ...] = ("routes", "names", "services", "policies", "hosts")
Status = Literal["ok", "failed", "warning"]

POD, SERVICE_ADDRESS = "pod address", "Service address"
"""What routes are tried to."""
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
    node: str = ""
    """The address of the node of the pod that answers."""
    pod_range: str = ""
    """The range of that node's pods; empty if the node does not say it."""
    service_range: str = ""
    """Empty if the cluster does not say it."""
    dns: str = ""
    """The address of the Service of our DNS; empty if it is not installed there."""


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

    @property
    def is_awaited(self) -> bool:
        """Whether it is repeated until it ends as expected, or time is up.

        True if an answer is expected and a failure would matter; others are repeated a few times at
        most.
        """
        return self.expects_answer and self.needed


class Outcome(Struct, frozen=True):
    """How an attempt ended, with its output or its error."""

    attempt: Attempt
    answered: bool
    output: str

    @property
    def is_expected(self) -> bool:
        """Whether it was answered, or not answered if the attempt expects no answer."""
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

    `imported` is None where Hanse is not installed: then no names and services are tried.
    """
    attempts = [*_route_attempts(source, deployed, imported), *_policy_attempts(source, deployed)]
    if imported is not None:
        attempts += _service_attempts(source, imported, f"{SERVICE}.{namespace}.svc.{ZONE}")
    attempts += [Attempt("hosts", source, h, f"host {h}", ("lookup", h)) for h in hosts]
    return [attempt for attempt in attempts if attempt.topic in topics]


def _dial(target: str, port: int, count: int = 1) -> tuple[str, ...]:
    """The netcheck arguments for `count` TCP connections, of 3 s each at most."""
    host = f"[{target}]" if ":" in target else target
    return ("tcp", "-n", str(count), "-timeout", "3s", f"{host}:{port}")


def _route_attempts(
    source: str, deployed: Sequence[DeployedCluster], imported: ImportedService | None
) -> Iterator[Attempt]:
    """Connections to each cluster's server pod, and to the address of its Service; runs nothing.

    The latter is `needed` only in the source's own cluster, or if the address is an endpoint that
    the source imports.
    """
    published = imported.addresses if imported is not None else ()
    for one in deployed:
        yield Attempt("routes", source, one.cluster, POD, _dial(one.server, PORT))
        needed = one.cluster == source or one.service in published
        arguments = _dial(one.service, SERVICE_PORT)
        yield Attempt("routes", source, one.cluster, SERVICE_ADDRESS, arguments, needed=needed)


def _policy_attempts(source: str, deployed: Sequence[DeployedCluster]) -> Iterator[Attempt]:
    """A connection to each cluster's isolated pod, which should not be answered; runs nothing."""
    for one in deployed:
        arguments = _dial(one.guarded, PORT)
        yield Attempt(
            "policies", source, one.cluster, "isolated pod", arguments, expects_answer=False
        )


def _service_attempts(source: str, imported: ImportedService, name: str) -> Iterator[Attempt]:
    """A lookup and connections by the service's name, and connections by each clusterset IP.

    Without such IPs by the name of each exporting cluster instead. Runs nothing.
    """
    yield Attempt("names", source, name, "name", ("lookup", name))
    yield Attempt("services", source, name, "name", _dial(name, SERVICE_PORT, CONNECTIONS))
    for ip in imported.ips:
        arguments = _dial(ip, SERVICE_PORT, CONNECTIONS)
        yield Attempt("services", source, ip, "clusterset IP", arguments)
    for cluster in () if imported.ips else imported.exporters:
        own = f"{cluster}.{name}"
        yield Attempt("services", source, own, "name of a cluster", _dial(own, SERVICE_PORT))


def explain(
    outcomes: Sequence[Outcome],
    imported: Mapping[str, ImportedService | None],
    deployed: Sequence[DeployedCluster] = (),
) -> list[VerifyResult]:
    """The result of each attempt, in order; the cause of a failure is judged by all outcomes."""
    evidence = _Evidence(outcomes, imported, {one.cluster: one for one in deployed})
    return [_explain(outcome, evidence) for outcome in outcomes]


class _Cause(Struct, frozen=True):
    """Why an attempt did not end as expected, what to do, and how much it counts."""

    message: str
    remedy: str
    status: Status = "failed"


class _Evidence(Struct, frozen=True):
    """All outcomes of a run, by which the cause of each failure is judged."""

    outcomes: Sequence[Outcome]
    imported: Mapping[str, ImportedService | None]
    deployed: Mapping[str, DeployedCluster]

    def reaches(self, source: str, target: str, subject: str) -> bool | None:
        """Whether the first route attempt with these three was answered; None if none was made."""
        for outcome in self.outcomes:
            attempt = outcome.attempt
            if (attempt.topic, attempt.source, attempt.target, attempt.subject) == (
                *("routes", source, target),
                subject,
            ):
                return outcome.answered
        return None

    def drops(self, target: str, source: str) -> bool:
        """Whether pods of the source do not reach the pod of the target, while the other way works.

        Both ranges are routed then, since answers arrive. False if either was not tried.
        """
        return self.reaches(source, target, POD) is False and bool(
            self.reaches(target, source, POD)
        )

    def lacks_proxy(self, cluster: str) -> bool:
        """Whether pods of a cluster reach its own server pod, but not the Service in front of it.

        False if either was not tried.
        """
        return bool(self.reaches(cluster, cluster, POD)) and (
            self.reaches(cluster, cluster, SERVICE_ADDRESS) is False
        )


def _explain(outcome: Outcome, evidence: _Evidence) -> VerifyResult:
    """The attempt as a result: `ok` if it ended as expected, else with the status of its cause.

    The latter also gives message and remedy, which are "" if it is `ok`.
    """
    attempt = outcome.attempt
    cause = None if outcome.is_expected else _cause(outcome, evidence)
    return VerifyResult(
        attempt.source,
        attempt.target,
        attempt.topic,
        attempt.subject,
        "ok" if cause is None else cause.status,
        cause.message if cause is not None else "",
        outcome.output,
        cause.remedy if cause is not None else "",
    )


def _cause(outcome: Outcome, evidence: _Evidence) -> _Cause:
    """Why an attempt did not end as expected, by its topic and all outcomes."""
    match outcome.attempt.topic:
        case "routes":
            return _route_cause(outcome, evidence)
        case "policies":
            return _policy_cause(outcome, evidence.outcomes)
        case "hosts":
            return _Cause(
                "the cluster's DNS does not answer the host",
                "forward or delegate its zone to `hanse dns`: docs/guides/gslb.md",
            )
        case "names" | "services":
            return _service_cause(outcome, evidence)


def _route_cause(outcome: Outcome, evidence: _Evidence) -> _Cause:
    """Why an address is not reached: its cluster's proxy or network, a policy, or no route.

    A warning if the route is not needed. A refused connection hints at ranges that overlap; a
    policy is the cause if the other direction works.
    """
    attempt = outcome.attempt
    source, target, subject = attempt.source, attempt.target, attempt.subject
    kind = "pod" if subject == POD else "service"
    if subject == SERVICE_ADDRESS and evidence.lacks_proxy(target):
        return _proxy_cause(target)
    if not attempt.needed:
        message = f"no route from {source} to the {kind} range of {target}"
        return _Cause(message, "nothing: no Service's address is published here", "warning")
    if "refused" in outcome.output:
        message = f"{target} is reached, and nothing answers there"
        remedy = f"is the {kind} range of another cluster the same? see `hanse check --pre`"
        return _Cause(message, remedy)
    if source == target:
        message = f"pods of {target} do not reach each other"
        return _Cause(message, f"kubectl --context {target} get pods -A -o wide; its network?")
    if evidence.drops(target, source):
        message = f"{target} drops connections of pods of {source}: its own arrive in {source}"
        remedy = (
            f"allow pods of {source} in policies and firewalls of {target}: "
            f"kubectl --context {target} get networkpolicies -A"
        )
        return _Cause(message, remedy)
    message = f"no route from {source} to the {kind} range of {target}"
    return _Cause(message, _route_remedy(target, kind, evidence.deployed.get(target)))


def _route_remedy(target: str, kind: str, deployed: DeployedCluster | None) -> str:
    """The remedy as text: a command that routes the target's pods or Services via its node.

    It routes their range or, if that is not known, the one address; it is only advice if the node's
    address is not known.
    """
    remedy = f"route it to the nodes of {target}, and the way back; or let firewalls pass it"
    if deployed is None or not deployed.node:
        return remedy
    ranges, address = (
        (deployed.pod_range, deployed.server)
        if kind == "pod"
        else (deployed.service_range, deployed.service)
    )
    return f"ip route replace {ranges or address} via {deployed.node} # {remedy}"


def _proxy_cause(cluster: str) -> _Cause:
    """The cause, with its remedy, that kube-proxy of a cluster does not follow its Services."""
    return _Cause(
        f"the proxy of {cluster} does not follow its Services: its pods are reached, the address "
        "of the Service in front of them is not",
        f"kubectl --context {cluster} -n kube-system rollout restart daemonset kube-proxy",
    )


def _policy_cause(outcome: Outcome, outcomes: Sequence[Outcome]) -> _Cause:
    """Why an isolated pod answered, with the remedy.

    A warning that NetworkPolicies are not enforced if it also answers in its own cluster, or that
    was not tried; else a failure of this connection alone.
    """
    target = outcome.attempt.target
    own = [
        o
        for o in outcomes
        if (o.attempt.topic, o.attempt.source, o.attempt.target) == ("policies", target, target)
    ]
    if any(o.answered for o in own) or not own:
        message = f"the network of {target} does not enforce NetworkPolicies"
        remedy = "use a network plugin that does, if you rely on policies"
        return _Cause(message, remedy, "warning")
    message = f"policies of {target} do not hold for connections from {outcome.attempt.source}"
    remedy = "let the connection between the clusters keep the addresses of pods (no SNAT)"
    return _Cause(message, remedy)


def _service_cause(outcome: Outcome, evidence: _Evidence) -> _Cause:
    """Why a service or its name fails, with the remedy: the first that applies.

    Not imported; DNS that does not forward the zone; a proxy that does not follow Services; a route
    that is needed and lacking; else a proxy that has not followed yet.
    """
    source = outcome.attempt.source
    imported = evidence.imported[source]
    if imported is None or imported.missing:
        missing = imported.missing if imported is not None else "it is not installed"
        return _Cause(f"not imported in {source}: {missing}", "hanse doctor")
    if (
        "no such host" in outcome.output
        or "misbehaving" in outcome.output
        or outcome.attempt.topic == "names"
    ):
        deployed = evidence.deployed.get(source)
        address = deployed.dns if deployed is not None and deployed.dns else "ADDRESS"
        message = f"the DNS of {source} does not forward {ZONE}"
        return _Cause(message, f"add what `hanse dns corefile {address}` prints to its Corefile")
    if evidence.lacks_proxy(source):
        return _proxy_cause(source)
    lost = [
        o.attempt
        for o in evidence.outcomes
        if o.attempt.topic == "routes"
        and o.attempt.source == source
        and o.attempt.needed
        and not o.answered
    ]
    if lost:
        message = f"the {lost[0].subject} in {lost[0].target} is not reached from {source}"
        return _Cause(message, "see the failed routes above")
    return _Cause(
        "addresses are reached, and the service is not: the proxy has not followed",
        f"kubectl --context {source} -n kube-system get pods -l k8s-app=kube-proxy",
    )
