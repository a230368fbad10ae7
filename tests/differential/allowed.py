"""The cases in which the embedded cluster may differ from a real API server, and why.

docs/embedded-differences.md lists them.
"""

ALLOWED = {
    "patch: merge: the kind": "the kind is checked before the values of fields",
    "body: broken YAML": "the YAML parser reports the same error on another line",
    "other: a node": "new nodes are not tainted: no controller would remove the taint",
    "other: a claim": "claims in use are not protected by a finalizer",
    "shown: a volume": "volumes in use are not protected by a finalizer",
    "shown: endpoints": "no warning that Endpoints are deprecated",
    "namespace: finalized": "the answer to /finalize has the labels of the request",
    "namespace: a status": "the phase of a namespace is not checked",
    "create by put: endpoints": "no warning that Endpoints are deprecated",
    "create by put: a role": "an empty list stays empty, where a real server has null",
    "create by put: a lease with a version": "a version is refused where no object is",
    "definition life: a minimum of properties": "the message on too many properties differs",
    "custom: a strategic patch": "server-side apply is not among the media types offered",
    "custom: a version that is another": "an error response has no warnings",
    "webhook changes: what it is told of a generated name": "the name is empty, not absent",
    "webhook changes: what it is told of an update": "a patch shows its own options",
    "webhook changes: a patch that does not apply": "the message for a bad patch differs",
    "webhook fails: broken, and it matters": "the message for a failing webhook differs",
    "webhook fails: nonsense": "the message for a failing webhook differs",
    "webhook fails: a configuration without a name": "configurations are validated less",
    "webhook fails: a configuration with a bad URL": "configurations are validated less",
}
