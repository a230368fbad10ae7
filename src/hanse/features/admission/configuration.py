"""The entries of webhook configurations, built from the rules of each webhook."""

from base64 import b64encode
from collections.abc import Iterable, Sequence

from hanse.features.admission.options import AdmissionOptions
from hanse.model.admission import AdmissionHook, WebhookRule
from hanse.model.kinds.federation import SYSTEM
from hanse.model.naming import WEBHOOK_DOMAIN
from hanse.model.objects import Wire

NAME = "hanse-webhooks"
SERVICE_PORT = 443
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


def webhook_entries(
    hooks: Iterable[AdmissionHook], authority: bytes, options: AdmissionOptions, *, mutating: bool
) -> tuple[Wire, ...]:
    """The entries of the validating or, with `mutating`, the mutating webhook configuration.

    There is one for each rule of a hook that is of this sort, in the order of the hooks.
    """
    return tuple(
        _webhook_entry(hook, number, asks, authority, options)
        for hook in hooks
        for number, asks in enumerate(hook.rules)
        if asks.changes is mutating
    )


def certificate_hosts(options: AdmissionOptions) -> str:
    """Comma-joined hosts of the serving certificate: the host of the URL, without its port.

    Without a URL the names of the Service: `….svc` and `….svc.cluster.local`.
    """
    if not options.url:
        service = f"{NAME}.{options.namespace}"
        return f"{service}.svc,{service}.svc.cluster.local"
    authority = options.url.partition("://")[2].partition("/")[0]
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.rpartition(":")[0] or authority


def _webhook_entry(
    hook: AdmissionHook, number: int, asks: WebhookRule, authority: bytes, options: AdmissionOptions
) -> Wire:
    """One webhook entry; one with policy Fail exempts the namespaces needed to repair an agent."""
    return {
        "name": f"{hook.name}-{number}.{WEBHOOK_DOMAIN}",
        "clientConfig": _client_config(hook.name, authority, options),
        "rules": [
            {
                "apiGroups": list(asks.groups),
                "apiVersions": list(asks.versions),
                "resources": list(asks.resources),
                "operations": list(asks.operations),
                "scope": "*",
            }
        ],
        "failurePolicy": "Fail" if asks.required else "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespace_selector(asks, options)
        if asks.required
        else dict(asks.namespaces),
        "objectSelector": dict(asks.objects),
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": asks.timeout_seconds,
        "admissionReviewVersions": ["v1"],
    }


def _client_config(hook: str, authority: bytes, options: AdmissionOptions) -> Wire:
    """The `clientConfig` by which the API server calls a hook: `options.url`, else the Service."""
    bundle = b64encode(authority).decode()
    if options.url:
        return {"caBundle": bundle, "url": f"{options.url.rstrip('/')}/{hook}"}
    service = {
        "name": NAME,
        "namespace": options.namespace,
        "path": f"/{hook}",
        "port": SERVICE_PORT,
    }
    return {"caBundle": bundle, "service": service}


def _namespace_selector(asks: WebhookRule, options: AdmissionOptions) -> Wire:
    """The webhook's selector without namespaces that must stay writable to repair an agent.

    These are the agent's own, the federation's and kube-system.
    """
    exempt = sorted({options.namespace, SYSTEM, "kube-system"})
    rule = {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": exempt}
    given: Sequence[Wire] = asks.namespaces.get("matchExpressions") or ()
    return {**asks.namespaces, "matchExpressions": [*given, rule]}
