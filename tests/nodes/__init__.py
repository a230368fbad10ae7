"""Packet tests: containers on real nodes, and connections that arrive or do not."""
