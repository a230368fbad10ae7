"""Objects that prepare a cluster."""

from hanse.model.manifests import Subject, binding_manifests, manifest, role_manifests
from hanse.model.objects import Kind
from hanse.model.rbac import RbacRule

READ_ALL = RbacRule("", "", "services", ("get", "list"))
READ_HERE = RbacRule("harbour", "", "events", ("create",))
RENEW = RbacRule("harbour", "coordination.k8s.io", "leases", ("patch",), ("lubeck",))


def test_rules_become_one_role_for_each_place() -> None:
    made = role_manifests("member", [RENEW, READ_ALL, READ_HERE])

    assert [str(one) for one in made] == ["ClusterRole member", "Role harbour/member"]
    assert made[0].wire["rules"] == [READ_ALL.wire()]
    assert made[1].wire["rules"] == [RENEW.wire(), READ_HERE.wire()]


def test_each_role_is_bound_where_it_holds() -> None:
    account = Subject("lubeck", "harbour")

    made = binding_manifests("lubeck", "member", [READ_ALL, RENEW], account, {"a": "b"})

    assert [str(one) for one in made] == ["ClusterRoleBinding lubeck", "RoleBinding harbour/lubeck"]
    assert [one.wire["roleRef"]["kind"] for one in made] == ["ClusterRole", "Role"]
    assert made[1].wire["subjects"] == [
        {"kind": "ServiceAccount", "name": "lubeck", "namespace": "harbour"}
    ]


def test_all_that_is_set_up_can_be_found_again() -> None:
    made = manifest(Kind("", "v1", "ServiceAccount", "serviceaccounts"), "a", labels={"b": "c"})

    assert made.wire["metadata"]["labels"] == {"app.kubernetes.io/part-of": "hanse", "b": "c"}
