"""The plugins that together are PodSecurity, with what they share."""

from __future__ import annotations

from actors.admission.configuration import PluginConfiguration
from actors.admission.plugin import Plugin
from actors.admission.plugins.pod_security.configuration import parse_configuration
from actors.admission.plugins.pod_security.evaluations import Evaluations
from actors.admission.plugins.pod_security.existing_pods import PodSecurityOfExistingPods
from actors.admission.plugins.pod_security.namespace_policies import NamespacePolicies
from actors.admission.plugins.pod_security.namespaces import PodSecurityOfNamespaces
from actors.admission.plugins.pod_security.pods import PodSecurity
from actors.admission.plugins.pod_security.policy import PolicyLabels
from actors.admission.plugins.pod_security.standards import Standards
from actors.admission.plugins.pod_security.templates import PodSecurityOfTemplates
from actors.names import Names
from actors.store.feed import Feed
from journal.log import Journal


def pod_security(
    names: Names, journal: Journal, feed: Feed, given: PluginConfiguration | None
) -> tuple[Plugin, ...]:
    configuration = parse_configuration(names, given)
    labels, standards = PolicyLabels(names, configuration.defaults), Standards(names)
    policies = NamespacePolicies(labels, journal, feed)
    evaluations = Evaluations(standards, configuration, labels.prefix)
    return (
        PodSecurity(names, policies, evaluations),
        PodSecurityOfTemplates(policies, evaluations),
        PodSecurityOfNamespaces(labels, configuration),
        PodSecurityOfExistingPods(journal, labels, standards, configuration),
    )
