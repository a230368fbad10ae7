"""Records in presentation format, as zone files have them."""

import dns.rdata
import dns.rdataclass
import dns.rdatatype


def rdata_text(rtype: int, rdata: bytes) -> str:
    """The rdata of a record in presentation format; raises a dnspython error if it is malformed."""
    known = dns.rdatatype.RdataType.make(rtype)
    return str(dns.rdata.from_wire(dns.rdataclass.IN, known, rdata, 0, len(rdata)))


def type_name(rtype: int) -> str:
    """The mnemonic of any registered record type, unlike `type_mnemonic`; else `TYPE<number>`."""
    return dns.rdatatype.to_text(dns.rdatatype.RdataType.make(rtype))
