"""What each code of a finding means, and what ends it: `hanse explain` and the page of findings."""

from msgspec import Struct


class CodeExplanation(Struct, frozen=True):
    """The meaning of a code, and what resolves the finding."""

    meaning: str
    resolved: str


def _said(meaning: str, resolved: str) -> CodeExplanation:
    """The explanation of one code."""
    return CodeExplanation(meaning, resolved)


CODES: dict[str, CodeExplanation] = {
    # clusters, agents, connections
    "ClusterUnreachable": _said(
        "The API server of a cluster does not answer. What it has stays as it was last seen, and "
        "others leave it out of answers once its Lease on the broker has expired.",
        "The cluster answers again; agents connect by themselves.",
    ),
    "BrokerLost": _said(
        "The broker does not answer. What clusters share stays as it is; nothing new is shared.",
        "The broker answers again.",
    ),
    "ClusterSilent": _said(
        "A cluster does not renew its Lease on the broker, so that the others leave out what it "
        "exports. Its agent may run and not reach the broker.",
        "Its agent renews the Lease.",
    ),
    "LinkCut": _said(
        "The agent of one cluster does not reach another cluster, which others may reach.",
        "The connection is back.",
    ),
    "TokenRevoked": _said(
        "A cluster refuses the credentials that another one's agent has for it: they ended, or "
        "their account is gone.",
        "The agent has new ones: `hanse join` makes them.",
    ),
    "AgentMissing": _said(
        "No agent has ever run in a cluster.", "An agent is installed and holds its Lease."
    ),
    "AgentSilent": _said(
        "The agent of a cluster does not renew its own Lease: it does not run, or cannot write.",
        "An agent renews the Lease.",
    ),
    "AgentPaused": _said(
        "A person paused an agent by an annotation of its namespace: it writes only status.",
        "The annotation hanse.dev/paused is taken off.",
    ),
    "FleetPaused": _said(
        "A person paused all agents in the ClusterSet: they write only status.",
        "spec.paused of the ClusterSet is false.",
    ),
    "BrokerNamespaceMissing": _said(
        "The namespace on the broker of what clusters share was deleted. What clusters have of "
        "each other stays as it was; nothing new is shared, and nobody can say who is alive.",
        "`hanse broker init` has made it again; agents fill it by themselves.",
    ),
    "ClusterSetMissing": _said(
        "A broker has members and no ClusterSet. The rules that each member has kept in its record "
        "stand; they cannot be changed.",
        "A ClusterSet is there again: `hanse broker init` makes it with the same rules.",
    ),
    "ClusterSetIgnored": _said(
        "A broker has several ClusterSets. The rules of the oldest count; those of the others do "
        "nothing, but any of them can pause the fleet.",
        "There is one ClusterSet.",
    ),
    "MembersMoving": _said(
        "A fleet moves to another broker: members are on the old one, on the new one, or on both. "
        "What they publish stands, and none of them is taken for dead meanwhile.",
        "`hanse broker retire` has ended the old broker.",
    ),
    "RangesOverlap": _said(
        "Address ranges of clusters or networks overlap: an address of one would reach pods or "
        "Services of the other. Members of a broker, whose ranges are in their records, do not "
        "import such addresses of each other.",
        "Each has a range of its own, or spec.clusters of the ClusterSet names the right ones.",
    ),
    "AgentForbidden": _said(
        "The account of an agent lacks rights that its features need, as the API server says when "
        "it is asked about that account.",
        "The roles of this version are applied.",
    ),
    "NodesNotReady": _said("Nodes of a cluster are not ready.", "Their condition Ready is True."),
    "CredentialsRefused": _said(
        "A cluster does not accept the credentials of your kubeconfig, or they cannot be used; "
        "nothing is known of it.",
        "The cluster accepts them.",
    ),
    "NotReadable": _said(
        "Some kinds could not be listed, by your rights or since the API server failed: what is "
        "wrong with them is not known.",
        "They can be listed.",
    ),
    "KubeconfigInvalid": _said("No kubeconfig could be read.", "A readable one is named."),
    "TokenExpiring": _said(
        "Credentials end within a week, or a token that agents renew soon ends without.",
        "They are renewed, or others are used.",
    ),
    "TokenUnending": _said(
        "A supervisor uses a token that never expires.", "The member joins with one that does."
    ),
    "VersionUnsupported": _said(
        "A cluster has a version of Kubernetes that is not supported.", "It is updated."
    ),
    "VersionSkew": _said(
        "An agent is more than one release away from this program.", "All are of one release."
    ),
    "ClockSkew": _said(
        "The clock of a cluster differs from this machine's by more than two seconds.",
        "Both clocks are synchronised.",
    ),
    "CrdMissing": _said(
        "Definitions of kinds that the cluster's features need are missing.",
        "They are applied.",
    ),
    "CrdOld": _said("Definitions are of another version.", "Those of this version are applied."),
    "RightMissing": _said(
        "Your own credentials lack rights that an installation needs.", "They are granted."
    ),
    "WebhookDown": _said(
        "An admission webhook of ours has no ready endpoint: what it guards cannot be written.",
        "The agent runs, or the webhook is taken away.",
    ),
    "BrokerUnguarded": _said(
        "Admission policies that hold members on a broker are missing, so that a member can write "
        "what is another's.",
        "They are applied again.",
    ),
    "LeaseMissing": _said(
        "A cluster has joined, and its Lease is gone from the broker: the others take nothing new "
        "from it.",
        "Its agent has a Lease again.",
    ),
    "ZoneNotDelegated": _said(
        "Our name server runs in a cluster whose DNS does not forward our zone to it.",
        "The Corefile forwards the zone.",
    ),
    # services
    "NoEndpoints": _said(
        "An exported service has no ready endpoint in any cluster: clients get no answer.",
        "A pod behind it is ready somewhere.",
    ),
    "EndpointsLost": _said(
        "A service is served by fewer clusters than export it.", "All of them serve it again."
    ),
    "ExportInvalid": _said(
        "What is exported does not exist or cannot be exported.",
        "There is such a Service, or the export is withdrawn.",
    ),
    "ExportPending": _said("The broker has not taken an export yet.", "The broker takes it."),
    "ExportFailed": _said("An export could not be written to the broker.", "It is written."),
    "ExportUnseen": _said(
        "No agent has looked at an export.", "An agent with the feature services runs there."
    ),
    "PortConflict": _said(
        "Clusters export a service with ports that contradict each other; the oldest wins.",
        "All exports agree, or the younger one is withdrawn.",
    ),
    "TypeConflict": _said(
        "Clusters export a service as headless and not headless; the oldest wins.",
        "All exports agree, or the younger one is withdrawn.",
    ),
    "SettingIgnored": _said(
        "A setting in an annotation is not valid and has no effect.",
        "It is valid, or taken off.",
    ),
    "AddressesRefused": _said(
        "A cluster publishes addresses outside of the ranges that it may publish.",
        "The ClusterSet allows them, or they are no longer published.",
    ),
    "ImportBlocked": _said(
        "An object that Hanse did not make has the name of an import.", "It is gone."
    ),
    "NotPublished": _said(
        "Names could not be written to the name server outside.", "They are written."
    ),
    # federation
    "FederationInvalid": _said("A Federation cannot be used as it stands.", "It is corrected."),
    "MemberUnreachable": _said(
        "A supervisor does not reach members of its Federation.", "It reaches them."
    ),
    "LeaderMissing": _said(
        "Nobody leads a member, or the GSLB configuration: nothing is changed there.",
        "A supervisor that reaches it runs, or a cluster is promoted.",
    ),
    "MembersDiffer": _said(
        "Supervisors of one Federation name different members.", "Their lists are the same."
    ),
    "MemberAbandoned": _said(
        "A member was given up while it did not answer; objects of ours may stand there.",
        "They are removed, and the note about it is deleted.",
    ),
    "WriteRefused": _said(
        "A member refuses what its leader writes; the message is that of its API server.",
        "It accepts it.",
    ),
    "TooManySupervisors": _said(
        "More clusters supervise a Federation than are useful.", "Five or fewer do."
    ),
    "NotFederated": _said(
        "A Service that asks to be federated is not: the message says why.", "It is."
    ),
    "NamesCollide": _said(
        "A Service of a user has the name of one that Hanse would make.", "One is renamed."
    ),
    "FederatedDown": _said(
        "A federated Service has no ready endpoint in any cluster.", "One is ready."
    ),
    "FederatedDegraded": _said(
        "Clusters with members of a federated Service are lost.", "They are back."
    ),
    "MachineNotServed": _said(
        "A virtual machine is no backend of the Service in its tags.", "It is."
    ),
    # policies
    "PolicyBlocked": _said(
        "A cluster refuses a federated policy; the message is that of its API server.",
        "It accepts it; writing is tried again.",
    ),
    "PolicyQuarantined": _said(
        "A cluster joined again with another version of a policy; neither is overwritten.",
        "A person says which one counts.",
    ),
    "PolicyConflict": _said(
        "A policy was changed in two clusters at once; one version counts, the other is kept.",
        "A person says which one counts.",
    ),
    "PolicyIgnored": _said("An annotation of a policy is misspelt.", "It is true, or taken off."),
    "PolicyLocalPeers": _said(
        "A federated policy names peers that exist in one cluster only.",
        "It names federated Services, or is not federated.",
    ),
    "PolicyNamesNothing": _said(
        "A federated policy names a group or a Service that a cluster does not have.",
        "The group or Service is there, or the policy names another.",
    ),
    "PolicyNotEnforced": _said(
        "A policy applies to machines on which nobody enforces policies.",
        "An agent of Antrea runs on them, or the policy applies to something else.",
    ),
    # networks
    "NetworkFailed": _said("A network of a tenant could not be made.", "Its phase is Ready."),
    "TenantFailed": _said("A tenant does not have what it asks for.", "It is Ready."),
    "DnsStale": _said(
        "The DNS of a network has another address than its pods ask: they cannot look names up.",
        "The pods are made anew.",
    ),
    "PoolExhausted": _said(
        "A network has no Service address left: new Services are refused.",
        "A range is added, or Services are deleted.",
    ),
    "PoolNearlyFull": _said(
        "A network has given out nine tenths of its Service addresses.", "A range is added."
    ),
    # global load balancing
    "HostDown": _said("No member of a global host is up.", "One is up."),
    "HostDegraded": _said("Some members of a global host are down.", "All are up."),
    "NameUnserved": _said(
        "A global host is in none of the zones that name servers answer: nobody can look it up.",
        "Name servers answer its zone, or nothing asks for the host.",
    ),
    "TwoLeaders": _said("Two clusters lead the GSLB configuration.", "One is demoted."),
    "GslbStageFailed": _said("A stage of the GSLB federation failed.", "It succeeds."),
    "ProviderFailed": _said(
        "The GSLB configuration cannot be used, as when the Avi controller refuses us.",
        "The configuration or its Secret is corrected.",
    ),
    "GlobalPolicyInvalid": _said("A GlobalDeploymentPolicy is not valid.", "It is corrected."),
    "NotBalanced": _said(
        "A GlobalDeploymentPolicy selects objects that cannot be balanced.",
        "They can be, or are not selected.",
    ),
    "HostRuleRejected": _said("A GSLBHostRule is not used.", "It is corrected."),
    # sets
    "SetShort": _said(
        "A federated StatefulSet has fewer ready replicas than it asks for.", "All are ready."
    ),
    "SetInvalid": _said("A StatefulSet cannot be spread as it stands.", "It is corrected."),
    "SetNotPlaced": _said("Not all replicas have a cluster.", "There is room for them."),
    "SetRefused": _said(
        "A cluster does not take a set, by its AcceptancePolicy.",
        "Its administrator allows it, or the set is changed.",
    ),
    "SetTrouble": _said(
        "Something stands in the way of a cluster's part of a set.", "It is removed."
    ),
    "ShareDisputed": _said(
        "Somebody writes the shares of a set on the broker; nobody follows them.",
        "The record is computed anew.",
    ),
    "RecordTooNew": _said(
        "A record was made by a newer Hanse than the one that reads it.", "That one is updated."
    ),
    "AcceptanceUnreadable": _said(
        "An AcceptancePolicy cannot be read; its last version or the defaults count.",
        "It is corrected.",
    ),
}
"""Every code; a test holds that views and checks use no other."""
