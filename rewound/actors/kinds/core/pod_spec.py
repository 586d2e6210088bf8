"""The spec of pods: containers, volumes, and where and how they run.

Affinity, tolerations and topology spread constraints say on which nodes and with which other pods a pod may run.
Templates of workloads have the same spec as pods. A few defaults and rules are only for pods; those are in
`core/pod`. An update may keep values of the old object that would be invalid in a new one: `Allowed`. `PodKeys` are
the names in pods that depend on the dialect: annotation keys that the API reads, and the API's own domains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from rewound.actors.golang.format import Formatted
from rewound.actors.golang.quoting import quoted_start
from rewound.actors.kinds.core.containers import (
    CONTAINER,
    EPHEMERAL_CONTAINER,
    ContainerRules,
    file_volume_rules,
    host_network_rules,
    is_latest,
    set_container_defaults,
    set_host_port_defaults,
)
from rewound.actors.kinds.core.node_selector import (
    NODE_SELECTOR,
    NODE_SELECTOR_TERM,
    node_selector_rules,
    node_selector_term_rules,
)
from rewound.actors.kinds.core.references import LOCAL_OBJECT_REFERENCE
from rewound.actors.kinds.core.resources import (
    HUGE_PAGES,
    RESOURCE_REQUIREMENTS,
    is_multiple_of_page_size,
    pod_requirement_rules,
    requirement_rules,
    round_up,
)
from rewound.actors.kinds.core.security_context import (
    POD_SECURITY_CONTEXT,
    containers_of,
    host_process_rules,
    linux_rules,
    pod_context_rules,
    windows_rules,
)
from rewound.actors.kinds.core.volumes import VOLUME, VolumeRules, set_volume_defaults
from rewound.actors.kinds.declaration.meta import LABEL_SELECTOR, label_rules, label_selector_rules
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT64,
    OPTIONAL_BEFORE_1_30,
    QUANTITIES,
    STRING,
    STRING_MAP,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.validation import (
    FieldErrors,
    between,
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    ip_rules,
    label_value,
    not_supported,
    parse_ip,
    qualified_name,
    relaxed_variable_name,
    required,
    reworded,
    search_domain,
    size,
    too_long,
    variable_name,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import (
    ADDRESSES_CHECKED_ALIKE,
    ANY_VOLUME_IN_NAMESPACES,
    CLAIMS_INLINE,
    HOST_PORTS_OF_PODS,
    HOST_USERS_IN_TEXTS,
    IMAGE_VOLUMES,
    OS_NAME_REQUIRED,
    POD_LEVEL_RESOURCES,
    RELAXED_SEARCHES,
    RELAXED_VARIABLES,
    RESIZE,
    RESTART_ALL,
    RESTART_RULES,
    SE_LINUX_MOUNT_ALL,
    SLEEP_ZERO,
    SPREAD_SELECTOR_MERGE,
    SPREAD_SELECTORS_CHECKED,
    TOLERATION_COMPARISONS,
    TOLERATION_VALUE_IN_TEXTS,
    USER_NAMESPACES_HOST_NETWORK,
)


class PodKeys(msgspec.Struct, frozen=True):
    api_domain: str  # the domain of the API's own resources, with a slash
    domains: tuple[str, ...]  # reserved for the API itself
    mirror: str  # of static pods
    tolerations: str
    deletion_cost: str
    pod_seccomp: str
    container_seccomp: str  # a prefix, followed by the container's name
    container_apparmor: str  # likewise
    dropped: frozenset[str]  # replaced by fields, and dropped from requests

    @classmethod
    def of(cls, names: Names) -> PodKeys:
        return cls(
            api_domain=names.key(""),
            domains=tuple(dict.fromkeys((names.key_domain, names.group_domain))),
            mirror=names.key("config.mirror"),
            tolerations=names.key("tolerations", "scheduler.alpha"),
            deletion_cost=names.key("pod-deletion-cost", "controller"),
            pod_seccomp=names.key("pod", "seccomp.security.alpha"),
            container_seccomp=names.key("", "container.seccomp.security.alpha"),
            container_apparmor=names.key("", "container.apparmor.security.beta"),
            dropped=frozenset(
                names.key(key, prefix)
                for prefix in ("pod.alpha", "pod.beta")
                for key in ("init-containers", "init-container-statuses")
            ),
        )


PREFERRED_SCHEDULING_TERM = Struct(
    "core.v1.PreferredSchedulingTerm",
    Field("weight", INT32, 1, required=True, always=True),
    Field("preference", NODE_SELECTOR_TERM, 2, required=True, always=True),
)
NODE_AFFINITY = Struct(
    "core.v1.NodeAffinity",
    Field("requiredDuringSchedulingIgnoredDuringExecution", NODE_SELECTOR, 1, pointer=True),
    Field(
        "preferredDuringSchedulingIgnoredDuringExecution",
        ListOf(PREFERRED_SCHEDULING_TERM),
        2,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)
POD_AFFINITY_TERM = Struct(
    "core.v1.PodAffinityTerm",
    Field("labelSelector", LABEL_SELECTOR, 1, pointer=True),
    Field("namespaces", STRINGS, 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("topologyKey", STRING, 3, required=True, always=True),
    Field("namespaceSelector", LABEL_SELECTOR, 4, pointer=True),
    Field("matchLabelKeys", STRINGS, 5, list_type="atomic", since="1.29", gate="MatchLabelKeysInPodAffinity"),
    Field(
        "mismatchLabelKeys", STRINGS, 6, list_type="atomic", since="1.29", gate="MatchLabelKeysInPodAffinity"
    ),
)
WEIGHTED_POD_AFFINITY_TERM = Struct(
    "core.v1.WeightedPodAffinityTerm",
    Field("weight", INT32, 1, required=True, always=True),
    Field("podAffinityTerm", POD_AFFINITY_TERM, 2, required=True, always=True),
)
POD_AFFINITY = Struct(
    "core.v1.PodAffinity",
    Field(
        "requiredDuringSchedulingIgnoredDuringExecution",
        ListOf(POD_AFFINITY_TERM),
        1,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "preferredDuringSchedulingIgnoredDuringExecution",
        ListOf(WEIGHTED_POD_AFFINITY_TERM),
        2,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)
POD_ANTI_AFFINITY = Struct(
    "core.v1.PodAntiAffinity",
    Field(
        "requiredDuringSchedulingIgnoredDuringExecution",
        ListOf(POD_AFFINITY_TERM),
        1,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "preferredDuringSchedulingIgnoredDuringExecution",
        ListOf(WEIGHTED_POD_AFFINITY_TERM),
        2,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)
AFFINITY = Struct(
    "core.v1.Affinity",
    Field("nodeAffinity", NODE_AFFINITY, 1, pointer=True),
    Field("podAffinity", POD_AFFINITY, 2, pointer=True),
    Field("podAntiAffinity", POD_ANTI_AFFINITY, 3, pointer=True),
)

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity_rules(errors: FieldErrors, affinity: Object, field: str) -> None:
    if "nodeAffinity" in affinity:
        _node_affinity_rules(errors, affinity["nodeAffinity"], f"{field}.nodeAffinity")
    for part in ("podAffinity", "podAntiAffinity"):
        if part in affinity:
            _pod_affinity_rules(errors, affinity[part], f"{field}.{part}")


def _node_affinity_rules(errors: FieldErrors, affinity: Object, field: str) -> None:
    if REQUIRED in affinity:
        node_selector_rules(errors, affinity[REQUIRED], f"{field}.{REQUIRED}")
    for index, term in enumerate(affinity.get(PREFERRED, ())):
        here = f"{field}.{PREFERRED}[{index}]"
        _weight_rules(errors, term["weight"], here)
        node_selector_term_rules(errors, term["preference"], f"{here}.preference")


def _pod_affinity_rules(errors: FieldErrors, affinity: Object, field: str) -> None:
    for index, term in enumerate(affinity.get(REQUIRED, ())):
        _affinity_term_rules(errors, term, f"{field}.{REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.get(PREFERRED, ())):
        here = f"{field}.{PREFERRED}[{index}]"
        _weight_rules(errors, weighted["weight"], here)
        _affinity_term_rules(errors, weighted["podAffinityTerm"], f"{here}.podAffinityTerm")


def _weight_rules(errors: FieldErrors, weight: int, field: str) -> None:
    if not (1 <= weight <= 100):
        errors.add(invalid(f"{field}.weight", weight, "must be in the range 1-100"))


def _affinity_term_rules(errors: FieldErrors, term: Object, field: str) -> None:
    key, here = term["topologyKey"], f"{field}.topologyKey"
    label_selector_rules(errors, term.get("labelSelector"), f"{field}.labelSelector")
    label_selector_rules(errors, term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces", ()):
        errors.add_each(f"{field}.namespace", name, dns_label(name))
    if "matchLabelKeys" in term or "mismatchLabelKeys" in term:
        _merged_label_key_rules(errors, term, field)
    if not key:
        errors.add(required(here, "can not be empty"))
    errors.add_each(here, key, qualified_name(key))


def _merged_label_key_rules(errors: FieldErrors, term: Object, field: str) -> None:
    """Validate the keys of labels that were merged into the selector when the pod was created."""
    matching, mismatching = term.get("matchLabelKeys", []), term.get("mismatchLabelKeys", [])
    selector = term.get("labelSelector")
    for part, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", mismatching)):
        if keys and selector is None:
            errors.add(forbidden(f"{field}.{part}", NO_SELECTOR))
        elif keys:
            for index, key in enumerate(keys):
                errors.add_each(f"{field}.{part}[{index}]", key, qualified_name(key))
    if selector is not None:
        seen, places = {*selector.get("matchLabels", ())}, {key: place for place, key in enumerate(matching)}
        for expression in selector.get("matchExpressions", ()):
            key = expression["key"]
            if key in places and key in seen:
                errors.add(invalid(f"{field}[{places[key]}]", key, IN_BOTH))
            seen.add(key)
    excluded = frozenset(mismatching)
    for index, key in enumerate(matching):
        if key in excluded:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.add(invalid(f"{field}.matchLabelKeys[{index}]", key, text))


TOLERATION_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TOLERATION_OPERATORS: Final = ("Equal", "Exists")
COMPARISON_OPERATORS: Final = ("Lt", "Gt")
UNSATISFIABLE_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
INCLUSION_POLICIES: Final = ("Honor", "Ignore")
NO_SELECTOR: Final = "must not be specified when labelSelector is not set"
IN_BOTH: Final = "exists in both matchLabelKeys and labelSelector"
NOT_POSITIVE: Final = "must be greater than zero"

TOLERATION = Struct(
    "core.v1.Toleration",
    Field("key", STRING, 1),
    Field("operator", STRING, 2, enum=("Equal", "Exists")),
    Field("value", STRING, 3),
    Field("effect", STRING, 4, enum=("NoExecute", "NoSchedule", "PreferNoSchedule")),
    Field("tolerationSeconds", INT64, 5, pointer=True),
)
TOPOLOGY_SPREAD_CONSTRAINT = Struct(
    "core.v1.TopologySpreadConstraint",
    Field("maxSkew", INT32, 1, required=True, always=True),
    Field("topologyKey", STRING, 2, required=True, always=True),
    Field(
        "whenUnsatisfiable", STRING, 3, required=True, always=True, enum=("DoNotSchedule", "ScheduleAnyway")
    ),
    Field("labelSelector", LABEL_SELECTOR, 4, pointer=True),
    Field("minDomains", INT32, 5, pointer=True),
    Field("nodeAffinityPolicy", STRING, 6, pointer=True),
    Field("nodeTaintsPolicy", STRING, 7, pointer=True),
    Field("matchLabelKeys", STRINGS, 8, list_type="atomic"),
)
POD_READINESS_GATE = Struct(
    "core.v1.PodReadinessGate",
    Field("conditionType", STRING, 1, required=True, always=True),
)


def printed_toleration(toleration: Object) -> Object | str:
    """Return a toleration as Kubernetes prints it, or as it is where versions without JSON print an address."""
    members = {name.capitalize(): toleration.get(name, "") for name in ("key", "operator", "value", "effect")}
    if "tolerationSeconds" in toleration:
        return toleration
    texts = ", ".join(f"{name}:{quoted_start(value)}" for name, value in members.items())
    text = f"core.Toleration{{{texts}, TolerationSeconds:(*int64)(nil)}}"
    return Formatted(text, {**members, "TolerationSeconds": None})


def toleration_rules(errors: FieldErrors, tolerations: list[Object], field: str) -> None:
    for index, toleration in enumerate(tolerations):
        _one_toleration_rules(errors, toleration, f"{field}[{index}]")


def _one_toleration_rules(errors: FieldErrors, toleration: Object, field: str) -> None:
    key, operator, effect = (toleration.get(part, "") for part in ("key", "operator", "effect"))
    if key:
        errors.add_each(f"{field}.key", key, qualified_name(key))
    if not key and operator != "Exists":
        text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.add(invalid(f"{field}.operator", operator, text))
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.add(invalid(f"{field}.effect", effect, text))
    _toleration_operator_rules(errors, toleration, operator, f"{field}.operator")
    if effect and effect not in TOLERATION_EFFECTS:
        errors.add(not_supported(f"{field}.effect", effect, TOLERATION_EFFECTS))


def _toleration_operator_rules(errors: FieldErrors, toleration: Object, operator: str, field: str) -> None:
    value = toleration.get("value", "")
    if operator in ("", "Equal"):
        wrong = label_value(value)
        if wrong:
            errors.add(invalid(field, value, ";".join(wrong)))
        return
    if operator == "Exists":
        text = "value must be empty when `operator` is 'Exists'"
        if value:
            whole = printed_toleration(toleration)
            given = value if TOLERATION_VALUE_IN_TEXTS in errors.features else whole
            errors.add(invalid(field, given, text))
        return
    if operator in COMPARISON_OPERATORS and TOLERATION_COMPARISONS in errors.features:
        _compared_value_rules(errors, value, f"{field.removesuffix('operator')}value")
        return
    errors.add(not_supported(field, operator, TOLERATION_OPERATORS))


def _compared_value_rules(errors: FieldErrors, value: str, field: str) -> None:
    if not re.fullmatch("0|-?[1-9][0-9]*", value):
        text = "must be a valid decimal integer in canonical form" if value else "must be non-empty"
        errors.add(invalid(field, value, text))
    problem = ""
    if not re.fullmatch("[-+]?[0-9]+", value):
        problem = "invalid syntax"
    elif not -(2**63) <= int(value[:32]) < 2**63:
        problem = "value out of range"
    if problem:
        errors.add(invalid(field, value, f"strconv.ParseInt: parsing {quoted_start(value)}: {problem}"))


def added_toleration_rules(errors: FieldErrors, new: list[Object], old: list[Object], field: str) -> None:
    """An update may add tolerations and change their tolerationSeconds, but not remove any."""
    if not {_without_seconds(one) for one in old} <= {_without_seconds(one) for one in new}:
        text = "existing toleration can not be modified except its tolerationSeconds"
        errors.add(forbidden(field, text))
        return
    toleration_rules(errors, new, field)


def _without_seconds(toleration: Object) -> frozenset[tuple[str, str]]:
    return frozenset((part, value) for part, value in toleration.items() if part != "tolerationSeconds")


def spread_rules(errors: FieldErrors, constraints: list[Object], field: str) -> None:
    last = {(one["topologyKey"], one["whenUnsatisfiable"]): index for index, one in enumerate(constraints)}
    for index, constraint in enumerate(constraints):
        key, action = constraint["topologyKey"], constraint["whenUnsatisfiable"]
        _constraint_rules(errors, constraint, f"{field}[{index}]", repeated=last[key, action] > index)


def _constraint_rules(errors: FieldErrors, constraint: Object, field: str, *, repeated: bool) -> None:
    skew, key, action = (constraint[part] for part in ("maxSkew", "topologyKey", "whenUnsatisfiable"))
    if skew <= 0:
        errors.add(invalid(f"{field}.maxSkew", skew, NOT_POSITIVE))
    if not key:
        errors.add(required(f"{field}.topologyKey", "can not be empty"))
    if action not in UNSATISFIABLE_ACTIONS:
        errors.add(not_supported(f"{field}.whenUnsatisfiable", action, UNSATISFIABLE_ACTIONS))
    if repeated:
        errors.add(duplicate(f"{field}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
    _min_domains_rules(errors, constraint.get("minDomains"), action, f"{field}.minDomains")
    for part in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(part)
        if policy is not None and policy not in INCLUSION_POLICIES:
            errors.add(not_supported(f"{field}.{part}", policy, INCLUSION_POLICIES))
    if SPREAD_SELECTOR_MERGE in errors.features:
        _merged_label_key_rules(errors, constraint, field)
    else:
        _label_key_rules(errors, constraint, f"{field}.matchLabelKeys")
    if SPREAD_SELECTORS_CHECKED in errors.features:
        label_selector_rules(errors, constraint.get("labelSelector"), f"{field}.labelSelector")


def _min_domains_rules(errors: FieldErrors, min_domains: int | None, action: str, field: str) -> None:
    if min_domains is None:
        return
    if min_domains <= 0:
        errors.add(invalid(field, min_domains, NOT_POSITIVE))
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.add(invalid(field, min_domains, text))


def _label_key_rules(errors: FieldErrors, constraint: Object, field: str) -> None:
    lacks_selector = "matchLabelKeys" in constraint and "labelSelector" not in constraint
    if lacks_selector and SPREAD_SELECTORS_CHECKED in errors.features:
        errors.add(forbidden(field, NO_SELECTOR))
    selector = constraint.get("labelSelector", {})
    selected = {*selector.get("matchLabels", ())}
    selected |= {one["key"] for one in selector.get("matchExpressions", ())}
    for index, key in enumerate(constraint.get("matchLabelKeys", ())):
        errors.add_each(f"{field}[{index}]", key, qualified_name(key))
        if key in selected:
            errors.add(invalid(f"{field}[{index}]", key, IN_BOTH))


def readiness_gate_rules(errors: FieldErrors, gates: list[Object], field: str) -> None:
    for index, gate in enumerate(gates):
        condition = gate["conditionType"]
        errors.add_each(f"{field}[{index}].conditionType", condition, qualified_name(condition))


DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
MAX_NAMESERVERS: Final = 3
_BAD_ADDRESS: Final = reworded(
    "must be valid IP address",
    ADDRESSES_CHECKED_ALIKE,
    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
)

HOST_ALIAS = Struct(
    "core.v1.HostAlias",
    Field("ip", STRING, 1, required=True, always=True, before=OPTIONAL_BEFORE_1_30),
    Field("hostnames", STRINGS, 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
POD_DNS_CONFIG_OPTION = Struct(
    "core.v1.PodDNSConfigOption",
    Field("name", STRING, 1),
    Field("value", STRING, 2, pointer=True),
)
POD_DNS_CONFIG = Struct(
    "core.v1.PodDNSConfig",
    Field("nameservers", STRINGS, 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("searches", STRINGS, 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field(
        "options",
        ListOf(POD_DNS_CONFIG_OPTION),
        3,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)

# Search lists: the number of domains, and of characters with the spaces between them.
DEFAULT_SEARCH_LIMITS: Final = (6, 256)
EXPANDED_SEARCH_LIMITS: Final = (32, 2048)


def dns_policy_rules(errors: FieldErrors, policy: str, field: str) -> None:
    if policy not in DNS_POLICIES:
        errors.add(not_supported(field, policy, DNS_POLICIES) if policy else required(field))


def dns_config_rules(
    errors: FieldErrors, config: Object | None, policy: str, field: str, *, expanded: bool
) -> None:
    if policy == "None":
        if config is None:
            errors.add(required(field, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errors.add(required(f"{field}.nameservers", text))
            return
    if not config:
        return
    _nameserver_rules(errors, config.get("nameservers", []), f"{field}.nameservers")
    limits = EXPANDED_SEARCH_LIMITS if expanded else DEFAULT_SEARCH_LIMITS
    _search_rules(errors, config.get("searches", []), f"{field}.searches", limits)
    for index, option in enumerate(config.get("options", ())):
        if not option.get("name"):
            errors.add(required(f"{field}.options[{index}]", "must not be empty"))


def _nameserver_rules(errors: FieldErrors, servers: list[str], field: str) -> None:
    if len(servers) > MAX_NAMESERVERS:
        errors.add(invalid(field, servers, f"must not have more than {MAX_NAMESERVERS} nameservers"))
    for index, server in enumerate(servers):
        _address_rules(errors, server, f"{field}[{index}]")


def _address_rules(errors: FieldErrors, address: str, field: str) -> None:
    if parse_ip(address) is None:
        errors.add(invalid(field, address, _BAD_ADDRESS))
    else:
        ip_rules(errors, field, address)


def _search_rules(errors: FieldErrors, domains: list[str], field: str, limits: tuple[int, int]) -> None:
    max_domains, max_characters = limits
    if len(domains) > max_domains:
        errors.add(invalid(field, domains, f"must not have more than {max_domains} search paths"))
    if len(" ".join(domains).encode()) > max_characters:
        text = f"must not have more than {max_characters} characters (including spaces) in the search list"
        errors.add(invalid(field, domains, text))
    relaxed = RELAXED_SEARCHES in errors.features
    for index, domain in enumerate(domains):
        if relaxed and domain == ".":
            continue
        name = domain.removesuffix(".")
        errors.add_each(f"{field}[{index}]", name, search_domain(name) if relaxed else dns_subdomain(name))


def is_expanded(config: Object) -> bool:
    """Whether the search list is longer than the usual limit."""
    max_domains, max_characters = DEFAULT_SEARCH_LIMITS
    domains = config.get("searches", [])
    return len(domains) > max_domains or len(" ".join(domains).encode()) > max_characters


def host_alias_rules(errors: FieldErrors, aliases: list[Object], field: str) -> None:
    with_index = ADDRESSES_CHECKED_ALIKE in errors.features
    for index, alias in enumerate(aliases):
        here, address = f"{field}[{index}]" if with_index else field, alias.get("ip", "")
        _address_rules(errors, address, f"{here}.ip")
        for position, name in enumerate(alias.get("hostnames", ())):
            path = f"{here}.hostnames[{position}]" if with_index else f"{here}.hostnames"
            errors.add_each(path, name, dns_subdomain(name))


def scheduling_gate_rules(errors: FieldErrors, gates: list[Object], field: str) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate["name"]
        errors.add_each(f"{field}[{index}]", name, qualified_name(name))
        if name in seen:
            errors.add(duplicate(f"{field}[{index}]", name))
        seen.add(name)


RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
OPERATING_SYSTEMS: Final = ("linux", "windows")
LONGEST_DEADLINE: Final = 2**31 - 1
LONGEST_HOSTNAME: Final = 64
NOT_IN_USER_NAMESPACE: Final = reworded(
    "when `pod.Spec.HostUsers` is false", HOST_USERS_IN_TEXTS, "when `hostUsers` is false"
)

POD_OS = Struct(
    "core.v1.PodOS",
    Field("name", STRING, 1, required=True, always=True),
)
WORKLOAD_REFERENCE = Struct(
    "core.v1.WorkloadReference",
    Field("name", STRING, 1, required=True, always=True),
    Field("podGroup", STRING, 2, required=True, always=True),
    Field("podGroupReplicaKey", STRING, 3),
)
POD_SCHEDULING_GROUP = Struct(
    "core.v1.PodSchedulingGroup",
    Field("podGroupName", STRING, 1, pointer=True),
    union="",
)
POD_SCHEDULING_GATE = Struct(
    "core.v1.PodSchedulingGate",
    Field("name", STRING, 1, required=True, always=True),
)
CLAIM_SOURCE = Struct(
    "core.v1.ClaimSource",
    Field("resourceClaimName", STRING, 1, pointer=True),
    Field("resourceClaimTemplateName", STRING, 2, pointer=True),
)
POD_RESOURCE_CLAIM = Struct(
    "core.v1.PodResourceClaim",
    Field("name", STRING, 1, required=True, always=True),
    Field("resourceClaimName", STRING, 3, pointer=True, since="1.31"),
    Field("resourceClaimTemplateName", STRING, 4, pointer=True, since="1.31"),
    Field("source", CLAIM_SOURCE, 2, until="1.30"),
)
POD_SPEC = Struct(
    "core.v1.PodSpec",
    Field(
        "volumes",
        ListOf(VOLUME),
        1,
        patch="merge,retainKeys",
        merge_key="name",
        list_keys=("name",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "initContainers",
        ListOf(CONTAINER),
        20,
        patch="merge",
        merge_key="name",
        list_keys=("name",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "containers",
        ListOf(CONTAINER),
        2,
        required=True,
        always=True,
        patch="merge",
        merge_key="name",
        list_keys=("name",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field(
        "ephemeralContainers",
        ListOf(EPHEMERAL_CONTAINER),
        34,
        patch="merge",
        merge_key="name",
        list_keys=("name",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("restartPolicy", STRING, 3, enum=("Always", "Never", "OnFailure"), default="Always"),
    Field("terminationGracePeriodSeconds", INT64, 4, pointer=True, default=30),
    Field("activeDeadlineSeconds", INT64, 5, pointer=True),
    Field(
        "dnsPolicy",
        STRING,
        6,
        enum=("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        default="ClusterFirst",
    ),
    Field("nodeSelector", STRING_MAP, 7, map_type="atomic"),
    Field("serviceAccountName", STRING, 8),
    Field("serviceAccount", STRING, 9),
    Field("automountServiceAccountToken", BOOL, 21, pointer=True),
    Field("nodeName", STRING, 10),
    Field("hostNetwork", BOOL, 11),
    Field("hostPID", BOOL, 12),
    Field("hostIPC", BOOL, 13),
    Field("shareProcessNamespace", BOOL, 27, pointer=True),
    Field("securityContext", POD_SECURITY_CONTEXT, 14, pointer=True, default=dict),
    Field(
        "imagePullSecrets",
        ListOf(LOCAL_OBJECT_REFERENCE),
        15,
        patch="merge",
        merge_key="name",
        list_keys=("name",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("hostname", STRING, 16),
    Field("subdomain", STRING, 17),
    Field("affinity", AFFINITY, 18, pointer=True),
    Field("schedulerName", STRING, 19, default="default-scheduler"),
    Field("tolerations", ListOf(TOLERATION), 22, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field(
        "hostAliases",
        ListOf(HOST_ALIAS),
        23,
        patch="merge",
        merge_key="ip",
        list_keys=("ip",),
        list_type="map",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("priorityClassName", STRING, 24),
    Field("priority", INT32, 25, pointer=True),
    Field("dnsConfig", POD_DNS_CONFIG, 26, pointer=True),
    Field(
        "readinessGates",
        ListOf(POD_READINESS_GATE),
        28,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("runtimeClassName", STRING, 29, pointer=True),
    Field("enableServiceLinks", BOOL, 30, pointer=True),
    Field("preemptionPolicy", STRING, 31, pointer=True),
    Field("overhead", QUANTITIES, 32),
    Field(
        "topologySpreadConstraints",
        ListOf(TOPOLOGY_SPREAD_CONSTRAINT),
        33,
        patch="merge",
        merge_key="topologyKey",
        list_type="map",
        list_keys=("topologyKey", "whenUnsatisfiable"),
    ),
    Field("setHostnameAsFQDN", BOOL, 35, pointer=True),
    Field("os", POD_OS, 36, pointer=True),
    Field("hostUsers", BOOL, 37, pointer=True),
    Field("hostnameOverride", STRING, 41, pointer=True, since="1.34", gate="HostnameOverride"),
    Field(
        "resourceClaims",
        ListOf(POD_RESOURCE_CLAIM),
        39,
        patch="merge,retainKeys",
        merge_key="name",
        list_type="map",
        list_keys=("name",),
        since="1.26",
        gate="DynamicResourceAllocation",
    ),
    Field("resources", RESOURCE_REQUIREMENTS, 40, pointer=True, since="1.32", gate="PodLevelResources"),
    Field(
        "schedulingGates",
        ListOf(POD_SCHEDULING_GATE),
        38,
        patch="merge",
        merge_key="name",
        list_type="map",
        list_keys=("name",),
        since="1.26",
        gate="PodSchedulingReadiness",
    ),
    Field("schedulingGroup", POD_SCHEDULING_GROUP, 43, pointer=True, since="1.36", gate="GenericWorkload"),
    Field(
        "workloadRef",
        WORKLOAD_REFERENCE,
        42,
        pointer=True,
        since="1.35",
        until="1.35",
        gate="GenericWorkload",
    ),
)

_USER_NAMESPACE_VOLUMES: Final = frozenset(("emptyDir", "secret", "downwardAPI", "configMap", "projected"))
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


class Allowed(msgspec.Struct, frozen=True):
    """Invalid values that validation tolerates because the old object already has them."""

    indivisible_huge_pages: bool = False
    expanded_dns: bool = False
    any_deletion_cost: bool = False


def set_spec_defaults(spec: Object, features: frozenset[str] = frozenset(), *, of_pod: bool = False) -> None:
    if "volumes" in spec:
        set_volume_defaults(spec["volumes"])
        if IMAGE_VOLUMES in features:
            set_image_defaults(spec["volumes"])
    for part in _CONTAINERS:
        if spec.get(part):
            set_container_defaults(spec[part])
    if spec.get("hostNetwork") and (of_pod or HOST_PORTS_OF_PODS not in features):
        set_host_port_defaults(spec["containers"] or [])
        set_host_port_defaults(spec.get("initContainers", []))
    if "overhead" in spec:
        round_up(spec["overhead"])
    if "resources" in spec:
        for part in ("limits", "requests"):
            if part in spec["resources"]:
                round_up(spec["resources"][part])
    _sync_service_account_fields(spec)


def set_image_defaults(volumes: list[Object]) -> None:
    for volume in volumes:
        if "image" in volume and "pullPolicy" not in volume["image"]:
            latest = is_latest(volume["image"].get("reference", ""))
            volume["image"]["pullPolicy"] = "Always" if latest else "IfNotPresent"


def _sync_service_account_fields(spec: Object) -> None:
    """Synchronize the old and the new field of the service account; the new one takes precedence."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name and (spec.get("serviceAccountName") != name or spec.get("serviceAccount") != name):
        filled = POD_SPEC.arranged({**spec, "serviceAccountName": name, "serviceAccount": name})
        spec.clear()
        spec.update(filled)


NOTHING_ALLOWED: Final = Allowed()


class SpecRules:
    """The rules of pod specs in one dialect."""

    def __init__(self, keys: PodKeys) -> None:
        self._api_domain = keys.api_domain
        self._volumes = VolumeRules(keys.domains)

    def validate(
        self,
        errors: FieldErrors,
        spec: Object,
        field: str,
        pod: str = "",
        allowed: Allowed = NOTHING_ALLOWED,
        *,
        of_pod: bool = False,
    ) -> None:
        """Validate a spec. `pod` is the name of the pod, empty for the spec of a template."""
        volumes = self._volumes.validate(errors, spec.get("volumes", []), f"{field}.volumes", pod)
        main, init = spec["containers"] or [], spec.get("initContainers", [])
        if "resourceClaims" in spec:
            _claim_rules(errors, spec["resourceClaims"], f"{field}.resourceClaims", pod)
        claims = frozenset(one["name"] for one in spec.get("resourceClaims", ()) if one["name"])
        rules = ContainerRules(spec, volumes, self._api_domain, allowed.indivisible_huge_pages, claims)
        rules.validate_main(errors, main, f"{field}.containers")
        rules.validate_init(errors, init, main, f"{field}.initContainers")
        if "ephemeralContainers" in spec:
            ephemeral = spec["ephemeralContainers"]
            rules.validate_ephemeral(errors, ephemeral, [*main, *init], f"{field}.ephemeralContainers")
        if "resources" in spec and POD_LEVEL_RESOURCES in errors.features:
            pod_requirement_rules(errors, spec, f"{field}.resources", self._api_domain)
        if spec.get("hostNetwork") and HOST_PORTS_OF_PODS in errors.features:
            host_network_rules(errors, main, f"{field}.containers", of_pod=of_pod)
        _policy_rules(errors, spec, field)
        if spec.get("hostNetwork") and HOST_PORTS_OF_PODS not in errors.features:
            host_network_rules(errors, main, f"{field}.containers", of_pod=of_pod)
        pod_context_rules(errors, spec, f"{field}.securityContext")
        _placement_rules(errors, spec, field, allowed)
        host_process_rules(errors, spec, field)
        _user_namespace_rules(errors, spec, field)
        if "hostnameOverride" in spec:
            _hostname_rules(errors, spec, f"{field}.hostnameOverride")
        _name_rules(errors, spec, field)
        _list_rules(errors, spec, field)
        self._class_rules(errors, spec, field, allowed)
        _os_rules(errors, spec, field)
        if "schedulingGroup" in spec:
            _scheduling_group_rules(errors, spec["schedulingGroup"], f"{field}.schedulingGroup.podGroupName")
        file_volume_rules(errors, spec, containers_of(spec, field))

    def _class_rules(self, errors: FieldErrors, spec: Object, field: str, allowed: Allowed) -> None:
        for part in ("priorityClassName", "runtimeClassName"):
            name = spec.get(part)
            if name is not None:
                errors.add_each(f"{field}.{part}", name, dns_subdomain(name))
        policy = spec.get("preemptionPolicy")
        if policy is not None and policy not in PREEMPTION_POLICIES:
            _unsupported_or_missing(errors, policy, PREEMPTION_POLICIES, f"{field}.preemptionPolicy")
        if "overhead" in spec:
            limits = {"limits": spec["overhead"]}
            requirement_rules(
                errors,
                limits,
                f"{field}.overhead",
                self._api_domain,
                indivisible_huge_pages=allowed.indivisible_huge_pages,
            )


def _policy_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    policy = spec.get("restartPolicy", "")
    if policy not in RESTART_POLICIES:
        _unsupported_or_missing(errors, policy, RESTART_POLICIES, f"{field}.restartPolicy")
    dns_policy_rules(errors, spec.get("dnsPolicy", ""), f"{field}.dnsPolicy")
    if "nodeSelector" in spec:
        label_rules(errors, spec["nodeSelector"], f"{field}.nodeSelector")


def _placement_rules(errors: FieldErrors, spec: Object, field: str, allowed: Allowed) -> None:
    if "affinity" in spec:
        affinity_rules(errors, spec["affinity"], f"{field}.affinity")
    dns_config_rules(
        errors,
        spec.get("dnsConfig"),
        spec.get("dnsPolicy", ""),
        f"{field}.dnsConfig",
        expanded=allowed.expanded_dns,
    )
    if "readinessGates" in spec:
        readiness_gate_rules(errors, spec["readinessGates"], f"{field}.readinessGates")
    if "schedulingGates" in spec:
        scheduling_gate_rules(errors, spec["schedulingGates"], f"{field}.schedulingGates")
    if "topologySpreadConstraints" in spec:
        here = f"{field}.topologySpreadConstraints"
        spread_rules(errors, spec["topologySpreadConstraints"], here)


def _user_namespace_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    """A user namespace (hostUsers false) excludes most volume types and all host namespaces."""
    if spec.get("hostUsers") is not False:
        return
    volumes = () if ANY_VOLUME_IN_NAMESPACES in errors.features else spec.get("volumes", ())
    for index, volume in enumerate(volumes):
        if _USER_NAMESPACE_VOLUMES.isdisjoint(volume):
            errors.add(
                forbidden(
                    f"{field}.volumes[{index}]",
                    "volume type not supported when `pod.Spec.HostUsers` is false",
                )
            )
    for part, name in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if part in spec and not (part == "hostNetwork" and USER_NAMESPACES_HOST_NETWORK in errors.features):
            errors.add(forbidden(f"{field}.{name}", NOT_IN_USER_NAMESPACE))
    if HOST_USERS_IN_TEXTS in errors.features:
        for container, here in containers_of(spec, field):
            if "volumeDevices" in container:
                errors.add(forbidden(f"{here}.volumeDevices", NOT_IN_USER_NAMESPACE))


def _claim_rules(errors: FieldErrors, claims: list[Object], field: str, pod: str) -> None:
    """Validate the resource claims of a pod, whose sources were in a struct of their own until 1.30."""
    inline, names = CLAIMS_INLINE in errors.features, set[str]()
    for index, claim in enumerate(claims):
        name, here = claim["name"], f"{field}[{index}]"
        source = claim if inline else claim["source"]
        if not name:
            errors.add(required(f"{here}.name"))
        elif name in names:
            errors.add(duplicate(f"{here}.name", name))
        else:
            wrong = dns_label(name)
            errors.add_each(f"{here}.name", name, wrong)
            if not inline and not wrong and pod and "resourceClaimTemplateName" in source:
                final = f"{pod}-{name}"
                texts = (f"final ResourceClaim name: {text}" for text in dns_subdomain(final))
                errors.add_each(f"{here}.name", final, texts)
            names.add(name)
        _claim_source_rules(errors, source, here if inline else f"{here}.source", inline=inline)


def _claim_source_rules(errors: FieldErrors, source: Object, field: str, *, inline: bool) -> None:
    given = [part for part in ("resourceClaimName", "resourceClaimTemplateName") if part in source]
    shown = {"Name": source["name"]} if inline else {}
    shown["ResourceClaimName"] = source.get("resourceClaimName")
    shown["ResourceClaimTemplateName"] = source.get("resourceClaimTemplateName")
    if len(given) > 1:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        errors.add(invalid(field, shown, text))
    if not given:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        errors.add(invalid(field, shown, text))
    for part in given:
        errors.add_each(f"{field}.{part}", source[part], dns_subdomain(source[part]))


def _hostname_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    name = spec["hostnameOverride"]
    for part in ("setHostnameAsFQDN", "hostNetwork"):
        if spec.get(part):
            errors.add(forbidden(field, f"may not be specified when {part} is true"))
    if size(name) > LONGEST_HOSTNAME:
        errors.add(too_long(field, LONGEST_HOSTNAME))
    errors.add_each(field, name, dns_subdomain(name))


def _scheduling_group_rules(errors: FieldErrors, group: Object, field: str) -> None:
    name = group.get("podGroupName")
    if name is None:
        errors.add(invalid(field, None, "must specify one of: `podGroupName`"))
    else:
        errors.add_each(field, name, dns_subdomain(name))


def _name_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    for part in ("serviceAccountName", "nodeName"):
        if part in spec:
            errors.add_each(f"{field}.{part}", spec[part], dns_subdomain(spec[part]))
    deadline = spec.get("activeDeadlineSeconds", 1)
    if not 1 <= deadline <= LONGEST_DEADLINE:
        errors.add(invalid(f"{field}.activeDeadlineSeconds", deadline, between(1, LONGEST_DEADLINE)))
    for part in ("hostname", "subdomain"):
        if part in spec:
            errors.add_each(f"{field}.{part}", spec[part], dns_label(spec[part]))


def _list_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    if "tolerations" in spec:
        toleration_rules(errors, spec["tolerations"], f"{field}.tolerations")
    if "hostAliases" in spec:
        host_alias_rules(errors, spec["hostAliases"], f"{field}.hostAliases")


def _os_rules(errors: FieldErrors, spec: Object, field: str) -> None:
    if "os" not in spec:
        return
    name = spec["os"]["name"]
    if not name:
        text = "" if OS_NAME_REQUIRED in errors.features else "cannot be empty"
        errors.add(required(f"{field}.os.name", text))
        return
    if name not in OPERATING_SYSTEMS:
        errors.add(not_supported(f"{field}.os", name, OPERATING_SYSTEMS))
    elif name == "linux":
        linux_rules(errors, spec, field)
    else:
        windows_rules(errors, spec, field)


def _unsupported_or_missing(errors: FieldErrors, value: str, supported: tuple[str, ...], field: str) -> None:
    errors.add(not_supported(field, value, supported) if value else required(field))


def allowed_by(spec: Object, old: Object) -> Allowed:
    """Return the values of the old spec that would be invalid in a new one."""
    before, after = old.get("dnsConfig", {}), spec.get("dnsConfig", {})
    expanded = is_expanded(before) and before.get("searches") == after.get("searches")
    return Allowed(indivisible_huge_pages=_has_indivisible_huge_pages(old), expanded_dns=expanded)


def used_features(spec: Object, old: Object) -> Iterator[str]:
    """Yield gates that validation treats as on, because the old spec already uses what they enable."""
    yield from _used_by_containers(old)
    names = {one["name"] for container, _ in containers_of(old, "") for one in container.get("env", ())}
    if any(variable_name(name) and not relaxed_variable_name(name) for name in names):
        kept = {one["name"] for container, _ in containers_of(spec, "") for one in container.get("env", ())}
        if any(variable_name(name) and not relaxed_variable_name(name) for name in names & kept):
            yield RELAXED_VARIABLES
    if any(domain == "." or "_" in domain for domain in old.get("dnsConfig", {}).get("searches", ())):
        yield RELAXED_SEARCHES
    if any(one.get("operator") in COMPARISON_OPERATORS for one in old.get("tolerations", ())):
        yield TOLERATION_COMPARISONS
    if "seLinuxChangePolicy" in old.get("securityContext", ()):
        yield SE_LINUX_MOUNT_ALL
    if old.get("hostUsers") is False and old.get("hostNetwork"):
        yield USER_NAMESPACES_HOST_NETWORK


def _used_by_containers(old: Object) -> Iterator[str]:
    for part in ("containers", "initContainers"):
        for container in old.get(part) or ():
            policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
            if rules or (policy is not None and (part == "containers" or policy != "Always")):
                yield RESTART_RULES
            if any(rule.get("action") == "RestartAllContainers" for rule in rules):
                yield RESTART_ALL
            if "resizePolicy" in container and part == "initContainers":
                yield RESIZE
            for handler in ("preStop", "postStart"):
                if container.get("lifecycle", {}).get(handler, {}).get("sleep", {}).get("seconds") == 0:
                    yield SLEEP_ZERO


def _has_indivisible_huge_pages(spec: Object) -> bool:
    lists = [spec.get("overhead", {})]
    for container, _ in containers_of(spec, ""):
        lists += [container["resources"].get(part, {}) for part in ("limits", "requests")]
    return any(
        name.startswith(HUGE_PAGES) and not is_multiple_of_page_size(name, amount)
        for amounts in lists
        for name, amount in amounts.items()
    )
