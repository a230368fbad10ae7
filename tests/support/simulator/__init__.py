"""The simulator: all features together, on clusters of either engine, under users and faults.

A schedule is a list of steps, which are plain values: users' actions and faults, each followed by
a pause. Laws, the sentences that users rely on, are checked all the time while it is played and
again once everything has healed. A schedule that breaks a law is shrunk to a few steps and printed
as a test. `python -m tests.support.simulator --help` says how to play, replay and search.
"""
