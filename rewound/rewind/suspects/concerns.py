"""Objects that apply to a broken one although it does not name them: quotas, policies, webhooks, roles, nodes.

Only those that changed in the time before the failure are looked at, by the index of their type. Each function says
how a content concerns the object: the distance in the graph of references and the relation, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from rewound.actors.errors import RequestError
from rewound.actors.selectors.labels import LabelSelector
from rewound.rewind.suspects.breaking import Breakage
from rewound.rewind.suspects.past import Document, Name, Past
from rewound.rewind.suspects.references import WORKLOADS, map_at, maps_at, template_of, text_at, texts_in

Concern = tuple[float, str]


@dataclass(frozen=True)
class Surroundings:
    """What a search knows about the broken object."""

    past: Past
    target: Name
    breakage: Breakage
    named: dict[Name, Concern]  # the objects that are reached by references
    accounts: tuple[tuple[str, str], ...]  # namespace and name of the accounts of its pods
    labels: tuple[dict[str, str], ...]  # of its pods, as each template and pod has them
    roles: dict[str, set[Name]]  # the roles of the accounts, once they are needed

    @property
    def namespace(self) -> str:
        return self.target.namespace or (self.target.name if self.target.type == "namespaces" else "")

    @property
    def waits_for_node(self) -> bool:
        words = ("Unschedulable", "FailedScheduling", "SchedulerError")
        return any(one.reason in words for one in self.breakage.symptoms)

    def says(self, *words: str) -> bool:
        return any(word in one.text for one in self.breakage.symptoms for word in words)


Rule = Callable[[Surroundings, Name, Document], Concern | None]


def _same_namespace(around: Surroundings, one: Name, _: Document) -> Concern | None:
    return (1.5, "limits its namespace") if one.namespace == around.namespace else None


def _selects_pods(relation: str, *path: str) -> Rule:
    def rule(around: Surroundings, one: Name, content: Document) -> Concern | None:
        if one.namespace != around.namespace:
            return None
        selector = map_at(content, *path)
        return (1.5, relation) if any(selects(selector, labels) for labels in around.labels) else None

    return rule


def selects(selector: Document, labels: dict[str, str]) -> bool:
    """Whether a selector, of labels or with expressions, selects an object; one that cannot be read does not."""
    terms = [f"{key}={value}" for key, value in texts_in(selector, "matchLabels").items()]
    for one in maps_at(selector, "matchExpressions"):
        values = ",".join(value for value in one.get("values") or () if isinstance(value, str))
        key, operator = text_at(one, "key"), text_at(one, "operator")
        terms.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }.get(operator, "!")
        )
    try:
        return LabelSelector.parse(",".join(terms)).matches(labels)
    except RequestError:
        return False


def _service(around: Surroundings, one: Name, content: Document) -> Concern | None:
    selector = texts_in(content, "spec", "selector")
    if one.namespace != around.namespace or not selector:
        return None
    if any(selector.items() <= labels.items() for labels in around.labels):
        return 1.5, "selects its pods"
    return None


def _selected(around: Surroundings, one: Name, content: Document) -> Concern | None:
    """A workload or pod that a Service, policy or budget selects or selected."""
    if one.namespace != around.namespace or around.target.type not in _SELECTORS:
        return None
    labels = texts_in(template_of(one.type, content), "metadata", "labels")
    for version in around.past.events(around.target, 0, around.past.upto, 20):
        content = around.past.parsed(version)
        if around.target.type == "services":
            selector = {"matchLabels": texts_in(content, "spec", "selector")}
        else:
            selector = map_at(content, "spec", _SELECTORS[around.target.type])
        if selector.get("matchLabels") and selects(selector, labels):
            return 1, "is selected by it"
    return None


_SELECTORS: Final = {
    "services": "selector",
    "poddisruptionbudgets.policy": "selector",
    "networkpolicies.networking": "podSelector",
}


def _autoscaler(around: Surroundings, one: Name, content: Document) -> Concern | None:
    target = map_at(content, "spec", "scaleTargetRef")
    type_ = around.past.type_of_kind(text_at(target, "apiVersion"), text_at(target, "kind"))
    scaled = Name(type_, one.namespace, text_at(target, "name"))
    return (1, "scales it") if scaled in around.breakage.family else None


def _webhook(around: Surroundings, one: Name, content: Document) -> Concern | None:
    types = {name.type for name in around.breakage.family}
    hooks = maps_at(content, "webhooks")
    rules = [rule for hook in hooks for rule in maps_at(hook, "rules")]
    rules += maps_at(content, "spec", "matchConstraints", "resourceRules")
    if any(_covers(rule, type_) for rule in rules for type_ in types):
        return 1.5, "reviews its requests"
    return None


def _covers(rule: Document, type_: str) -> bool:
    plural, _, group = type_.partition(".")
    groups, resources = rule.get("apiGroups"), rule.get("resources")
    if not isinstance(groups, list) or not isinstance(resources, list):
        return False
    # The groups of dialects end differently, and groups of this module are cut after the first part.
    in_group = any(one == "*" or str(one).partition(".")[0] == group for one in groups)
    return in_group and any(
        str(one) in ("*", "*/*", plural) or fnmatchcase(f"{plural}/status", str(one)) for one in resources
    )


def _policy_binding(around: Surroundings, one: Name, content: Document) -> Concern | None:
    type_ = one.type.replace("policybindings.", "policies.")
    policy = around.past.last_content(Name(type_, "", text_at(content, "spec", "policyName")))
    found = policy and _webhook(around, one, policy)
    return (2, "binds a policy that reviews its requests") if found else None


def _definition(around: Surroundings, one: Name, content: Document) -> Concern | None:
    names = map_at(content, "spec", "names")
    group = text_at(content, "spec", "group").partition(".")[0]
    type_ = f"{text_at(names, 'plural')}.{group}"
    if any(type_ == member.type for member in (*around.breakage.family, *around.named)):
        return 1, "defines its kind"
    return None


def _binding(around: Surroundings, one: Name, content: Document) -> Concern | None:
    if one.namespace not in ("", around.namespace):
        return None
    for namespace, account in around.accounts:
        if _binds(content, namespace, account):
            return 2, f"gives a role to its account {account}"
    return None


def _binds(content: Document, namespace: str, account: str) -> bool:
    for subject in maps_at(content, "subjects")[:200]:
        kind, name = text_at(subject, "kind"), text_at(subject, "name")
        if kind == "ServiceAccount" and (text_at(subject, "namespace"), name) == (namespace, account):
            return True
        if kind == "Group" and name.endswith((f":serviceaccounts:{namespace}", ":serviceaccounts")):
            return True
        if kind == "User" and name.endswith(f":serviceaccount:{namespace}:{account}"):
            return True
    return False


def _role(around: Surroundings, one: Name, _: Document) -> Concern | None:
    if not around.roles:
        around.roles["found"] = set(_roles(around))
    return (2.5, "is a role of its account") if one in around.roles["found"] else None


def _roles(around: Surroundings) -> Iterator[Name]:
    """The roles that the accounts have or had."""
    past = around.past
    for type_, namespace in (("rolebindings.rbac", around.namespace), ("clusterrolebindings.rbac", "")):
        if not (namespace or type_.startswith("cluster")):
            continue
        for binding in past.names(type_, namespace, most=500):
            content = past.last_content(binding) or {}
            if any(_binds(content, *account) for account in around.accounts):
                kind, name = text_at(content, "roleRef", "kind"), text_at(content, "roleRef", "name")
                yield Name(f"{kind.lower()}s.rbac", namespace if kind == "Role" else "", name)


def _node(around: Surroundings, one: Name, content: Document) -> Concern | None:
    if around.waits_for_node:
        return 2, "could run it"
    return None


def _volume(around: Surroundings, one: Name, content: Document) -> Concern | None:
    claim = map_at(content, "spec", "claimRef")
    name = Name("persistentvolumeclaims", text_at(claim, "namespace"), text_at(claim, "name"))
    if name in around.named or name == around.target:
        return 1.5, "is the volume of a claim"
    if around.says("persistentvolume", "PersistentVolume", "volume node affinity"):
        return 2.5, "could be the volume of a claim"
    return None


# Not what the scheduler says of every pod that waits: that preemption does not help.
_PREEMPTED: Final = ("Preempted", "PreemptionByScheduler", "preempting")


def _competitor(around: Surroundings, one: Name, content: Document) -> Concern | None:
    """A workload that takes what this one lacks: room on nodes, or in a quota."""
    if one in around.breakage.family:
        return None
    if around.says("exceeded quota") and one.namespace == around.namespace:
        return 3, "uses the same quota"
    if around.says(*_PREEMPTED) and _is_preferred(one, content):
        return 1, "has a priority class, and uses the same nodes"
    if around.says("Insufficient", "Too many pods", *_PREEMPTED):
        return 3, "uses the same nodes"
    return None


def _is_preferred(one: Name, content: Document) -> bool:
    return bool(text_at(template_of(one.type, content), "spec", "priorityClassName"))


def _finalized(around: Surroundings, one: Name, content: Document) -> Concern | None:
    """An object that keeps a namespace or an owner from going away."""
    if map_at(content, "metadata").get("finalizers") and one.namespace == around.namespace:
        return 1, "has finalizers"
    return None


RULES: Final[dict[str, Rule]] = {
    "resourcequotas": _same_namespace,
    "limitranges": _same_namespace,
    "networkpolicies.networking": _selects_pods("selects its pods", "spec", "podSelector"),
    "poddisruptionbudgets.policy": _selects_pods("protects its pods", "spec", "selector"),
    "services": _service,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "mutatingwebhookconfigurations.admissionregistration": _webhook,
    "validatingwebhookconfigurations.admissionregistration": _webhook,
    "validatingadmissionpolicies.admissionregistration": _webhook,
    "mutatingadmissionpolicies.admissionregistration": _webhook,
    "validatingadmissionpolicybindings.admissionregistration": _policy_binding,
    "mutatingadmissionpolicybindings.admissionregistration": _policy_binding,
    "customresourcedefinitions.apiextensions": _definition,
    "rolebindings.rbac": _binding,
    "clusterrolebindings.rbac": _binding,
    "roles.rbac": _role,
    "clusterroles.rbac": _role,
    "nodes": _node,
    "persistentvolumes": _volume,
}
_COMPETITORS: Final = ("deployments.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", "pods")


def rules_for(around: Surroundings) -> Iterator[tuple[str, str | None, list[Rule]]]:
    """The types to look through, the namespace (None: all), and the rules for each."""
    for type_, rule in RULES.items():
        if type_ == "nodes" and not around.waits_for_node:
            continue  # there may be thousands, each with a heartbeat
        yield type_, None if _is_cluster_wide(type_) else around.namespace, [rule]
    if around.target.type in _SELECTORS:
        for type_ in (*sorted(WORKLOADS), "pods"):
            yield type_, around.namespace, [_selected]
    if around.says("exceeded quota"):
        for type_ in _COMPETITORS:
            yield type_, around.namespace, [_competitor]
    elif around.says("Insufficient", "Too many pods", *_PREEMPTED):
        for type_ in _COMPETITORS:
            yield type_, None, [_competitor]
    if around.target.type == "namespaces":
        for type_ in around.past.types:
            if type_ != "events" and around.past.sees(type_, around.namespace, note=False):
                yield type_, around.namespace, [_finalized]


_CLUSTER_WIDE: Final = frozenset(type_ for type_ in RULES if "admissionregistration" in type_) | {
    "customresourcedefinitions.apiextensions",
    "clusterrolebindings.rbac",
    "clusterroles.rbac",
    "nodes",
    "persistentvolumes",
}


def _is_cluster_wide(type_: str) -> bool:
    return type_ in _CLUSTER_WIDE


def first_concern(
    around: Surroundings, one: Name, contents: Iterable[Document], rules: list[Rule]
) -> Concern | None:
    for content in contents:
        for rule in rules:
            if (found := rule(around, one, content)) is not None:
                return found
    return None
