"""Every admission decision about tenant networks."""

from hanse.features.networks.feature import Networks
from hanse.features.networks.hook_guards import (
    LabelsHook,
    ManagedObjectsHook,
    NamespacesHook,
    NetworksHook,
    PeeringsHook,
    TemplatesHook,
)
from hanse.features.networks.hook_slices import SlicesHook
from hanse.features.networks.pod_webhooks import PodsHook
from hanse.features.networks.policy_webhooks import PoliciesHook
from hanse.features.networks.service_addresses import ServiceAddresses
from hanse.features.networks.service_webhooks import ClusterServicesHook, ServicesHook
from hanse.model.verdict import Hook


def network_hooks(feature: Networks) -> tuple[Hook, ...]:
    """The hooks of one agent; those that give out addresses share what they promised."""
    addresses = ServiceAddresses()
    return (
        PodsHook(feature),
        ServicesHook(feature, addresses),
        ClusterServicesHook(addresses),
        SlicesHook(feature),
        LabelsHook(feature),
        ManagedObjectsHook(feature),
        TemplatesHook(feature),
        NamespacesHook(feature),
        NetworksHook(feature),
        PeeringsHook(),
        PoliciesHook(feature),
    )
