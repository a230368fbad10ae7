"""The shared types: kinds, snapshot, plan, conditions, facts. Pure: no I/O, no clock."""
