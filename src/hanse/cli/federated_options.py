"""What an agent is told about federated Services."""

import re
from typing import TYPE_CHECKING

from hanse.cli.errors import InputError

if TYPE_CHECKING:
    from hanse.features.federated.options import FederatedOptions

_HOST = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+")


def parse_federated_options(template: str) -> "FederatedOptions":
    """What the option says; raises `InputError` for a template that gives no names, or one for all."""
    from hanse.features.federated.options import FederatedOptions

    sample = template.replace("{name}", "web").replace("{namespace}", "shop")
    if template and ("{name}" not in template or not _HOST.fullmatch(sample)):
        raise InputError(
            f"--federated-hostname: {template!r} is no template of host names; "
            "write it like {name}.{namespace}.example.org"
        )
    return FederatedOptions(hostname=template)
