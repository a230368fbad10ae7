"""Resolves host names for plans: their addresses and TTL, by the system's resolver."""

import asyncio
from typing import TYPE_CHECKING

from hanse.model.objects import Wire

if TYPE_CHECKING:
    from dns.asyncresolver import Resolver

NOT_FOUND_TTL = 30
"""Seconds after which a name that does not exist is resolved again."""


class HostResolver:
    """The provider `resolve`: all addresses of a host, of both families.

    A name that does not exist has no addresses; a failure is an error, so that the caller keeps
    the addresses that it has.
    """

    def __init__(self, resolver: "Resolver | None" = None) -> None:
        """Without a resolver, one by the system's configuration is made at the first call."""
        self._resolver = resolver

    async def __call__(self, *, host: str) -> Wire:
        """The sorted `addresses` of a host and their lowest `ttl` in seconds; raises OSError.

        Without addresses the `ttl` is NOT_FOUND_TTL.
        """
        from dns.asyncresolver import Resolver  # imported only by agents that resolve a name

        resolver = self._resolver = self._resolver or Resolver()
        found = await asyncio.gather(*(_query_addresses(resolver, host, t) for t in ("A", "AAAA")))
        addresses = sorted({address for several, _ in found for address in several})
        ttl = min((ttl for several, ttl in found if several), default=NOT_FOUND_TTL)
        return {"addresses": addresses, "ttl": ttl}


async def _query_addresses(resolver: "Resolver", host: str, type_: str) -> tuple[list[str], int]:
    """A host's addresses of one record type and their TTL; none and NOT_FOUND_TTL if it has none.

    Waits at most 5 s; every other DNS failure is raised as OSError.
    """
    from dns.exception import DNSException
    from dns.resolver import NXDOMAIN, NoAnswer

    try:
        answer = await resolver.resolve(f"{host.rstrip('.')}.", type_, lifetime=5)
    except (NXDOMAIN, NoAnswer):
        return [], NOT_FOUND_TTL
    except DNSException as error:
        raise OSError(f"{host} could not be looked up: {error}") from error
    rrset = answer.rrset
    return [record.to_text() for record in answer], rrset.ttl if rrset is not None else 0
