"""The group `admissionregistration.k8s.io`: what an API server checks or asks before it writes."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Wire

GROUP = "admissionregistration.k8s.io"


class ValidatingAdmissionPolicy(Object, frozen=True, kw_only=True):
    """Expressions that must hold of what is written."""

    kind: ClassVar[Kind] = Kind(
        GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
    )

    spec: Wire = {}


class ValidatingAdmissionPolicyBinding(Object, frozen=True, kw_only=True):
    """Where a policy holds."""

    kind: ClassVar[Kind] = Kind(
        GROUP,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        namespaced=False,
    )

    spec: Wire = {}


class ValidatingWebhookConfiguration(Object, frozen=True, kw_only=True):
    """Webhooks that may refuse; the server fills what they leave out."""

    kind: ClassVar[Kind] = Kind(
        GROUP,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        namespaced=False,
    )

    webhooks: tuple[Wire, ...] = ()


class MutatingWebhookConfiguration(Object, frozen=True, kw_only=True):
    """Webhooks that may refuse and change; the server fills what they leave out."""

    kind: ClassVar[Kind] = Kind(
        GROUP,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        namespaced=False,
    )

    webhooks: tuple[Wire, ...] = ()
