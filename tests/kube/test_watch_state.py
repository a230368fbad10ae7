"""Where a list-and-watch goes on."""

from hanse.kube.watch_events import Applied
from hanse.kube.watch_state import Resume, before_last
from hanse.model.kinds.core import ConfigMap
from hanse.model.objects import Meta


def test_a_replay_that_is_interrupted_goes_on_where_the_first_one_would_have() -> None:
    last = Applied(ConfigMap(metadata=Meta(name="c", namespace="shop", resource_version="70")))
    position = Resume("900", last=last)  # a bookmark came after the last change

    once = before_last(position)
    again = before_last(once)

    assert (once.version, once.replayed_for) == ("69", "900")
    assert again == once
