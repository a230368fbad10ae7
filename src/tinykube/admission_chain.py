"""All admission of one API server, in order."""

from tinykube.admission import WebhookAdmission
from tinykube.admission_rules import AdmissionAttributes
from tinykube.policy_admission import PolicyAdmission
from tinykube.resources import Object


class AdmissionChain:
    """Mutating webhooks; then admission policies and validating webhooks."""

    def __init__(self, webhooks: WebhookAdmission, policies: PolicyAdmission) -> None:
        """Chain these two; nothing is called yet."""
        self._webhooks = webhooks
        self._policies = policies

    async def mutate(self, attributes: AdmissionAttributes) -> Object:
        """The object after all mutating webhooks; {} if the request has no object, as a deletion.

        Raises the first denial or failure of a webhook.
        """
        return await self._webhooks.mutate(attributes)

    async def validate(self, attributes: AdmissionAttributes) -> None:
        """Raise the error of the first policy that denies, else of the first validating webhook.

        Policies are evaluated first: if one denies, no webhook is called. A webhook that fails also
        raises, unless its failurePolicy is Ignore.
        """
        self._policies.validate(attributes)
        await self._webhooks.validate(attributes)
