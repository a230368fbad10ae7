"""Antrea policies that people make, change and delete in any member, and that hold in all."""
