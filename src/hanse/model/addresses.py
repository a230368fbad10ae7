"""IP addresses as text."""

from ipaddress import ip_address


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
