"""For any records: applying a plan leaves nothing to do; the order of clusters is irrelevant."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hanse.features.federated.records import Backends, MemberPort, MemberRecord
from hanse.model.facts import KindServed
from hanse.model.kinds.antrea import ClusterGroup, Group
from hanse.model.kinds.core import ConfigMap, Protocol
from hanse.model.kinds.discovery import EndpointPort
from hanse.model.kinds.externaldns import DNSEndpoint
from hanse.model.objects import ClusterId
from hanse.runtime.diff import diff
from tests.features.federated.builders import (
    HERE,
    observed,
    plan_for,
    record,
    service_key,
    stored_configmap,
)
from tests.support.builders import stored

KINDS = [KindServed(HERE, kind.kind, served=True) for kind in (ClusterGroup, Group, DNSEndpoint)]
PROTOCOLS: st.SearchStrategy[Protocol] = st.sampled_from(("TCP", "UDP"))


@st.composite
def records(draw: st.DrawFn, of: ClusterId) -> MemberRecord:
    """A member Service with some ports and some endpoints of each family."""
    ports = draw(
        st.lists(
            st.builds(
                MemberPort,
                port=st.integers(80, 82),
                name=st.sampled_from(("", "http", "web")),
                protocol=PROTOCOLS,
            ),
            max_size=2,
            unique_by=(lambda p: (p.port, p.protocol), lambda p: p.name),
        )
    )
    served = tuple(EndpointPort(port=p.port, name=p.name, protocol=p.protocol) for p in ports)
    numbers = st.lists(st.integers(1, 9), max_size=3, unique=True)
    four = tuple(f"10.3.0.{n}" for n in draw(numbers))
    six = tuple(f"fd00::{n}" for n in draw(numbers))
    backends = (
        Backends("a", "IPv4", served, ready=four[:2], unready=four[2:]),
        Backends("b", "IPv6", served, ready=six),
    )
    hostname = draw(st.sampled_from(("", "web.example.org")))
    return record(of, ports=tuple(ports), backends=backends, hostname=hostname)


@st.composite
def members_with_records(draw: st.DrawFn) -> dict[ClusterId, list[ConfigMap]]:
    names = draw(st.sets(st.sampled_from(("lubeck", "bergen", "hamburg")), min_size=1))
    return {
        name: [stored_configmap(draw(records(name)), age=draw(st.integers(0, 2)))]
        for name in sorted(names)
    }


@settings(max_examples=40)
@given(members_with_records())
def test_a_plan_carried_out_leaves_nothing_to_do(members: dict[ClusterId, list[ConfigMap]]) -> None:
    view = observed(members, facts=KINDS)
    actions = diff("federated", service_key(), plan_for(service_key(), view), (), view).actions
    made = [stored(a.object) for a in actions if hasattr(a, "object")]

    after = observed({**members, HERE: [*members.get(HERE, []), *made]}, facts=KINDS)

    again = diff("federated", service_key(), plan_for(service_key(), after), (), after)
    assert again.actions == ()
    assert again.obstacles == ()


@settings(max_examples=40)
@given(members_with_records())
def test_the_order_of_clusters_is_irrelevant(members: dict[ClusterId, list[ConfigMap]]) -> None:
    turned = dict(reversed(members.items()))

    one, other = (plan_for(service_key(), observed(m, facts=KINDS)) for m in (members, turned))

    assert set(map(repr, one.desired)) == set(map(repr, other.desired))
