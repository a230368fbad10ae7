"""The feature `admission`: webhook configurations of this cluster, and their certificate."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from msgspec.structs import replace

from hanse.features.admission.certificate import (
    MAX_REQUEUE,
    StoredCertificate,
    certificate_secret,
    is_replaceable,
    needs_renewal,
    read_certificate,
)
from hanse.features.admission.configuration import (
    NAME,
    SERVICE_PORT,
    certificate_hosts,
    webhook_entries,
)
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
"""The provider that issues a certificate: `certificate`, `key`, `authority`, `renewAfter`."""

AGENT = {"app.kubernetes.io/name": "hanse-agent"}
"""The label of the agent's pods."""

ANSWER_MAX_AGE = timedelta(minutes=1)
"""How long an issued certificate may take to be written; a Secret deleted later gets a new one."""

KEY = Key("webhooks")
_LEFT_BEHIND = "webhooks of a feature that was switched off would refuse requests"
_CONFIGURATIONS = (ValidatingWebhookConfiguration, MutatingWebhookConfiguration)


class Admission:
    """Registers this agent's webhooks with the API server of its cluster."""

    name = "admission"

    def __init__(
        self,
        hooks: Sequence[AdmissionHook] = (),
        options: AdmissionOptions = AdmissionOptions(),  # noqa: B008 - a frozen value
    ) -> None:
        """Declare the watches: with hooks to write, else to delete what an earlier agent left."""
        self._hooks = tuple(hooks)
        self._options = options
        self.watches: tuple[Watch, ...] = _watches(options.namespace, writes=bool(self._hooks))

    def keys_for(self, change: Change, snapshot: Snapshot) -> Iterable[Key]:
        """The only key, for a local object named `hanse-webhooks` and the local cluster's state.

        Nothing for any other change.
        """
        match change:
            case ObjectChange(where, _, _):
                return [KEY] if where == snapshot.local and change.object.name == NAME else []
            case FactChange():
                fact = change.fact
                is_local_state = isinstance(fact, ClusterState) and fact.cluster == snapshot.local
                return [KEY] if is_local_state else []

    def plan(self, key: Key, snapshot: Snapshot) -> Plan:  # noqa: ARG002 - there is one decision
        """The webhook objects with a valid certificate; asks for a new one when it is due.

        Until the answer, which counts for a minute, the current objects stay. Without hooks, or
        where disabled, the plan is empty, and what an earlier agent left is deleted.
        """
        if not self._options.enabled or not self._hooks:
            return Plan()
        hosts = certificate_hosts(self._options)
        stored = read_certificate(
            snapshot.get(snapshot.local, Secret, NAME, self._options.namespace)
        )
        if stored is not None and not needs_renewal(stored, hosts, snapshot.now):
            wait = min(stored.renew_after - snapshot.now, MAX_REQUEUE)
            secret = _as_desired(stored.secret)
            return Plan(
                self._desired(secret, snapshot), requeue_after=max(wait, timedelta(seconds=1))
            )
        previous = stored.digest if stored is not None else ""
        call = Call(PROVIDER, (("hosts", hosts), ("replaces", previous)))
        question = Question(call, max_age=ANSWER_MAX_AGE)
        answer = snapshot.fact(Answer, call.id)
        if answer is None or answer.value is None or age(answer.at, snapshot.now) >= ANSWER_MAX_AGE:
            return Plan(self._keep_current(stored, snapshot), questions=(question,))
        secret = certificate_secret(NAME, self._options.namespace, hosts, answer.value, stored)
        return Plan(self._desired(secret, snapshot), questions=(question,))

    def _desired(self, secret: Secret, snapshot: Snapshot) -> tuple[Desired, ...]:
        """The Service (none with a URL), the webhook configurations and the Secret.

        A renewed CA bundle is written before the certificate that needs it; on first creation the
        Secret is written before the configurations.
        """
        replaces = snapshot.get(snapshot.local, Secret, NAME, self._options.namespace) is not None
        authority = secret.data["ca.crt"]
        validating = webhook_entries(self._hooks, authority, self._options, mutating=False)
        mutating = webhook_entries(self._hooks, authority, self._options, mutating=True)
        configurations: list[Object] = []
        if validating:
            meta = Meta(name=NAME)
            configurations.append(
                ValidatingWebhookConfiguration(metadata=meta, webhooks=validating)
            )
        if mutating:
            configurations.append(
                MutatingWebhookConfiguration(metadata=Meta(name=NAME), webhooks=mutating)
            )
        first, second = (configurations, [secret]) if replaces else ([secret], configurations)
        return (
            *(Desired(obj, snapshot.local) for obj in (*self._webhook_services(), *first)),
            *(Desired(obj, snapshot.local, step=1) for obj in second),
        )

    def _keep_current(
        self, stored: StoredCertificate | None, snapshot: Snapshot
    ) -> tuple[Desired, ...]:
        """The current objects, so that none is deleted while a certificate is being issued.

        An altered Secret stays, too, to be overwritten, unless the API server would refuse that.
        """
        if stored is not None:
            return self._desired(_as_desired(stored.secret), snapshot)
        here = snapshot.local
        configurations = [snapshot.get(here, kind, NAME) for kind in _CONFIGURATIONS]
        altered = snapshot.get(here, Secret, NAME, self._options.namespace)
        secret = altered if altered is not None and is_replaceable(altered) else None
        kept = [_as_desired(obj) for obj in (*configurations, secret) if obj is not None]
        return tuple(Desired(obj, here) for obj in (*self._webhook_services(), *kept))

    def _webhook_services(self) -> tuple[Service, ...]:
        """The Service by which the API server reaches the agent's pods; none with a URL."""
        if self._options.url:
            return ()
        meta = Meta(name=NAME, namespace=self._options.namespace)
        port = ServicePort(name="https", port=SERVICE_PORT, target_port=self._options.port)
        return (Service(metadata=meta, spec=ServiceSpec(selector=AGENT, ports=(port,))),)


def _watches(namespace: str, *, writes: bool) -> tuple[Watch, ...]:
    """Watches of our configurations, Secret and Service by name: to write them, or only to delete.

    The latter for an agent without hooks, where an earlier one had some.
    """
    why = "API servers send requests to the agent's webhooks" if writes else _LEFT_BEHIND
    kept = Writes.OBJECTS if writes else Writes.REMOVAL
    return (
        *(Watch(Role.LOCAL, k, name=NAME, writes=kept, reason=why) for k in _CONFIGURATIONS),
        *(
            Watch(
                Role.LOCAL,
                kind,
                namespace=namespace,
                name=NAME,
                writes=kept,
                reason=why,
                only_with=only_with,
            )
            for kind, only_with in ((Secret, ""), (Service, "agents in pods"))
        ),
    )


def _as_desired(obj: K) -> K:
    """A current object with only its name, namespace and the annotations that we write."""
    meta = obj.metadata
    annotations = {n: v for n, v in meta.annotations.items() if n.startswith("webhooks.hanse.dev/")}
    return replace(
        obj, metadata=Meta(name=meta.name, namespace=meta.namespace, annotations=annotations)
    )
