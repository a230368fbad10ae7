"""TSIG keys, as name servers write them into files."""

import binascii
import re

import dns.exception
import dns.name
import dns.tsig

_BLOCK = re.compile(r'key\s+"?(?P<name>[^\s"{]+)"?\s*\{(?P<body>[^}]*)\}', re.DOTALL)
_ALGORITHM = re.compile(r'algorithm\s+"?([\w-]+)"?\s*;')
_SECRET = re.compile(r'secret\s+"?([^\s";]+)"?\s*;')
_LINE = re.compile(r"(?P<algorithm>hmac-[\w-]+):(?P<name>[^:\s]+):(?P<secret>[^:\s]+)")
ALGORITHMS = {
    name: getattr(dns.tsig, name.upper().replace("-", "_"))
    for name in ("hmac-sha256", "hmac-sha384", "hmac-sha512", "hmac-sha224", "hmac-sha1")
}


class InvalidTsigKey(ValueError):
    """A text that holds no usable key; the message says why and never repeats a secret."""


def parse_tsig_key(text: str) -> dns.tsig.Key:
    """The key in what `tsig-keygen` writes, or in a line `algorithm:name:secret`.

    The first one counts, and a block before a line. Raises InvalidTsigKey if there is no usable
    key.
    """
    block, line = _BLOCK.search(text), _LINE.search(text)
    if block is not None:
        algorithm, secret = _ALGORITHM.search(block["body"]), _SECRET.search(block["body"])
        if algorithm is None or secret is None:
            raise InvalidTsigKey(f"key {block['name']} lacks its algorithm or its secret")
        return _parse_key(block["name"], algorithm[1], secret[1])
    if line is not None:
        return _parse_key(line["name"], line["algorithm"], line["secret"])
    raise InvalidTsigKey("it holds no key; write one with `tsig-keygen NAME`")


def _parse_key(name: str, algorithm: str, secret: str) -> dns.tsig.Key:
    """The TSIG key; raises InvalidTsigKey for an unknown algorithm or an invalid name or secret."""
    known = ALGORITHMS.get(algorithm.lower())
    if known is None:
        several = ", ".join(ALGORITHMS)
        raise InvalidTsigKey(f"algorithm {algorithm} of key {name} is not one of {several}")
    try:
        return dns.tsig.Key(dns.name.from_text(name), secret, known)
    except (binascii.Error, dns.exception.DNSException, ValueError):
        raise InvalidTsigKey(f"the secret or the name of key {name} cannot be read") from None
