"""The certificate of webhooks as a Secret holds it: is it whole, is it time for another."""

from datetime import datetime, timedelta
from hashlib import blake2b

from msgspec import Struct

from hanse.model.kinds.core import Secret
from hanse.model.objects import Meta, Wire

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
HOSTS = "webhooks.hanse.dev/hosts"
RENEW_AFTER = "webhooks.hanse.dev/renew-after"
DIGEST = "webhooks.hanse.dev/digest"
"""What the Secret held when it was written: other content is somebody else's."""

_END = b"-----END CERTIFICATE-----\n"
MAX_REQUEUE = timedelta(hours=12)


class StoredCertificate(Struct, frozen=True):
    """A certificate that is in use."""

    secret: Secret
    hosts: str
    renew_after: datetime

    @property
    def authority(self) -> bytes:
        """Everything that API servers trust, the present authority first."""
        return self.secret.data[AUTHORITY]

    @property
    def digest(self) -> str:
        return self.secret.metadata.annotations[DIGEST]


def read_certificate(secret: Secret | None) -> StoredCertificate | None:
    """The certificate in a Secret; None where it is not as it was written."""
    if secret is None:
        return None
    marks = secret.metadata.annotations
    if not {CERTIFICATE, KEY, AUTHORITY} <= secret.data.keys():
        return None
    if marks.get(DIGEST) != secret_digest(secret.data):
        return None
    try:
        renew_after = datetime.fromisoformat(marks.get(RENEW_AFTER, ""))
    except ValueError:
        return None
    return (
        StoredCertificate(secret, marks.get(HOSTS, ""), renew_after) if renew_after.tzinfo else None
    )


def needs_renewal(stored: StoredCertificate, hosts: str, now: datetime) -> bool:
    """Whether another certificate is needed."""
    return stored.hosts != hosts or now >= stored.renew_after


def certificate_secret(
    name: str, namespace: str, hosts: str, made: Wire, before: StoredCertificate | None
) -> Secret:
    """The Secret for a new certificate; the authority before it stays trusted for a time."""
    former = before.authority.partition(_END) if before is not None else (b"", b"", b"")
    data = {
        CERTIFICATE: str(made["certificate"]).encode(),
        KEY: str(made["key"]).encode(),
        AUTHORITY: str(made["authority"]).encode() + former[0] + former[1],
    }
    marks = {HOSTS: hosts, RENEW_AFTER: str(made["renewAfter"]), DIGEST: secret_digest(data)}
    meta = Meta(name=name, namespace=namespace, annotations=marks)
    return Secret(metadata=meta, type="kubernetes.io/tls", data=data)


def secret_digest(data: dict[str, bytes]) -> str:
    """What tells one content of a Secret from another, and nothing about it."""
    told = blake2b(digest_size=16)
    for name in (CERTIFICATE, KEY, AUTHORITY):
        told.update(data.get(name, b"") + b"\0")
    return told.hexdigest()
