"""The serving certificate of webhooks in its Secret: reading it, and when to renew it."""

from datetime import datetime, timedelta
from hashlib import blake2b

from msgspec import Struct

from hanse.model.kinds.core import Secret
from hanse.model.objects import Meta, Wire, parse_time

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
HOSTS = "webhooks.hanse.dev/hosts"
RENEW_AFTER = "webhooks.hanse.dev/renew-after"
DIGEST = "webhooks.hanse.dev/digest"
"""Annotation with a digest of the Secret's data, which shows changes by others."""

_TYPE = "kubernetes.io/tls"
_END = b"-----END CERTIFICATE-----\n"
MAX_REQUEUE = timedelta(hours=12)
"""The longest time until the certificate is checked again."""


class StoredCertificate(Struct, frozen=True):
    """A certificate in its Secret."""

    secret: Secret
    hosts: str
    renew_after: datetime

    @property
    def authority(self) -> bytes:
        """The CA bundle that API servers trust, the current authority first."""
        return self.secret.data[AUTHORITY]

    @property
    def digest(self) -> str:
        """The digest in the Secret's annotation."""
        return self.secret.metadata.annotations[DIGEST]


def read_certificate(secret: Secret | None) -> StoredCertificate | None:
    """The certificate in a Secret; None if it is missing or incomplete.

    None, too, if it differs from its digest or has no valid time of renewal.
    """
    if secret is None:
        return None
    annotations = secret.metadata.annotations
    if not {CERTIFICATE, KEY, AUTHORITY} <= secret.data.keys():
        return None
    if annotations.get(DIGEST) != secret_digest(secret.data):
        return None
    renew_after = parse_time(annotations.get(RENEW_AFTER))
    if renew_after is None:
        return None
    return StoredCertificate(secret, annotations.get(HOSTS, ""), renew_after)


def needs_renewal(stored: StoredCertificate, hosts: str, now: datetime) -> bool:
    """Whether a new certificate is needed: it is for other hosts, or its renewal is due."""
    return stored.hosts != hosts or now >= stored.renew_after


def certificate_secret(
    name: str, namespace: str, hosts: str, issued: Wire, before: StoredCertificate | None
) -> Secret:
    """The Secret of a new certificate; the newest authority of `before` stays in the CA bundle.

    Annotations hold its hosts, the time to renew it, and the digest of its data. Nothing is
    written.
    """
    previous = before.authority.partition(_END) if before is not None else (b"", b"", b"")
    data = {
        CERTIFICATE: str(issued["certificate"]).encode(),
        KEY: str(issued["key"]).encode(),
        AUTHORITY: str(issued["authority"]).encode() + previous[0] + previous[1],
    }
    annotations = {
        HOSTS: hosts,
        RENEW_AFTER: str(issued["renewAfter"]),
        DIGEST: secret_digest(data),
    }
    meta = Meta(name=name, namespace=namespace, annotations=annotations)
    return Secret(metadata=meta, type=_TYPE, data=data)


def is_replaceable(secret: Secret) -> bool:
    """Whether an update can put a new certificate in: it is a TLS Secret, and not immutable."""
    return secret.type == _TYPE and not secret.immutable


def secret_digest(data: dict[str, bytes]) -> str:
    """A hash of certificate, key and CA bundle in a Secret's data; it shows if one was changed."""
    digest = blake2b(digest_size=16)
    for name in (CERTIFICATE, KEY, AUTHORITY):
        digest.update(data.get(name, b"") + b"\0")
    return digest.hexdigest()
