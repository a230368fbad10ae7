"""Tenant networks: names, addresses and isolation of their own, on any cluster."""
