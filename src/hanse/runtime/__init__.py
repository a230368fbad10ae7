"""The controller runtime: one reconciler for all features, and the only package that writes.

A change takes this path, a module each:

    informers       list and watch every connected cluster into stores, and notify of changes
    enqueue         map a change to the keys that it concerns
    workqueue       deduplicate keys, and hand them out one worker per key
    reconciler      plan a key by its feature, and apply what differs
    diff, compare   compare the plan with the observed objects
    backoff, pause, mass_deletion   hold back what must wait
    apply           send creates, patches and deletes, fenced by leader_election

Beside it, connection_reconciler connects and leaves clusters, lease_tracker and health_probe judge
who is alive, and preview plans without writing.
"""
