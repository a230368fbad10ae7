"""TSIG keys as people have them in files."""

import dns.tsig
import pytest

from hanse.features.publishing.tsig_keys import InvalidTsigKey, parse_tsig_key

SECRET = "c2VjcmV0"
BIND = f'key "hanse" {{\n\talgorithm hmac-sha256;\n\tsecret "{SECRET}";\n}};\n'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BIND, id="as tsig-keygen writes it"),
        pytest.param(
            f"# hmac-sha256:hanse:{SECRET}\nkey:\n- id: hanse\n", id="as keymgr writes it"
        ),
        pytest.param(f"hmac-sha256:hanse:{SECRET}", id="in a line"),
    ],
)
def test_a_key_is_read_in_each_of_its_forms(text: str) -> None:
    key = parse_tsig_key(text)

    assert (key.name.to_text(), key.algorithm) == ("hanse.", dns.tsig.HMAC_SHA256)
    assert key.secret == b"secret"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no key"),
        ("key hanse { algorithm hmac-sha256; };", "lacks its algorithm or its secret"),
        (BIND.replace("sha256", "md4"), "hmac-md4 of key hanse is not one of hmac-sha256"),
        (BIND.replace(SECRET, "topsecret!"), "secret or the name of key hanse cannot be read"),
    ],
)
def test_an_unusable_key_is_reported_without_its_secret(text: str, message: str) -> None:
    with pytest.raises(InvalidTsigKey, match=message) as raised:
        parse_tsig_key(text)

    assert "topsecret" not in str(raised.value)
