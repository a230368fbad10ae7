"""The group `admissionregistration.k8s.io`: admission policies and webhook configurations."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Wire

GROUP = "admissionregistration.k8s.io"


class ValidatingAdmissionPolicy(Object, frozen=True, kw_only=True):
    """CEL expressions that validate admission requests."""

    kind: ClassVar[Kind] = Kind(
        GROUP, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
    )

    spec: Wire = {}


class ValidatingAdmissionPolicyBinding(Object, frozen=True, kw_only=True):
    """The binding of a policy to resources."""

    kind: ClassVar[Kind] = Kind(
        GROUP,
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        namespaced=False,
    )

    spec: Wire = {}


class ValidatingWebhookConfiguration(Object, frozen=True, kw_only=True):
    """Validating webhooks; the server sets omitted fields."""

    kind: ClassVar[Kind] = Kind(
        GROUP,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        namespaced=False,
    )

    webhooks: tuple[Wire, ...] = ()


class MutatingWebhookConfiguration(Object, frozen=True, kw_only=True):
    """Mutating webhooks; the server sets omitted fields."""

    kind: ClassVar[Kind] = Kind(
        GROUP,
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        namespaced=False,
    )

    webhooks: tuple[Wire, ...] = ()
