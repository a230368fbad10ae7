"""What the answers to writes mean for the next attempt."""

from typing import Any

import pytest

from hanse.kube.errors import Invalid, NotFound, Status
from hanse.model.kinds.core import ConfigMap
from hanse.model.kinds.rbac import RoleBinding, RoleRef
from hanse.model.objects import Meta
from hanse.model.plan import EntryChange
from hanse.runtime.actions import Create, Update
from hanse.runtime.apply import _has_changed_meanwhile, _is_about_itself, entry_patch
from tinykube.json_patch import PatchFailed, apply_json_patch

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


LIST = ConfigMap(metadata=Meta(name="list", namespace="shop", uid="1"))
ENTRY = EntryChange(
    ("spec", "entries", "1"),
    before={"name": "rome", "number": 3, "keeps": None},
    after={"name": "rome", "number": 4, "keeps": 2},
)


def listed(*entries: dict[str, Any], uid: str = "1") -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"entries": list(entries)}}


@pytest.mark.parametrize("others", [{"name": "oslo"}, {"name": "oslo", "number": 7}])
def test_an_entry_is_changed_whatever_others_have_changed(others: dict[str, Any]) -> None:
    seen = listed(others, {"name": "rome", "number": 3})

    after = apply_json_patch(seen, [*entry_patch(ENTRY, LIST)])

    assert after == listed(others, {"name": "rome", "number": 4, "keeps": 2})
    back = EntryChange(ENTRY.path, ENTRY.after, {"number": 5, "keeps": None})
    returned = apply_json_patch(after, [*entry_patch(back, LIST)])
    assert returned == listed(others, {"name": "rome", "number": 5})


@pytest.mark.parametrize(
    "found",
    [
        listed({"name": "oslo"}, {"name": "rome", "number": 4}),
        listed({"name": "oslo"}, {"name": "rome", "number": 3, "keeps": 1}),
        listed({"name": "rome", "number": 3}),
        listed({"name": "oslo"}, {"name": "rome", "number": 3}, uid="2"),
    ],
    ids=["newer", "other field", "moved", "another object"],
)
def test_an_entry_that_is_not_as_it_was_observed_stays(found: dict[str, Any]) -> None:
    with pytest.raises(PatchFailed):
        apply_json_patch(found, [*entry_patch(ENTRY, LIST)])


@pytest.mark.parametrize("entry", [ENTRY, None])
def test_a_failed_test_is_a_conflict_and_an_invalid_patch_is_none(
    entry: EntryChange | None,
) -> None:
    error = Invalid(Status(422, "Invalid", "the server rejected our request"))
    update = Update("rome", LIST, {"spec": {}}, "", 0, entry=entry)

    assert _has_changed_meanwhile(error, update) is (entry is not None)
