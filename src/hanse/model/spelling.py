"""The domain of a federation, which its design spells in several ways: all are read."""

from collections.abc import Mapping

DOMAINS = (
    "antreaplus.vmware.com",
    "antreaplus.vmware-tanzu.com",
    "antreaplus.vmware-tanzue.com",
    "antreaplus.tanzu-vmware.com",
)


def label_spellings(name: str) -> tuple[str, ...]:
    """Every way to write a mark, such as `svc.global.federated`, with its domain."""
    return tuple(f"{name}.{domain}" for domain in DOMAINS)


def spelled_label(marks: Mapping[str, str], name: str) -> str:
    """How somebody wrote a mark, to tell it as it stands; by the first spelling if nobody did."""
    return next((s for s in label_spellings(name) if s in marks), label_spellings(name)[0])


def spelled(marks: Mapping[str, str], name: str) -> str | None:
    """The value of a mark in whichever spelling it stands; the first of several counts."""
    return next((marks[s] for s in label_spellings(name) if s in marks), None)
