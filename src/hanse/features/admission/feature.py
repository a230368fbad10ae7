"""Admission: the webhook configurations of this cluster, and the certificate they trust."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from msgspec.structs import replace

from hanse.features.admission.certificate import (
    MAX_REQUEUE,
    StoredCertificate,
    certificate_secret,
    needs_renewal,
    read_certificate,
)
from hanse.features.admission.configuration import NAME, SERVICE_PORT, certificate_hosts, webhooks
from hanse.features.admission.options import AdmissionOptions
from hanse.model.admission import AdmissionHook
from hanse.model.facts import Answer, ClusterState, Role, age
from hanse.model.kinds.admission import (
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from hanse.model.kinds.core import Secret, Service, ServicePort, ServiceSpec
from hanse.model.objects import K, Meta, Object
from hanse.model.plan import Call, Desired, Key, Plan, Question
from hanse.model.snapshot import Change, FactChange, ObjectChange, Snapshot, Watch, Writes

PROVIDER = "certificate"
"""Makes a certificate for `hosts`: gives `certificate`, `key`, `authority` and `renewAfter`."""

AGENT = {"app.kubernetes.io/name": "hanse-agent"}
"""The label of the agent's pods."""

ANSWER_MAX_AGE = timedelta(minutes=1)
"""How long a new certificate may take to be written; who deletes it later wants another one."""

KEY = Key("webhooks")
_CONFIGURATIONS = (ValidatingWebhookConfiguration, MutatingWebhookConfiguration)


class Admission:
    """Lets the API server ask this agent."""

    name = "admission"

    def __init__(
        self,
        hooks: Sequence[AdmissionHook] = (),
        options: AdmissionOptions = AdmissionOptions(),  # noqa: B008 - a frozen value
    ) -> None:
        self._hooks = tuple(hooks)
        self._options = options
        space = options.namespace
        self.watches: tuple[Watch, ...] = (
            Watch(Role.LOCAL, ValidatingWebhookConfiguration, writes=Writes.OBJECTS),
            Watch(Role.LOCAL, MutatingWebhookConfiguration, writes=Writes.OBJECTS),
            Watch(Role.LOCAL, Secret, namespace=space, name=NAME, writes=Writes.OBJECTS),
            Watch(Role.LOCAL, Service, namespace=space, writes=Writes.OBJECTS),
        )

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        match change:
            case ObjectChange(where, _, _):
                return [KEY] if where == snapshot.local and change.object.name == NAME else []
            case FactChange():
                fact = change.fact
                begun = isinstance(fact, ClusterState) and fact.cluster == snapshot.local
                return [KEY] if begun else []

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:  # noqa: ARG002 - there is one decision
        if not self._options.enabled or not self._hooks:
            return Plan()
        hosts = certificate_hosts(self._options)
        stored = read_certificate(
            snapshot.get(snapshot.local, Secret, NAME, self._options.namespace)
        )
        if stored is not None and not needs_renewal(stored, hosts, snapshot.now):
            rest = min(stored.renew_after - snapshot.now, MAX_REQUEUE)
            secret = _as_desired(stored.secret)
            return Plan(
                self._desired(secret, snapshot), requeue_after=max(rest, timedelta(seconds=1))
            )
        former = stored.digest if stored is not None else ""
        call = Call(PROVIDER, (("hosts", hosts), ("replaces", former)))
        question = Question(call, max_age=ANSWER_MAX_AGE)
        answer = snapshot.fact(Answer, call.id)
        if answer is None or answer.value is None or age(answer.at, snapshot.now) >= ANSWER_MAX_AGE:
            return Plan(self._as_it_stands(stored, snapshot), questions=(question,))
        made = certificate_secret(NAME, self._options.namespace, hosts, answer.value, stored)
        return Plan(self._desired(made, snapshot), questions=(question,))

    def _desired(self, secret: Secret, snapshot: Snapshot) -> tuple[Desired, ...]:
        """All of it; where a certificate takes the place of another, trust comes first."""
        replaces = snapshot.get(snapshot.local, Secret, NAME, self._options.namespace) is not None
        authority = secret.data["ca.crt"]
        validating = webhooks(self._hooks, authority, self._options, changing=False)
        mutating = webhooks(self._hooks, authority, self._options, changing=True)
        trust: list[Object] = []
        if validating:
            meta = Meta(name=NAME)
            trust.append(ValidatingWebhookConfiguration(metadata=meta, webhooks=validating))
        if mutating:
            trust.append(MutatingWebhookConfiguration(metadata=Meta(name=NAME), webhooks=mutating))
        first, second = (trust, [secret]) if replaces else ([secret], trust)
        service = [] if self._options.url else [self._service()]
        return (
            *(Desired(obj, snapshot.local) for obj in (*service, *first)),
            *(Desired(obj, snapshot.local, step=1) for obj in second),
        )

    def _as_it_stands(
        self, stored: StoredCertificate | None, snapshot: Snapshot
    ) -> tuple[Desired, ...]:
        """What there is, until there is a certificate: nothing is taken away meanwhile."""
        if stored is not None:
            return self._desired(_as_desired(stored.secret), snapshot)
        found = [snapshot.get(snapshot.local, kind, NAME) for kind in _CONFIGURATIONS]
        return tuple(Desired(_as_desired(obj), snapshot.local) for obj in found if obj is not None)

    def _service(self) -> Service:
        meta = Meta(name=NAME, namespace=self._options.namespace)
        port = ServicePort(name="https", port=SERVICE_PORT, target_port=self._options.port)
        return Service(metadata=meta, spec=ServiceSpec(selector=AGENT, ports=(port,)))


def _as_desired(obj: K) -> K:
    """An object that stands, as it would be written now."""
    meta = obj.metadata
    marks = {n: v for n, v in meta.annotations.items() if n.startswith("webhooks.hanse.dev/")}
    return replace(obj, metadata=Meta(name=meta.name, namespace=meta.namespace, annotations=marks))
