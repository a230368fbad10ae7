"""What each code of a finding means, and what ends it: `hanse explain` and the page of findings."""

from msgspec import Struct


class CodeExplanation(Struct, frozen=True):
    """The meaning of a code, and what resolves the finding."""

    meaning: str
    resolved: str


def _code(meaning: str, resolved: str) -> CodeExplanation:
    """The explanation of one code: what it means, and what ends it."""
    return CodeExplanation(meaning, resolved)


_UNSEEN = (
    "Agents may not read that, so that metrics and Events do not have it: `hanse doctor`, `hanse "
    "status` and the console do."
)


CODES: dict[str, CodeExplanation] = {
    # clusters, agents, connections
    "ClusterUnreachable": _code(
        "The API server of a cluster does not answer. What it has stays as it was last seen, and "
        "others leave it out of answers once its Lease on the broker has expired.",
        "The cluster answers again; agents connect by themselves.",
    ),
    "ClusterSlow": _code(
        "The API server of a cluster answers, and takes longer than two seconds for a small "
        "request: its machine, its etcd or the network to it is overloaded.",
        "It answers in time.",
    ),
    "CertificateUntrusted": _code(
        "The certificate of a cluster's API server has expired, or is not of the certificate "
        "authority that the kubeconfig, or its agent, has for it; nothing is known of the cluster.",
        "The certificate is trusted.",
    ),
    "CertificateExpiring": _code(
        "The certificate of a cluster's API server ends within a week, or, of one that lives for "
        "less than four weeks, three quarters of its time are over: agents and people do not reach "
        "the cluster after that. Agents do not look at it, so that metrics and Events do not have "
        "it: `hanse doctor`, `hanse status` and the console do.",
        "New connections get a certificate that lives longer.",
    ),
    "BrokerLost": _code(
        "The broker does not answer. What clusters share stays as it is; nothing new is shared.",
        "The broker answers again.",
    ),
    "ClusterSilent": _code(
        "A cluster does not renew its Lease on the broker, so that the others leave out what it "
        "exports. Its agent may run and not reach the broker.",
        "Its agent renews the Lease.",
    ),
    "LinkCut": _code(
        "The agent of one cluster does not reach another cluster, which others may reach.",
        "The connection is back.",
    ),
    "TokenRevoked": _code(
        "A cluster refuses the credentials that another one's agent has for it, or what it asks "
        "for with them: they ended, their account is gone, or lacks rights.",
        "The agent has new ones, or its rights: `hanse join` makes both.",
    ),
    "AgentMissing": _code(
        "No agent works in a cluster: none has ever run there, or its Lease, its account, or the "
        "namespace of both was deleted, so that the cluster refuses its credentials.",
        "An agent is installed and holds its Lease.",
    ),
    "AgentSilent": _code(
        "The agent of a cluster does not renew its own Lease: it does not run, or cannot write.",
        "An agent renews the Lease.",
    ),
    "AgentPaused": _code(
        "A person paused an agent by an annotation of its namespace: it writes only status.",
        "The annotation hanse.dev/paused is taken off.",
    ),
    "ObjectPaused": _code(
        "A person paused one object by an annotation: agents neither change it, its status "
        "included, nor delete it.",
        "The annotation hanse.dev/paused is taken off, or is false.",
    ),
    "MassDeletionHeld": _code(
        "Too much that users use vanished at once, so that an agent holds the deletions that would "
        "follow in a cluster until every cluster was listed in full once more.",
        "A second list agrees and the deletions go on, what was gone is back, or a person allows "
        "them by the annotation hanse.dev/allow-mass-deletion.",
    ),
    "FleetPaused": _code(
        "A person paused all agents in the ClusterSet: they write only status.",
        "spec.paused of the ClusterSet is false.",
    ),
    "BrokerNamespaceMissing": _code(
        "The namespace on the broker of what clusters share was deleted. What clusters have of "
        "each other stays as it was; nothing new is shared, and nobody can say who is alive.",
        "`hanse broker init` has made it again; agents fill it by themselves.",
    ),
    "ClusterSetMissing": _code(
        "A broker has members and no ClusterSet. The rules that each member has kept in its record "
        "stand; they cannot be changed.",
        "A ClusterSet is there again: `hanse broker init` makes it with the same rules.",
    ),
    "ClusterSetIgnored": _code(
        "A broker has several ClusterSets. The rules of the oldest count; those of the others do "
        "nothing, but any of them can pause the fleet.",
        "There is one ClusterSet.",
    ),
    "MembersMoving": _code(
        "A fleet moves to another broker: members are on the old one, on the new one, or on both. "
        "What they publish stands, and none of them is taken for dead meanwhile.",
        "`hanse broker retire` has ended the old broker.",
    ),
    "MemberLeaving": _code(
        "A member has been leaving its broker for longer than `hanse leave` waits: its agent does "
        "not run, does not reach the broker, or cannot withdraw something. Its account there has "
        "all its rights meanwhile. Or a `hanse leave` of a Federation was interrupted.",
        "Its agent has withdrawn everything, and `hanse leave` has ended its account.",
    ),
    "AccountRemains": _code(
        "A member has left its broker, but `hanse leave` was interrupted before it deleted the "
        "account, the rights and the Lease there: who has its token can still write.",
        "`hanse leave`, run again, has deleted them.",
    ),
    "RangesOverlap": _code(
        "Address ranges of clusters or networks overlap: an address of one would reach pods or "
        "Services of the other. Members of a broker or of a Federation, which state their ranges, "
        "do not import such addresses of each other.",
        "Each has a range of its own, or spec.clusters of the ClusterSet, or spec.ranges of a "
        "member's Federation, names the right ones.",
    ),
    "AgentForbidden": _code(
        "The account of an agent lacks rights that its features need: the agent is refused, or the "
        "API server says so when it is asked about that account. A console does not ask.",
        "The roles of this version are applied.",
    ),
    "NodesNotReady": _code("Nodes of a cluster are not ready.", "Their condition Ready is True."),
    "CredentialsRefused": _code(
        "A cluster does not accept the credentials of your kubeconfig, or they cannot be used; "
        "nothing is known of it.",
        "The cluster accepts them.",
    ),
    "NotReadable": _code(
        "Some kinds could not be listed, by your rights or since the API server failed: what is "
        "wrong with them is not known.",
        "They can be listed.",
    ),
    "KubeconfigInvalid": _code("No kubeconfig could be read.", "A readable one is named."),
    "TokenExpiring": _code(
        "Credentials end within a week, or a token that agents renew soon ends without.",
        "They are renewed, or others are used.",
    ),
    "TokenUnending": _code(
        f"A supervisor uses a token that never expires. {_UNSEEN}",
        "The member joins with one that does.",
    ),
    "VersionUnsupported": _code(
        "A cluster has a version of Kubernetes that is not supported.", "It is updated."
    ),
    "VersionSkew": _code(
        f"An agent is more than one release from this program, or from a newer agent. {_UNSEEN}",
        "All are of one release.",
    ),
    "ClockSkew": _code(
        "The clock of a cluster differs from this machine's by more than two seconds, or that of "
        "its agent by more than a minute from its API server's.",
        "Both clocks are synchronised.",
    ),
    "CrdMissing": _code(
        f"Definitions of kinds that the cluster's features need are missing. {_UNSEEN}",
        "They are applied.",
    ),
    "CrdOld": _code(
        f"Definitions are of another version. {_UNSEEN}", "Those of this version are applied."
    ),
    "AdmissionPolicyOld": _code(
        "Admission policies that version 0.1.0 wrote for the addresses of networks stand beside "
        f"those of this version, and nobody updates them. {_UNSEEN}",
        "They are deleted.",
    ),
    "RightMissing": _code(
        "Your own credentials lack rights that an installation needs.", "They are granted."
    ),
    "WebhookDown": _code(
        "An admission webhook does not answer, so that a cluster refuses what agents write, or "
        "one of ours has no ready endpoint. Of the latter agents know nothing; `hanse doctor`, "
        "`hanse status` and the console do, and name the configuration of the webhook.",
        "It answers, is taken away, or its failurePolicy is Ignore; agents write again by "
        "themselves.",
    ),
    "GuardMissing": _code(
        "A node has no guard (`hanse guard`) that is ready, by its Lease in hanse-guards, where "
        "agents leave it to guards to keep networks apart: NetworkPolicies do instead, and those "
        "of tenants do not narrow. Or the network plugin of the node, which a guard installed, "
        f"waits for it: no pod starts there. {_UNSEEN}",
        "A guard runs on the node, agents do without guards (`--no-network-node-guards`), or its "
        "plugin is taken out of the node's network configuration.",
    ),
    "BrokerUnguarded": _code(
        "Admission policies that hold members on a broker are missing, or their bindings do not "
        f"deny, so that a member can write what is another's. {_UNSEEN}",
        "They are applied again.",
    ),
    "MemberUnguarded": _code(
        "Admission policies that hold supervisors in a member of a Federation are missing, or "
        f"their bindings do not deny, so that a supervisor can write what is of users. {_UNSEEN}",
        "They are applied again.",
    ),
    "MemberMismatch": _code(
        "The record of a member on its broker is that of another cluster, by the uid of its "
        "namespace kube-system: it was edited, the cluster was built anew under the old id, or its "
        "agent was started under the id of another cluster. Its agent publishes nothing, and does "
        "not renew its Lease there.",
        "The record has the uid of the cluster: by the printed command, or, of a cluster that was "
        "built anew, by `hanse join --replace`. An agent with the id of another cluster is started "
        "with its own.",
    ),
    "MemberRecordMissing": _code(
        "A cluster renews its Lease on a broker, and its ClusterMember there is gone: it counts as "
        "a member by its Lease alone, and what its record says, as address ranges that overlap "
        "those of others, is not known.",
        "`hanse join` has written the record again.",
    ),
    "LeaseMissing": _code(
        "A cluster has joined, and its Lease is gone from the broker: the others take nothing new "
        f"from it. {_UNSEEN}",
        "Its agent has a Lease again.",
    ),
    "DnsDown": _code(
        "A name server of Hanse is deployed in a cluster, and none of its pods is ready: names are "
        f"not answered. {_UNSEEN}",
        "One of its pods is ready.",
    ),
    "ZoneNotDelegated": _code(
        "Our name server runs in a cluster whose DNS does not forward our zone to it, or forwards "
        f"it to an address that its Service has no more. {_UNSEEN}",
        "The Corefile forwards the zone to the address of the Service hanse-dns.",
    ),
    # services
    "NoEndpoints": _code(
        "An exported service has no ready endpoint in any cluster: clients get no answer.",
        "A pod behind it is ready somewhere.",
    ),
    "EndpointsLost": _code(
        "A service is served by fewer clusters than export it.", "All of them serve it again."
    ),
    "ExportInvalid": _code(
        "What is exported does not exist or cannot be exported.",
        "There is such a Service, or the export is withdrawn.",
    ),
    "ExportPending": _code("The broker has not taken an export yet.", "The broker takes it."),
    "ExportFailed": _code("An export could not be written to the broker.", "It is written."),
    "ExportUnseen": _code(
        "No agent has looked at an export.", "An agent with the feature services runs there."
    ),
    "PortConflict": _code(
        "Clusters export a service with ports that contradict each other; the oldest wins.",
        "All exports agree, or the younger one is withdrawn.",
    ),
    "TypeConflict": _code(
        "Clusters export a service as headless and not headless; the oldest wins.",
        "All exports agree, or the younger one is withdrawn.",
    ),
    "SettingIgnored": _code(
        "A setting in an annotation is not valid and has no effect.",
        "It is valid, or taken off.",
    ),
    "AddressesRefused": _code(
        "A cluster publishes addresses outside of the ranges that it may publish.",
        "The ClusterSet allows them, or they are no longer published.",
    ),
    "ImportBlocked": _code(
        "An object that Hanse did not make has the name of an import.", "It is gone."
    ),
    "NotPublished": _code(
        "Names could not be written to the name server outside.", "They are written."
    ),
    # federation
    "FederationInvalid": _code("A Federation cannot be used as it stands.", "It is corrected."),
    "FederationMissing": _code(
        "A cluster claims to be of a Federation, by the ClusterClaim clusterset.k8s.io, and its "
        "Federation is gone: a supervisor leads no member without it. Or its `hanse leave` was "
        "interrupted at the end, and nobody names it as a member. Or a supervisor names a cluster "
        "that has neither the Federation nor that claim.",
        "`hanse join` has written the Federation again, or `hanse leave` has ended.",
    ),
    "MemberUnreachable": _code(
        "A supervisor does not reach members of its Federation.", "It reaches them."
    ),
    "LeaderMissing": _code(
        "Nobody leads a member, or the GSLB configuration: nothing is changed there.",
        "A supervisor that reaches it runs, or a cluster is promoted.",
    ),
    "MembersDiffer": _code(
        "Supervisors of one Federation name different members.", "Their lists are the same."
    ),
    "MemberAbandoned": _code(
        "A member was given up while it did not answer; objects of ours may stand there.",
        "They are removed, and the note about it is deleted.",
    ),
    "WriteRefused": _code(
        "A cluster refuses what an agent writes: by a webhook, an admission policy, a quota, or "
        "since the agent's account lacks rights; the message is that of its API server.",
        "It accepts it; agents write again by themselves.",
    ),
    "TooManySupervisors": _code(
        f"More clusters supervise a Federation than are useful. {_UNSEEN}", "Five or fewer do."
    ),
    "NotFederated": _code(
        "A Service that asks to be federated is not: the message says why.", "It is."
    ),
    "NamesCollide": _code(
        "A Service of a user has the name of one that Hanse would make.", "One is renamed."
    ),
    "FederatedDown": _code(
        "A federated Service has no ready endpoint in any cluster.", "One is ready."
    ),
    "FederatedDegraded": _code(
        "Clusters with members of a federated Service are lost.", "They are back."
    ),
    "MachineNotServed": _code(
        "A virtual machine is no backend of the Service in its tags.", "It is."
    ),
    # policies
    "PolicyBlocked": _code(
        "A cluster refuses a federated policy; the message is that of its API server.",
        "It accepts it; writing is tried again.",
    ),
    "PolicyDeletionHeld": _code(
        "Many federated policies are gone from a cluster at once; the other clusters keep them.",
        "They are back, or a person allows that they are deleted everywhere.",
    ),
    "PolicyQuarantined": _code(
        "A cluster joined again with another version of a policy; neither is overwritten.",
        "A person says which one counts.",
    ),
    "PolicyConflict": _code(
        "A policy was changed in two clusters at once; one version counts, the other is kept.",
        "A person says which one counts.",
    ),
    "PolicyIgnored": _code("An annotation of a policy is misspelt.", "It is true, or taken off."),
    "PolicyLocalPeers": _code(
        "A federated policy names peers that exist in one cluster only.",
        "It names federated Services, or is not federated.",
    ),
    "PolicyNamesNothing": _code(
        "A federated policy names a group or a Service that a cluster does not have.",
        "The group or Service is there, or the policy names another.",
    ),
    "PolicyNotEnforced": _code(
        "A policy applies to machines on which nobody enforces policies.",
        "An agent of Antrea runs on them, or the policy applies to something else.",
    ),
    # networks
    "NetworkFailed": _code("A network of a tenant could not be made.", "Its phase is Ready."),
    "TenantFailed": _code("A tenant does not have what it asks for.", "It is Ready."),
    "DnsStale": _code(
        "The DNS of a network has another address than its pods ask: they cannot look names up.",
        "The pods are made anew.",
    ),
    "PoolExhausted": _code(
        "A network has no Service address left: new Services are refused.",
        "A range is added, or Services are deleted.",
    ),
    "PoolNearlyFull": _code(
        "A network has given out nine tenths of its Service addresses.", "A range is added."
    ),
    # global load balancing
    "HostDown": _code("No member of a global host is up.", "One is up."),
    "HostDegraded": _code("Some members of a global host are down.", "All are up."),
    "NameUnserved": _code(
        "A global host is in none of the zones that name servers answer: nobody can look it up.",
        "Name servers answer its zone, or nothing asks for the host.",
    ),
    "TwoLeaders": _code("Two clusters lead the GSLB configuration.", "One is demoted."),
    "GslbIncomplete": _code(
        "The GSLB leader has a GSLBConfig and no GlobalDeploymentPolicy in avi-system, or the "
        "other way round, so that no host is balanced. What is deleted in the leader's cluster is "
        "deleted in all.",
        "It has both, or neither.",
    ),
    "GslbStageFailed": _code("A stage of the GSLB federation failed.", "It succeeds."),
    "ProviderFailed": _code(
        "The GSLB configuration cannot be used, as when the Avi controller refuses us.",
        "The configuration or its Secret is corrected.",
    ),
    "GlobalPolicyInvalid": _code("A GlobalDeploymentPolicy is not valid.", "It is corrected."),
    "NotBalanced": _code(
        "A GlobalDeploymentPolicy selects objects that cannot be balanced.",
        "They can be, or are not selected.",
    ),
    "HostRuleRejected": _code("A GSLBHostRule is not used.", "It is corrected."),
    # sets
    "SetHalted": _code(
        "A roll-out of a StatefulSet over clusters does not go on: as many replicas as may be down "
        "are not ready, or a cluster with a share cannot be seen.",
        "The replicas are ready and the clusters are back, or the set is told to go on without.",
    ),
    "SetShort": _code(
        "A federated StatefulSet has fewer ready replicas than it asks for.", "All are ready."
    ),
    "SetInvalid": _code("A StatefulSet cannot be spread as it stands.", "It is corrected."),
    "SetNotPlaced": _code("Not all replicas have a cluster.", "There is room for them."),
    "SetRefused": _code(
        "A cluster does not take a set, by its AcceptancePolicy.",
        "Its administrator allows it, or the set is changed.",
    ),
    "SetTrouble": _code(
        "Something stands in the way of a cluster's part of a set.", "It is removed."
    ),
    "ShareDisputed": _code(
        "Somebody writes the shares of a set on the broker; nobody follows them.",
        "The record is computed anew.",
    ),
    "RecordTooNew": _code(
        "A record was made by a newer Hanse than the one that reads it.", "That one is updated."
    ),
    "AcceptanceUnreadable": _code(
        f"An AcceptancePolicy cannot be read; its last version or the defaults count. {_UNSEEN}",
        "It is corrected.",
    ),
}
"""Every code; a test holds that views and checks use no other."""
