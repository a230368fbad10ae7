"""What the answers to writes mean for the next attempt."""

import pytest

from hanse.kube.errors import NotFound, Status
from hanse.model.kinds.rbac import RoleBinding, RoleRef
from hanse.model.objects import Meta
from hanse.runtime.actions import Create
from hanse.runtime.apply import _is_about_itself

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
