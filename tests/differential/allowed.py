"""Where the embedded cluster may answer otherwise than a real API server, and why.

Each is told to people in docs/embedded-differences.md.
"""

ALLOWED = {
    "patch: merge: the kind": "the kind is checked before the values of fields",
    "body: broken YAML": "another YAML parser finds the same mistake on another line",
    "other: a node": "new nodes are not tainted, for no controller would take the taint away",
    "other: a claim": "claims in use are not protected by a finalizer",
    "shown: a volume": "volumes in use are not protected by a finalizer",
    "shown: endpoints": "nobody is warned that Endpoints are deprecated",
    "namespace: finalized": "the answer to /finalize has the labels of the request",
    "namespace: a status": "the phase of a namespace is not checked",
    "create by put: endpoints": "nobody is warned that Endpoints are deprecated",
    "create by put: a role": "an empty list stays one, where a real server has null",
    "create by put: a lease with a version": "no version is accepted where nothing is yet",
    "definition life: a minimum of properties": "too many properties are told in the plural",
    "custom: a strategic patch": "server-side apply is not among the media types offered",
    "custom: a version that is another": "no warning comes with a refusal",
    "webhook changes: what it is told of a generated name": "the name is empty, not absent",
    "webhook changes: what it is told of an update": "a patch shows its own options",
    "webhook changes: a patch that does not apply": "the words for a bad patch are our own",
    "webhook fails: broken, and it matters": "the words for a broken webhook are our own",
    "webhook fails: nonsense": "the words for a broken webhook are our own",
    "webhook fails: a configuration without a name": "configurations are validated less",
    "webhook fails: a configuration with a bad URL": "configurations are validated less",
}
