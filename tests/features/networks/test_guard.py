"""The guard's facts and transactions: whose an address is, and that steps end where they should."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hanse.features.networks.addressed_pods import AddressedPod
from hanse.features.networks.feature import Networks
from hanse.features.networks.guard.facts import (
    AddressOwner,
    ClusterFacts,
    NetworkFacts,
    Owner,
    Undecided,
    address_owner,
    cluster_facts,
    pod_addresses,
)
from hanse.features.networks.guard.ruleset import Ruleset, build_ruleset
from hanse.features.networks.guard.transaction import difference, has_families_for, set_owners
from hanse.features.networks.guard.vpcs import VpcFacts
from hanse.features.networks.guard.watches import GUARD_WATCHES
from hanse.features.networks.names import CNI_ARGS, DNS, NETWORK, TENANT, NetworkName
from hanse.model.facts import Role
from hanse.model.kinds.core import Pod, PodSpec
from hanse.model.objects import Object
from hanse.model.snapshot import Snapshot
from tests.features.networks.builders import HERE, network, pod, space
from tests.support.builders import cluster, snapshot
from tinykube.virtual_time import EPOCH

ACME, BOLT = NetworkName("acme"), NetworkName("bolt")


class _Guarded(Networks):
    """A feature that watches what a guard does, for the builders."""

    def __init__(self) -> None:
        super().__init__()
        self.watches = GUARD_WATCHES


def guarded(*objects: Object) -> Snapshot:
    """What a guard sees of two tenants and a namespace of the platform."""
    usual = (
        space(),
        space("acme-kube-system"),
        space("bolt-web", of="bolt"),
        space("plain", of=""),
    )
    networks = (network("acme.default"), network("bolt.default"))
    return snapshot(
        _Guarded(), HERE, [cluster(HERE, Role.LOCAL)], {HERE: [*usual, *networks, *objects]}
    )


def plain(name: str, where: str, ip: str, **labels: str) -> Pod:
    """A pod with these labels and no others."""
    made = pod(name, where, ip)
    return replace(made, metadata=replace(made.metadata, labels=labels))


def owner(*pods: Pod, address: str = "10.4.0.1") -> Owner | None:
    return address_owner(address, guarded(*pods))


def test_an_address_is_of_the_network_that_namespace_and_label_say() -> None:
    assert owner(pod("a", "acme-web", "10.4.0.1")) == AddressOwner("acme-web", ACME)
    assert owner(plain("a", "acme-web", "10.4.0.1")) == AddressOwner("acme-web", ACME)
    assert owner(plain("a", "plain", "10.4.0.1")) == AddressOwner("plain")


def test_labels_of_a_tenant_mean_nothing_in_namespaces_of_others() -> None:
    forged = {TENANT: "acme", NETWORK: "default"}

    assert owner(plain("a", "plain", "10.4.0.1", **forged)) == AddressOwner("plain")
    assert owner(plain("a", "bolt-web", "10.4.0.1", **forged)) == Undecided()


def test_a_pod_of_a_network_that_does_not_exist_is_nobodys() -> None:
    assert owner(pod("a", "acme-web", "10.4.0.1", **{NETWORK: "lab"})) == Undecided()


def test_addresses_of_nodes_and_of_pods_that_finished_are_nobodys() -> None:
    on_host = replace(pod("a", "acme-web", "10.4.0.1"), spec=PodSpec(host_network=True))
    ended = pod("b", "acme-web", "10.4.0.1")
    ended = replace(ended, status=replace(ended.status, phase="Succeeded"))

    assert owner(on_host, ended) is None


def test_an_address_of_two_networks_is_nobodys_until_one_of_the_pods_goes() -> None:
    one, other = pod("a", "acme-web", "10.4.0.1"), pod("b", "bolt-web", "10.4.0.1")
    going = replace(one, metadata=replace(one.metadata, deletion_timestamp=EPOCH))

    assert owner(one, other) == Undecided()
    assert owner(going, other) == AddressOwner("bolt-web", BOLT)
    assert owner(going) == AddressOwner("acme-web", ACME)


def test_dns_servers_of_a_network_are_known_by_their_namespace_too() -> None:
    real = pod("dns", "acme-kube-system", "10.4.0.1", **{DNS: "default"})
    other = pod("dns", "acme-web", "10.4.0.2", **{DNS: "default"})

    assert owner(real) == AddressOwner("acme-kube-system", ACME, is_dns=True)
    assert owner(other, address="10.4.0.2") == AddressOwner("acme-web", ACME)


def test_the_shared_dns_server_is_known_in_our_own_namespace_alone() -> None:
    label = {"app.kubernetes.io/name": "hanse-network-dns"}
    spaces = (space("hanse-system", of=""), space("other", of=""))
    real = plain("dns", "hanse-system", "10.4.0.1", **label)
    others = [plain("dns", where, "10.4.0.2", **label) for where in ("other", "acme-web")]

    assert address_owner("10.4.0.1", guarded(*spaces, real)) == AddressOwner(
        "hanse-system", is_dns=True
    )
    for other in others:
        found = address_owner("10.4.0.2", guarded(*spaces, other))
        assert isinstance(found, AddressOwner)
        assert not found.is_dns


def test_networks_without_tenants_of_their_name_are_not_guarded_as_theirs() -> None:
    stolen = network("acme.stolen")
    stolen = replace(stolen, spec=replace(stolen.spec, tenant="bolt"))

    names = [one.name for one in cluster_facts(guarded(stolen), "node-1").networks]

    assert names == [ACME, BOLT]


_NAMES = [NetworkName(tenant, short) for tenant in ("acme", "bolt") for short in ("default", "lab")]
_addresses = st.sampled_from([*(f"10.4.0.{n}" for n in range(6)), "fd00::1", "fd00::2"])
_VPCS = {name: f"vpc {name.tenant}" for name in _NAMES if name.network == "lab"}
_members = st.sets(st.sampled_from(sorted(_VPCS.items()))).map(lambda found: tuple(sorted(found)))
_vpcs = st.sets(st.sampled_from(sorted(_VPCS))).map(
    lambda names: tuple(VpcFacts(_VPCS[n], (n,), (f"veth-{n.tenant}",)) for n in sorted(names))
)
_owners = st.builds(Undecided, _members) | st.builds(
    lambda space, name, is_dns: AddressOwner(space, name, is_dns, _VPCS.get(name, "")),
    st.sampled_from(["web", "db"]),
    st.sampled_from([None, *_NAMES]),
    st.booleans(),
)
_facts = st.builds(
    ClusterFacts,
    st.sets(st.sampled_from(_NAMES)).map(lambda ns: tuple(NetworkFacts(n) for n in sorted(ns))),
    vpcs=_vpcs,
    inside=st.sets(st.sampled_from(["10.4.0.0/16", "10.4.1.0/24", "fd00::/64"])).map(tuple),
)


@settings(max_examples=40)
@given(
    _facts,
    st.dictionaries(_addresses, _owners),
    st.dictionaries(_addresses, st.none() | _owners),
)
def test_addresses_that_move_end_in_the_ruleset_of_their_new_owners(
    facts: ClusterFacts,
    before: dict[str, Owner],
    moved: dict[str, Owner | None],
) -> None:
    ruleset = build_ruleset(facts, before)
    if not has_families_for(ruleset, moved):
        return
    changes = set_owners(ruleset, moved)
    after = {a: o for a, o in {**before, **moved}.items() if o is not None}

    anew = build_ruleset(facts, after)
    assert ruleset.families >= anew.families
    assert ruleset.families != anew.families or ruleset == anew
    assert set_owners(ruleset, moved) == []
    assert len(changes) <= 12 * len(moved)


@settings(max_examples=40)
@given(_facts, st.dictionaries(_addresses, _owners), _facts, st.dictionaries(_addresses, _owners))
def test_a_difference_names_only_what_differs(
    old_facts: ClusterFacts,
    old: dict[str, Owner],
    new_facts: ClusterFacts,
    new: dict[str, Owner],
) -> None:
    before, after = build_ruleset(old_facts, old), build_ruleset(new_facts, new)

    is_same = (before.sets, before.chains) == (after.sets, after.chains)
    assert bool(difference(before, after)) is not is_same
    assert difference(Ruleset({}, {}), Ruleset({}, {})) == ""


def test_a_pod_keeps_what_its_owner_and_its_plugin_depend_on_and_nothing_else() -> None:
    wire = {
        "metadata": {
            "name": "a",
            "namespace": "acme-web",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {TENANT: "acme", NETWORK: "lab", "app": "web"},
            "annotations": {CNI_ARGS: "IPV4=10.1.0.1", "note": "long"},
        },
        "spec": {"containers": [{"name": "main", "image": "none"}], "nodeName": "node-1"},
        "status": {"phase": "Running", "podIP": "10.4.0.1", "podIPs": [{"ip": "10.4.0.1"}]},
    }
    whole = msgspec.convert(wire, Pod)

    kept = msgspec.json.decode(msgspec.json.encode(wire), type=AddressedPod)

    assert pod_addresses(kept) == pod_addresses(whole) == {"10.4.0.1"}
    assert kept.metadata.labels == {TENANT: "acme", NETWORK: "lab"}
    assert kept.metadata.annotations == {}
    starting = msgspec.convert({**wire, "status": {"phase": "Pending"}}, AddressedPod)
    assert starting.metadata.annotations == {CNI_ARGS: "IPV4=10.1.0.1"}
    assert (kept.metadata.uid, kept.metadata.resource_version) == ("u", "7")
    assert kept.spec == PodSpec()
    assert msgspec.json.decode(msgspec.json.encode(wire), type=AddressedPod) == kept
    on_host = {**wire, "spec": {"hostNetwork": True}}
    assert pod_addresses(msgspec.convert(on_host, AddressedPod)) == set()
