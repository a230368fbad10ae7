"""Machines that are no backends of the Service that their tags name, and names that are taken."""

from hanse.features.machines.status import NAME_FREE_CONDITION, SERVED_CONDITION
from hanse.model.kinds.core import Service
from hanse.model.kinds.federation import VirtualMachine
from hanse.model.object_view import ConditionRule, ObjectRule, ObjectsView, check_conditions

OBJECTS = ObjectsView(
    "machine-objects",
    (
        ObjectRule(
            VirtualMachine, check_conditions({SERVED_CONDITION: ConditionRule("MachineNotServed")})
        ),
        ObjectRule(Service, check_conditions({NAME_FREE_CONDITION: ConditionRule("NamesCollide")})),
    ),
)
"""What machines and Services in their way say themselves."""
