"""Publishes names on external name servers and, by ExternalDNS, at DNS providers."""
