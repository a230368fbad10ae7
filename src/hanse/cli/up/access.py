"""The rights of the agents of `hanse up`: those that `hanse join` and `hanse gslb rights` give."""

from hanse import app
from hanse.features.federation.manifests import rules_for, supervisor_policies
from hanse.features.gslb.manifests import leader_account
from hanse.features.gslb.options import GslbOptions
from hanse.features.services import manifests
from hanse.features.statefulsets.admission_policies import set_policies
from hanse.local.up.access import AgentAccess
from hanse.model.agent_manifests import agent_manifests
from hanse.model.naming import BROKER_NAMESPACE


def generated_access(gslb: GslbOptions = GslbOptions()) -> AgentAccess:  # noqa: B008 - a frozen value
    """The manifests of the rights of agents with all features, from what they watch and write.

    For the broker as they are; for members, agents, supervisors and GSLB leaders as functions of
    the cluster. Nothing is applied.
    """
    options = app.Options(gslb=gslb)
    watches, access = app.watches(options), app.broker_access()
    return AgentAccess(
        broker=(
            *manifests.broker(access, BROKER_NAMESPACE),
            *set_policies(BROKER_NAMESPACE, runs_sets=False),
        ),
        member=lambda cluster, uid: manifests.member(
            access, BROKER_NAMESPACE, cluster, uid, new=True
        ),
        agent=lambda cluster: (
            *agent_manifests(app.watches_by_feature(options), cluster),
            *supervisor_policies(app.supervisor_rules(), cluster),
        ),
        supervisor=lambda cluster, supervisor: rules_for(watches, cluster, supervisor),
        gslb_leader=leader_account,
    )
