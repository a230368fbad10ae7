"""A network's names by CoreDNS: the same as by our own server, from a generated Corefile."""

from collections.abc import Iterable

from hanse.features.networks.names import NETWORK, TENANT, NetworkName


def render_corefile(name: NetworkName, domain: str, namespaces: Iterable[str]) -> str:
    """A Corefile that answers one network's Services and pods, and the two aliases.

    CoreDNS reads whole clusters, so its account needs to; only what has the network's labels is
    told. Aliases are rewritten on the way in and back on the way out.
    """
    spaces = " ".join(sorted(namespaces))
    kubernetes = f"{name.kubernetes}.{name.alias_namespace}.svc.{domain}"
    kube_dns = f"{name.kube_dns}.{name.dns_namespace}.svc.{domain}"
    return (
        ".:53 {\n"
        "    errors\n"
        "    health :8080\n"
        "    ready :8181\n"
        f"    rewrite name exact kubernetes.default.svc.{domain} {kubernetes} answer auto\n"
        f"    rewrite name exact kube-dns.kube-system.svc.{domain} {kube_dns} answer auto\n"
        f"    kubernetes {domain} in-addr.arpa ip6.arpa {{\n"
        f"        labels {TENANT}={name.tenant},{NETWORK}={name.network}\n"
        f"        namespaces {spaces}\n"
        "        pods verified\n"
        "        ttl 5\n"
        "    }\n"
        "    forward . /etc/resolv.conf\n"
        "    loop\n"
        "    reload\n"
        "}\n"
    )
