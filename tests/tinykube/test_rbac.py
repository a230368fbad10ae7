"""Authorization in ways that the differential cases cannot show: tokens, impersonation, caching."""

import pytest

from tests.tinykube.api_client import CONFIGMAPS, Cluster, Object, configmap
from tinykube.apiserver import is_watch
from tinykube.cluster import Cluster as RunningCluster
from tinykube.controllers.controller_manager import CORE_CONTROLLERS
from tinykube.errors import StatusError
from tinykube.request import Request
from tinykube.users import User

GROUP = "rbac.authorization.k8s.io"
ROLES = f"/apis/{GROUP}/v1/namespaces/default/roles"
ROLE_BINDINGS = f"/apis/{GROUP}/v1/namespaces/default/rolebindings"
CLUSTER_ROLES = f"/apis/{GROUP}/v1/clusterroles"
CLUSTER_ROLE_BINDINGS = f"/apis/{GROUP}/v1/clusterrolebindings"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ANNA = User("anna", ("system:authenticated",))


def rule(verbs: str, resources: str = "configmaps", **more: object) -> Object:
    return {"verbs": verbs.split(), "apiGroups": [""], "resources": resources.split(), **more}


def role(name: str, *rules: Object, **more: object) -> Object:
    return {"metadata": {"name": name, **more}, "rules": list(rules)}


def binding(role: str, subject: Object, kind: str = "Role") -> Object:
    reference = {"apiGroup": GROUP, "kind": kind, "name": role}
    return {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}


def person(name: str) -> Object:
    return {"kind": "User", "name": name}


async def given(cluster: Cluster, *rules: Object) -> None:
    """Bind a Role with the rules to Anna."""
    await cluster.create(ROLES, role("given", *rules))
    await cluster.create(ROLE_BINDINGS, binding("given", person("anna")))


async def test_a_token_has_the_rights_of_its_account() -> None:
    cluster = Cluster()
    await cluster.create(ACCOUNTS, {"metadata": {"name": "robot"}})
    token = (await cluster.create(f"{ACCOUNTS}/robot/token", {}))["status"]["token"]
    await cluster.create(ROLES, role("given", rule("create")))
    await cluster.create(
        ROLE_BINDINGS, binding("given", {"kind": "ServiceAccount", "name": "robot"})
    )
    robot = cluster.api.authenticate(token)
    assert robot is not None

    created = await cluster.send("POST", CONFIGMAPS, configmap("c"), user=robot)
    read = await cluster.send("GET", CONFIGMAPS, user=robot)

    assert created.status == 201
    assert read.status == 403
    assert read.message == (
        'configmaps is forbidden: User "system:serviceaccount:default:robot" cannot list resource '
        '"configmaps" in API group "" in the namespace "default"'
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(("DELETE", f"{ROLE_BINDINGS}/given", None), id="the binding goes"),
        pytest.param(("DELETE", f"{ROLES}/given", None), id="the role goes"),
        pytest.param(("PUT", f"{ROLES}/given", role("given")), id="the role changes"),
    ],
)
async def test_a_right_ends_at_once(change: tuple[str, str, Object | None]) -> None:
    cluster = Cluster()
    await given(cluster, rule("list"))
    before = await cluster.send("GET", CONFIGMAPS, user=ANNA)

    await cluster.send(*change)
    after = await cluster.send("GET", CONFIGMAPS, user=ANNA)

    assert (before.status, after.status) == (200, 403)


async def test_a_restored_backup_restores_the_rights() -> None:
    cluster = Cluster()
    backup = cluster.api.storage.snapshot()
    await given(cluster, rule("list"))
    before = await cluster.send("GET", CONFIGMAPS, user=ANNA)

    cluster.api.storage.restore(backup)
    after = await cluster.send("GET", CONFIGMAPS, user=ANNA)

    assert (before.status, after.status) == (200, 403)


async def test_a_watch_needs_the_right_to_watch() -> None:
    cluster = Cluster()
    await given(cluster, rule("list"))

    with pytest.raises(StatusError, match="cannot watch resource"):
        async with cluster.api.stream(Request("GET", CONFIGMAPS, (("watch", "1"),)), ANNA):
            pass


async def test_one_object_is_read_and_not_watched_by_a_query() -> None:
    cluster = Cluster()
    await given(cluster, rule("get"))
    await cluster.create(CONFIGMAPS, configmap("c"))
    request = Request("GET", f"{CONFIGMAPS}/c", (("watch", "1"),))

    answer = await cluster.send("GET", f"{CONFIGMAPS}/c", user=ANNA, watch=1)

    assert not is_watch(request)
    assert (answer.status, answer.body["kind"]) == (200, "ConfigMap")
    with pytest.raises(StatusError):
        async with cluster.api.stream(request, ANNA):
            pass


async def test_nothing_is_written_below_the_prefix_of_watches() -> None:
    cluster = Cluster()
    await given(cluster, rule("watch"))

    path = "/api/v1/watch/namespaces/default/configmaps"
    answer = await cluster.send("POST", path, configmap("c"), user=ANNA)

    assert answer.status == 405
    assert await cluster.names(CONFIGMAPS) == []


async def test_the_default_roles_are_aggregated_and_new_ones_join_them() -> None:
    async with RunningCluster(controllers=CORE_CONTROLLERS) as cluster:
        version = cluster.api.storage.version
        labels = {f"{GROUP}/aggregate-to-view": "true"}
        ships = {"verbs": ["get"], "apiGroups": ["sea.example"], "resources": ["ships"]}
        await cluster.request("POST", CLUSTER_ROLES, role("ships", ships, labels=labels))

        for name in ("view", "edit", "admin"):
            await cluster.wait_for(f"{CLUSTER_ROLES}/{name}", lambda one: ships in one["rules"])

        assert cluster.api.storage.version == version + 4  # the rules of a start need no write


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        pytest.param(
            [("Impersonate-User", "eve")], User("eve", ("system:authenticated",)), id="user"
        ),
        pytest.param(
            [
                ("Impersonate-User", "eve"),
                ("Impersonate-Group", "a"),
                ("Impersonate-Group", "b"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Extra-Scopes", "x"),
                ("Impersonate-Extra-Scopes", "y"),
                ("Impersonate-Extra-Sea.example%2fship", "anna"),
            ],
            User(
                "eve",
                ("a", "b", "system:authenticated"),
                "7",
                {"scopes": ["x", "y"], "sea.example/ship": ["anna"]},
            ),
            id="groups, uid and extra",
        ),
        pytest.param(
            [("Impersonate-User", "system:serviceaccount:shop:robot")],
            User(
                "system:serviceaccount:shop:robot",
                ("system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"),
            ),
            id="service account",
        ),
        pytest.param(
            [("Impersonate-User", "system:anonymous")],
            User("system:anonymous", ("system:unauthenticated",)),
            id="nobody",
        ),
    ],
)
async def test_an_administrator_may_act_as_another(
    headers: list[tuple[str, str]], user: User
) -> None:
    everyone = {"kind": "Group", "name": "system:unauthenticated"}
    cluster = Cluster()
    await cluster.create(
        CLUSTER_ROLE_BINDINGS,
        binding("system:basic-user", everyone, "ClusterRole") | {"metadata": {"name": "x"}},
    )

    answer = await cluster.send("POST", SELF, {}, headers=tuple(headers))

    shown = answer.body["status"]["userInfo"]
    found = User(
        shown["username"], tuple(shown["groups"]), shown.get("uid", ""), shown.get("extra", {})
    )
    assert found == user


async def test_groups_without_a_user_cannot_be_impersonated() -> None:
    answer = await Cluster().send("GET", "/api", headers=(("Impersonate-Group", "x"),))

    assert answer.status == 400
    assert answer.message == "requested [{Group  x    }] without impersonating a user"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        pytest.param(
            [("Impersonate-User", "eve")],
            'users "eve" is forbidden: User "anna" cannot impersonate resource "users" in API '
            'group "" at the cluster scope',
            id="user",
        ),
        pytest.param(
            [("Impersonate-User", "system:serviceaccount:shop:robot")],
            'serviceaccounts "robot" is forbidden: User "anna" cannot impersonate resource '
            '"serviceaccounts" in API group "" in the namespace "shop"',
            id="service account",
        ),
        pytest.param(
            [("Impersonate-User", "bob"), ("Impersonate-Group", "system:masters")],
            'groups "system:masters" is forbidden: User "anna" cannot impersonate resource '
            '"groups" in API group "" at the cluster scope',
            id="a group besides the user",
        ),
        pytest.param(
            [("Impersonate-User", "bob"), ("Impersonate-Uid", "7")],
            'uids.authentication.k8s.io "7" is forbidden: User "anna" cannot impersonate resource '
            '"uids" in API group "authentication.k8s.io" at the cluster scope',
            id="uid",
        ),
        pytest.param(
            [("Impersonate-User", "bob"), ("Impersonate-Extra-Scopes", "x")],
            'userextras.authentication.k8s.io "x" is forbidden: User "anna" cannot impersonate '
            'resource "userextras/scopes" in API group "authentication.k8s.io" at the cluster '
            "scope",
            id="extra",
        ),
    ],
)
async def test_others_need_the_right_to_act_as_another(
    header: list[tuple[str, str]], message: str
) -> None:
    cluster = Cluster()
    await cluster.create(
        CLUSTER_ROLES, role("act", rule("impersonate", "users", resourceNames=["bob"]))
    )
    await cluster.create(CLUSTER_ROLE_BINDINGS, binding("act", person("anna"), "ClusterRole"))

    answer = await cluster.send("POST", SELF, {}, user=ANNA, headers=tuple(header))

    assert (answer.status, answer.message) == (403, message)


async def test_a_snapshot_without_the_default_roles_gets_them() -> None:
    cluster = Cluster()
    kept = cluster.api.storage.snapshot()
    kept.objects.pop(f"clusterroles.{GROUP}")
    kept.objects.pop(f"clusterrolebindings.{GROUP}")

    later = Cluster(snapshot=kept)

    assert (await later.send("GET", "/api", user=ANNA)).status == 200
    assert (await later.send("POST", SELF, {}, user=ANNA)).status == 201
