from hanse import app
from hanse.model.agent_manifests import agent_manifests
from hanse.model.facts import Role
from hanse.model.kinds.core import ConfigMap, Secret, Service
from hanse.model.kinds.multicluster import ServiceExport
from hanse.model.naming import SYSTEM_NAMESPACE
from hanse.model.rbac import rbac_rules
from hanse.model.snapshot import Watch, Writes
from tests.support.toy import HOME, Toy

ALWAYS = {"customresourcedefinitions", "namespaces"}
"""Every agent follows which kinds there are, and knows its clusters again."""


def test_a_watch_alone_gives_the_right_to_read() -> None:
    granted = rbac_rules([Watch(Role.LOCAL, Service)], Role.LOCAL)

    assert [r.wire() for r in granted if r.resource not in ALWAYS] == [
        {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch"]}
    ]


def test_rights_are_those_of_the_role_alone() -> None:
    granted = rbac_rules([Watch(Role.BROKER, Service, writes=Writes.OBJECTS)], Role.LOCAL)

    assert {r.resource for r in granted} == ALWAYS


def test_status_is_a_resource_of_its_own() -> None:
    granted = rbac_rules([Watch(Role.LOCAL, ServiceExport, writes=Writes.STATUS)], Role.LOCAL)

    by_resource = {r.resource: r.verbs for r in granted}
    assert by_resource["serviceexports"] == ("get", "list", "watch")
    assert by_resource["serviceexports/status"] == ("patch",)


def test_what_is_written_in_one_namespace_is_granted_in_that_one() -> None:
    granted = rbac_rules(Toy.watches, Role.BROKER)

    assert {r.namespace for r in granted if r.resource == "configmaps"} == {HOME}


def test_a_cluster_is_known_again_by_one_namespace_unless_all_can_be_read_anyway() -> None:
    broker = rbac_rules(Toy.watches, Role.BROKER)
    local = rbac_rules(Toy.watches, Role.LOCAL)

    assert [r.wire() for r in broker if r.resource == "namespaces"] == [
        {
            "apiGroups": [""],
            "resources": ["namespaces"],
            "verbs": ["get"],
            "resourceNames": ["kube-system"],
        }
    ]
    assert [r.names for r in local if r.resource == "namespaces"] == [()]


def test_a_right_that_holds_everywhere_is_not_repeated_for_a_namespace() -> None:
    granted = rbac_rules(
        [Watch(Role.LOCAL, ConfigMap), Watch(Role.LOCAL, ConfigMap, namespace="a")], Role.LOCAL
    )

    assert [r.namespace for r in granted if r.resource == "configmaps"] == [""]


def test_what_is_watched_by_name_is_granted_by_name_but_its_creation() -> None:
    watch = Watch(Role.LOCAL, Secret, namespace="a", name="ours", writes=Writes.OBJECTS)

    granted = [r for r in rbac_rules([watch], Role.LOCAL) if r.resource == "secrets"]

    assert {(r.names, r.verbs) for r in granted} == {
        ((), ("create",)),
        (("ours",), ("delete", "get", "list", "patch", "watch")),
    }


def test_an_agent_may_read_its_own_secrets_in_its_namespace_and_no_others() -> None:
    made = agent_manifests(app.watches_by_feature(), "lubeck")
    roles = [m.wire for m in made if (m.kind.name, m.namespace) == ("Role", SYSTEM_NAMESPACE)]

    named = {
        name
        for role in roles
        for rule in role["rules"]
        if "secrets" in rule["resources"] and set(rule["verbs"]) & {"get", "list", "watch", "*"}
        for name in rule.get("resourceNames", ["every one"])
    }

    assert named == {"hanse-broker", "hanse-webhooks"}


def test_leases_are_read_and_renewed_by_name() -> None:
    granted = rbac_rules((), Role.LOCAL, leases=[("hanse-system", "hanse-agent")])

    of_leases = {(r.namespace, r.names): r.verbs for r in granted if r.resource == "leases"}
    assert of_leases == {
        ("hanse-system", ()): ("create",),
        ("hanse-system", ("hanse-agent",)): ("get", "list", "patch", "watch"),
    }
