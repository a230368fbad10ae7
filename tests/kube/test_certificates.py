import ssl
from datetime import UTC, datetime, timedelta
from socket import socketpair
from threading import Thread

import pytest
from cryptography import x509

from hanse.kube.certificates import CertificateAuthority
from hanse.kube.server_tls import KeyPair, server_context


def trusting(authority: bytes) -> ssl.SSLContext:
    """The TLS context of a client that trusts one authority, given in PEM."""
    return ssl.create_default_context(cadata=authority.decode())


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """A whole TLS handshake over a pair of sockets; raises what the client raises."""
    ours, theirs = socketpair()

    def answer() -> None:
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    thread = Thread(target=answer)
    thread.start()
    try:
        client.wrap_socket(ours, server_hostname=host).close()
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_clients_of_the_authority_verify_its_servers(host: str) -> None:
    authority = CertificateAuthority.create("hanse")

    shake_hands(server_context(authority.server("lubeck")), trusting(authority.certificate), host)


def test_a_server_may_bear_the_name_of_its_authority() -> None:
    authority = CertificateAuthority.create("lubeck")

    shake_hands(
        server_context(authority.server("lubeck")),
        trusting(authority.certificate),
        "localhost",
    )


def test_a_server_of_another_authority_is_refused() -> None:
    server = server_context(CertificateAuthority.create("other").server("lubeck"))

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, trusting(CertificateAuthority.create("hanse").certificate), "localhost")


def test_a_host_that_is_not_in_the_certificate_is_refused() -> None:
    authority = CertificateAuthority.create("hanse")
    server = server_context(authority.server("lubeck", hosts=["webhook.default.svc"]))

    shake_hands(server, trusting(authority.certificate), "webhook.default.svc")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, trusting(authority.certificate), "localhost")


def test_an_expired_certificate_is_refused() -> None:
    authority = CertificateAuthority.create("hanse")
    long_ago = datetime.now(UTC) - timedelta(days=1000)

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(
            server_context(authority.server("lubeck", now=long_ago)),
            trusting(authority.certificate),
            "localhost",
        )


def test_an_authority_that_was_kept_goes_on_issuing() -> None:
    first = CertificateAuthority.create("hanse")
    again = CertificateAuthority.load(first.key_pair)

    shake_hands(server_context(again.server("bergen")), trusting(first.certificate), "localhost")


def test_a_client_certificate_names_the_user_and_its_groups() -> None:
    issued = CertificateAuthority.create("hanse").client("ada", ["system:masters"])

    subject = x509.load_pem_x509_certificate(issued.certificate).subject

    assert subject.rfc4514_string() == "CN=ada,O=system:masters"


def test_a_key_of_another_kind_is_no_authority() -> None:
    with pytest.raises(ValueError, match="PEM"):
        CertificateAuthority.load(KeyPair(b"", b"nonsense"))
