"""Requests are matched with rights as the RBAC authorizer matches them."""

import pytest

from hanse.kube.transport import Request
from hanse.model.rbac import RbacRule, Right
from tests.support.rights import Use, UsedRights, allows, use_of

CASES = [
    (Request("GET", "/api/v1/pods"), Use("list", "", "pods")),
    (
        Request("GET", "/api/v1/namespaces/shop/pods", (("watch", "true"),)),
        Use("watch", "", "pods", "shop"),
    ),
    (Request("GET", "/api/v1/namespaces"), Use("list", "", "namespaces")),
    (Request("GET", "/api/v1/namespaces/shop"), Use("get", "", "namespaces", "", "shop")),
    (
        Request("PATCH", "/apis/apps/v1/namespaces/shop/deployments/web/status"),
        Use("patch", "apps", "deployments/status", "shop", "web"),
    ),
    (
        Request(
            "GET",
            "/api/v1/namespaces/a/secrets",
            (("fieldSelector", "metadata.name=ours"), ("watch", "true")),
        ),
        Use("watch", "", "secrets", "a", "ours"),
    ),
    (Request("POST", "/api/v1/namespaces/a/secrets"), Use("create", "", "secrets", "a")),
    (Request("GET", "/version"), None),
    (Request("GET", "/apis/apps"), None),
]


@pytest.mark.parametrize(("request_", "use"), CASES)
def test_a_request_needs_a_verb_on_a_resource(request_: Request, use: Use | None) -> None:
    assert use_of(request_) == use


def test_names_bind_all_but_those_who_have_none() -> None:
    named = RbacRule("a", "", "secrets", ("create", "get"), ("ours",))

    assert allows(named, Use("get", "", "secrets", "a", "ours"))
    assert not allows(named, Use("get", "", "secrets", "a", "others"))
    assert not allows(named, Use("create", "", "secrets", "a"))
    assert not allows(named, Use("get", "", "secrets", "b", "ours"))


def test_what_is_used_without_a_right_is_named_and_what_is_not_used_is_listed() -> None:
    rights = UsedRights()
    pods = Right(RbacRule("", "", "pods", ("get", "list", "patch", "watch")))
    special = Right(RbacRule("", "kubeovn.io", "vpcs", ("get",)), is_special=True)
    granted = {"toy": [pods, special]}

    missing = rights.record(
        granted, [Use("watch", "", "pods"), Use("delete", "", "pods", "a", "b")], "x-system"
    )

    assert missing == [Use("delete", "", "pods", "a", "b")]
    assert list(map(str, rights.unused())) == ["toy: patch pods in all namespaces"]
