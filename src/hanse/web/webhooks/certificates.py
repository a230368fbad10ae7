"""Issues the certificates of webhooks."""

import asyncio
from datetime import timedelta

from hanse.kube.clock import Clock
from hanse.model.objects import Wire

RENEWED_AT = 2 / 3
"""The part of a certificate's lifetime after which a new one is issued."""


class Certificates:
    """A provider: one certificate for some hosts, by an authority that signs nothing else."""

    def __init__(self, clock: Clock) -> None:
        """Certificates are valid from the present time of this clock."""
        self._clock = clock

    async def __call__(self, hosts: str, replaces: str) -> Wire:  # noqa: ARG002 - tells questions apart
        """Issue a server certificate for comma-separated hosts, by a new authority.

        Returns `certificate`, `key` and `authority` as PEM, and the time `renewAfter` (ISO 8601),
        after two thirds of its lifetime; `replaces` is not used.
        """
        from hanse.kube.certificates import (  # 8 MiB that few agents need
            LIFETIME,
            CertificateAuthority,
        )

        await asyncio.sleep(0)
        now = self._clock.now()
        authority = CertificateAuthority.create("hanse webhooks", now)
        issued = authority.server("hanse-webhooks", hosts.split(","), now)
        renew_after = now + timedelta(seconds=LIFETIME.total_seconds() * RENEWED_AT)
        return {
            "certificate": issued.certificate.decode(),
            "key": issued.key.decode(),
            "authority": authority.certificate.decode(),
            "renewAfter": renew_after.replace(microsecond=0).isoformat(),
        }
