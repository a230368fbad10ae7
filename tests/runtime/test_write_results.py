"""What the answers to writes mean for the next attempt."""

import pytest
from msgspec.structs import replace

from hanse.kube.errors import NotFound, Status
from hanse.model.kinds.apps import StatefulSet, StatefulSetStatus
from hanse.model.kinds.rbac import RoleBinding, RoleRef
from hanse.model.objects import Meta
from hanse.runtime.actions import Create
from hanse.runtime.apply import _is_about_itself, differs_only_in_status
from tests.scenarios.statefulsets import spec_of

BINDING = RoleBinding(
    metadata=Meta(name="dns", namespace="acme"),
    role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="dns"),
)


@pytest.mark.parametrize(
    ("message", "passes"),
    [
        ('rolebindings.rbac.authorization.k8s.io "dns" not found', True),
        ('namespaces "acme" not found', False),
    ],
)
def test_a_binding_whose_role_is_too_new_is_tried_again_soon(message: str, passes: bool) -> None:
    error = NotFound(Status(404, "NotFound", message))

    assert _is_about_itself(error, Create("rome", BINDING, 0, None)) == passes


SET = StatefulSet(
    metadata=Meta(name="store", namespace="shop", uid="1", resource_version="7", generation=3),
    spec=spec_of(2),
)


@pytest.mark.parametrize(
    ("newer", "same"),
    [
        pytest.param(replace(SET, status=StatefulSetStatus(ready_replicas=2)), True, id="status"),
        pytest.param(replace(SET, spec=spec_of(3)), False, id="spec"),
        pytest.param(
            replace(SET, metadata=replace(SET.metadata, generation=4)), False, id="unknown-field"
        ),
        pytest.param(
            replace(SET, metadata=replace(SET.metadata, labels={"a": "b"})), False, id="label"
        ),
        pytest.param(replace(SET, metadata=replace(SET.metadata, uid="2")), False, id="made-anew"),
    ],
)
def test_a_patch_is_sent_again_only_if_nothing_but_the_status_has_changed(
    newer: StatefulSet, same: bool
) -> None:
    newer = replace(newer, metadata=replace(newer.metadata, resource_version="8"))

    assert differs_only_in_status(newer, SET) == same
