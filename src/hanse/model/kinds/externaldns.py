"""The group `externaldns.k8s.io`, which is ExternalDNS's: records for the world."""

from typing import ClassVar

from hanse.model.objects import Kind, Object, Value, wire_field


class ProviderProperty(Value, frozen=True, kw_only=True):
    """A setting that one DNS provider knows."""

    name: str
    value: str = ""


class DNSRecord(Value, frozen=True, kw_only=True):
    """One record set."""

    dns_name: str
    record_type: str = ""
    record_ttl: int = wire_field("recordTTL", 0)
    targets: tuple[str, ...] = ()
    set_identifier: str = ""
    provider_specific: tuple[ProviderProperty, ...] = ()
    labels: dict[str, str] = {}


class DNSEndpointSpec(Value, frozen=True, kw_only=True):
    """The record sets."""

    endpoints: tuple[DNSRecord, ...] = ()


class DNSEndpoint(Object, frozen=True, kw_only=True):
    """Record sets that ExternalDNS publishes."""

    kind: ClassVar[Kind] = Kind("externaldns.k8s.io", "v1alpha1", "DNSEndpoint", "dnsendpoints")

    spec: DNSEndpointSpec = DNSEndpointSpec()
