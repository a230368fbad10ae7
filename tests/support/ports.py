"""Free ports for the servers of tests."""

from contextlib import closing

from hanse.local.real.ports import PortReservations


def free_ports(count: int) -> list[int]:
    """Distinct ports that are free and not reserved by any fleet."""
    with closing(PortReservations()) as reservations:
        return reservations.reserve(count)
