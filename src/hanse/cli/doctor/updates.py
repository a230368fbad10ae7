"""The commands that bring an agent to the version of this program and change nothing else; pure."""

from shlex import quote

from hanse import __version__
from hanse.model.kinds.apps import Deployment
from hanse.model.naming import AGENT, SYSTEM_NAMESPACE

VERSION = "app.kubernetes.io/version"
_RELEASE = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"


def update_agent_command(context: str, agent: Deployment) -> str:
    """The command that updates an agent; empty where this program's minor version is the older one.

    A release of Helm keeps its values. Another Deployment gets the image of our version from where
    it has its own, and our version as its label; also empty if it has no container of our name.
    """
    theirs, ours = minor_version(agent.metadata.labels.get(VERSION, "")), minor_version(__version__)
    if theirs is not None and ours is not None and theirs > ours:
        return ""
    annotations = agent.metadata.annotations
    if release := annotations.get(_RELEASE):
        space = annotations.get(_RELEASE_NAMESPACE, SYSTEM_NAMESPACE)
        return (
            'chart="$(mktemp -d)/hanse" && hanse manifests --chart "$chart" && '
            f"helm --kube-context {quote(context)} -n {quote(space)} upgrade {quote(release)} "
            '"$chart" --reset-then-reuse-values'
        )
    image = _own_image(agent)
    if not image:
        return ""
    kubectl = f"kubectl --context {quote(context)} -n {SYSTEM_NAMESPACE}"
    return (
        f"{kubectl} set image deployment/{AGENT} {AGENT}={quote(image)} && "
        f"{kubectl} label deployment {AGENT} {VERSION}={__version__} --overwrite"
    )


def minor_version(text: str) -> tuple[int, int] | None:
    """Major and minor version of a text as 1.2.3; None if it is none."""
    try:
        major, minor = (int(number) for number in text.split(".")[:2])
    except ValueError:
        return None
    return (major, minor)


def _own_image(agent: Deployment) -> str:
    """The image of our version, from the repository of the agent's container; empty without one."""
    pod = agent.spec.template.get("spec") or {}
    images = (one.get("image", "") for one in pod.get("containers") or () if one["name"] == AGENT)
    image = next(images, "").partition("@")[0]
    folder, slash, name = image.rpartition("/")  # the registry may have a port
    repository = name.partition(":")[0]
    return f"{folder}{slash}{repository}:{__version__}" if repository else ""
