"""Tests of nodes with containers that need none."""
