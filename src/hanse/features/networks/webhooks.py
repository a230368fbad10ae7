"""Every admission decision about tenant networks."""

from hanse.features.networks.feature import Networks
from hanse.features.networks.hook_guards import (
    KeptHook,
    LabelsHook,
    NamespacesHook,
    NetworksHook,
    PeeringsHook,
    TemplatesHook,
)
from hanse.features.networks.hook_pods import PodsHook
from hanse.features.networks.hook_policies import PoliciesHook
from hanse.features.networks.hook_services import AddressesHook, ServicesHook
from hanse.features.networks.hook_slices import SlicesHook
from hanse.features.networks.service_addresses import ServiceAddresses
from hanse.model.verdict import Hook


def network_hooks(feature: Networks) -> tuple[Hook, ...]:
    """The hooks of one agent; those that give out addresses share what they promised."""
    addresses = ServiceAddresses()
    return (
        PodsHook(feature),
        ServicesHook(feature, addresses),
        AddressesHook(addresses),
        SlicesHook(feature),
        LabelsHook(feature),
        KeptHook(feature),
        TemplatesHook(feature),
        NamespacesHook(feature),
        NetworksHook(feature),
        PeeringsHook(),
        PoliciesHook(feature),
    )
