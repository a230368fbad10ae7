"""A local certificate authority that issues server and client certificates."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hanse.kube.server_tls import KeyPair

LIFETIME = timedelta(days=365)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SKEW = timedelta(hours=1)


class CertificateAuthority:
    """A certificate authority with an elliptic-curve key."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        """Sign with this key and certificate, which must belong together."""
        self._certificate = certificate
        self._key = key
        self.certificate = certificate.public_bytes(serialization.Encoding.PEM)
        """The CA certificate in PEM."""

    @classmethod
    def create(cls, name: str, now: datetime | None = None) -> Self:
        """A new authority with a self-signed certificate, which is valid for LIFETIME from `now`.

        `now` is the current time by default.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        # Else the certificate of a server with the authority's name would look self-signed.
        subject = _subject_name(name, ["hanse local authority"])
        builder = _certificate_builder(subject, subject, key.public_key(), now or datetime.now(UTC))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, kept: KeyPair) -> Self:
        """The authority of a key pair that was kept; raises `ValueError` for other PEM.

        That the certificate belongs to the key is not checked.
        """
        key = serialization.load_pem_private_key(kept.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is not an elliptic-curve key")  # noqa: TRY004 - the file's content is wrong, not a type in our program
        return cls(x509.load_pem_x509_certificate(kept.certificate), key)

    @property
    def key_pair(self) -> KeyPair:
        """The certificate and private key of the authority, to be stored as a secret."""
        return KeyPair(self.certificate, _key_pem(self._key))

    def server(
        self, name: str, hosts: Iterable[str] = LOOPBACK, now: datetime | None = None
    ) -> KeyPair:
        """A new key and certificate of a server with these host names and addresses.

        It is valid for LIFETIME from `now`, the current time by default.
        """
        names = x509.SubjectAlternativeName([_alternative_name(host) for host in hosts])
        return self._issue(_subject_name(name), ExtendedKeyUsageOID.SERVER_AUTH, now, names)

    def client(self, user: str, groups: Iterable[str] = (), now: datetime | None = None) -> KeyPair:
        """A new key and client certificate of a Kubernetes user, with groups as organizations.

        It is valid for LIFETIME from `now`, the current time by default.
        """
        return self._issue(_subject_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, now)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        now: datetime | None,
        names: x509.SubjectAlternativeName | None = None,
    ) -> KeyPair:
        """Create a key and sign a certificate for it with this CA.

        `now` is the current time by default.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate_builder(
            subject, self._certificate.subject, key.public_key(), now or datetime.now(UTC)
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, False)
        if names is not None:
            builder = builder.add_extension(names, False)
        signed = builder.sign(self._key, hashes.SHA256())
        return KeyPair(signed.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def _subject_name(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    """A subject with the organizations first, then the common name."""
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative_name(host: str) -> x509.GeneralName:
    """The subject alternative name of a host: an IP address if it is one, else a DNS name."""
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    """A builder of a certificate valid from an hour before `now` until LIFETIME after it."""
    return x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=issuer,
        public_key=key,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _SKEW,
        not_valid_after=now + LIFETIME,
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """For digital signatures, and with `signs_certificates` for certificates and CRLs, too."""
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The private key as PEM (PKCS #8), not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
