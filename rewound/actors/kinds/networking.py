"""The networking group: Ingress and IngressClass for HTTP from outside, NetworkPolicy for traffic of pods, ServiceCIDR
and IPAddress for cluster IPs.

Ingress routes HTTP requests from outside the cluster to Services or other resources (IngressBackend), by host and
path. Two of its rules are newer than the kind: an update of an ingress that already violates one of them may keep
violating it. IngressClass names the controller that implements Ingresses of the class, and its parameters.

NetworkPolicy says which ingress and egress traffic the selected pods allow. Its status belongs to the feature
NetworkPolicyStatus. While that is disabled, a create stores the status that the client sent, an update keeps the
stored one, and the `status` subresource can only clear it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from functools import partial
from typing import Final, cast

import msgspec

from rewound.actors.golang.format import Formatted
from rewound.actors.golang.quoting import quoted_list
from rewound.actors.kinds.core.service import (
    LOAD_BALANCER_STATUS,
    load_balancer_addresses,
    load_balancer_rules,
    load_balancer_warnings,
)
from rewound.actors.kinds.core.volumes import TYPED_LOCAL_OBJECT_REFERENCE
from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from rewound.actors.kinds.declaration.definition import (
    Conversion,
    Definition,
    DiscoveryNames,
    Storage,
    Strategy,
    Subresource,
    Table,
    bump_generation,
    clear_status,
    keep_spec,
    keep_status,
    keep_status_and_bump_generation,
    reset_status_and_generation,
    status_subresource,
)
from rewound.actors.kinds.declaration.meta import (
    CONDITION,
    LABEL_SELECTOR,
    METADATA,
    condition_rules,
    label_selector_rules,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.declaration.workloads import selector_or_none
from rewound.actors.kinds.schema.fields import (
    INT32,
    INT_OR_STRING,
    STRING,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Before,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    IMMUTABLE,
    FieldErrors,
    Network,
    canonical_cidr,
    canonical_ip,
    cidr_rules,
    cidr_warnings,
    collect,
    dns_1035_label,
    dns_label,
    dns_subdomain,
    domain_prefixed_path,
    forbidden,
    invalid,
    name_is_path_segment,
    name_is_subdomain,
    not_supported,
    parse_ip,
    parse_network,
    port_name,
    port_number,
    required,
    size,
    too_long,
    unchanged,
    wildcard_subdomain,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import (
    ADDRESSES_AND_NETWORKS,
    BARE_REFERENCES_REQUIRED,
    CIDR_STATUS_WIPING,
    FQDN_DEPRECATED,
    NETWORK_EXAMPLES,
    NETWORKING_IN_TEXTS,
    POLICIES_CHECKED_ONCE,
    POLICY_STATUS,
    RELAXED_SERVICE_NAMES,
)

BACKEND_SERVICE_PORT = Struct(
    "networking.v1.ServiceBackendPort",
    Field("name", STRING, 1),
    Field("number", INT32, 2),
    atomic=True,
    atomic_since="1.31",
)
BACKEND_SERVICE = Struct(
    "networking.v1.IngressServiceBackend",
    Field("name", STRING, 1, required=True, always=True),
    Field("port", BACKEND_SERVICE_PORT, 2),
)
BACKEND = Struct(
    "networking.v1.IngressBackend",
    Field("service", BACKEND_SERVICE, 4, pointer=True),
    Field("resource", TYPED_LOCAL_OBJECT_REFERENCE, 3, pointer=True),
)


def backend_rules(errors: FieldErrors, backend: Object, field: str) -> None:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        errors.add(invalid(field, "", "cannot set both resource and service backends"))
        return
    if resource is not None:
        typed_reference_rules(errors, resource, f"{field}.resource")
        return
    if service is not None:
        _backend_service_rules(errors, service, field)
    else:
        errors.add(invalid(field, "", "resource or service backend is required"))


def typed_reference_rules(errors: FieldErrors, reference: Object, field: str) -> None:
    """Validate a reference to an object of any kind; its kind and name must be path segments."""
    group = reference.get("apiGroup")
    if group is not None:
        errors.add_each(f"{field}.apiGroup", group, dns_subdomain(group))
    for part in ("kind", "name"):
        value = reference[part]
        if not value:
            bare = BARE_REFERENCES_REQUIRED in errors.features
            errors.add(required(f"{field}.{part}", "" if bare else f"{part} is required"))
        errors.add_each(f"{field}.{part}", value, name_is_path_segment(value, False))


def _backend_service_rules(errors: FieldErrors, service: Object, field: str) -> None:
    _service_name_rules(errors, service["name"], f"{field}.service.name")
    _service_port_rules(errors, service["port"], field)


def _service_name_rules(errors: FieldErrors, name: str, field: str) -> None:
    if name:
        check = dns_label if RELAXED_SERVICE_NAMES in errors.features else dns_1035_label
        errors.add_each(field, name, check(name))
    else:
        errors.add(required(field))


def _service_port_rules(errors: FieldErrors, port: Object, field: str) -> None:
    if "name" in port and "number" in port:
        errors.add(invalid(field, "", "cannot set both port name & port number"))
        return
    if "name" in port:
        errors.add_each(f"{field}.service.port.name", port["name"], port_name(port["name"]))
        return
    if "number" in port:
        wrong = port_number(port["number"])
        errors.add_each(f"{field}.service.port.number", port["number"], wrong)
        return
    errors.add(required(field, "port name or number is required"))


MAX_HOSTS: Final = 3


def _hosts_cell(stored: Object, _: int) -> str:
    rules = stored["spec"].get("rules", [])
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    named = hosts[:MAX_HOSTS]
    rest = len(rules) - MAX_HOSTS
    more = f" + {rest} more..." if len(named) == MAX_HOSTS and _has_more_rules(rules) else ""
    return ",".join(named) + more if named else "*"


def _has_more_rules(rules: list[Object]) -> bool:
    """Whether there are rules after the last host in the cell."""
    shown = 0
    for rule in rules:
        if shown == MAX_HOSTS:
            return True
        shown += bool(rule.get("host"))
    return False


def _parameters_cell(stored: Object, _: int) -> str:
    parameters = stored["spec"].get("parameters")
    if parameters is None:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
    return f"{parameters['kind']}{group}/{parameters['name']}"


INGRESS_COLUMNS: Final = (
    NAME,
    Column("Class", "string", "Name of its IngressClass.", at("spec", "ingressClassName", missing=NONE)),
    Column("Hosts", "string", "Hosts of its rules.", _hosts_cell),
    Column(
        "Address",
        "string",
        "Addresses of its load balancer.",
        lambda stored, _: ",".join(load_balancer_addresses(stored["status"]["loadBalancer"])),
    ),
    Column(
        "Ports",
        "string",
        "Ports that it serves: 80, and 443 with TLS.",
        lambda stored, _: "80, 443" if stored["spec"].get("tls") else "80",
    ),
    AGE,
)
INGRESS_CLASS_COLUMNS: Final = (
    NAME,
    Column("Controller", "string", "Controller of its Ingresses.", at("spec", "controller")),
    Column("Parameters", "string", "Object with parameters of the controller.", _parameters_cell),
    AGE,
)
NETWORK_POLICY_COLUMNS: Final = (
    NAME,
    Column(
        "Pod-Selector",
        "string",
        "Pods that the policy selects.",
        lambda stored, _: selector_or_none(stored["spec"]["podSelector"]),
    ),
    AGE,
)


PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
FORBIDDEN_IN_PATHS: Final = ("//", "/./", "/../", "%2f", "%2F")
FORBIDDEN_PATH_ENDINGS: Final = ("/..", "/.")

INGRESS_PATH = Struct(
    "networking.v1.HTTPIngressPath",
    Field("path", STRING, 1),
    Field("pathType", STRING, 3, required=True, pointer=True, always=True),
    Field("backend", BACKEND, 2, required=True),
)
INGRESS_HTTP = Struct(
    "networking.v1.HTTPIngressRuleValue",
    Field("paths", ListOf(INGRESS_PATH), 1, required=True, always=True, list_type="atomic"),
)
INGRESS_RULE = Struct(
    "networking.v1.IngressRule",
    Field("host", STRING, 1),
    Field("http", INGRESS_HTTP, 1, embedded=2, pointer=True, bare=True),
)
INGRESS_TLS = Struct(
    "networking.v1.IngressTLS",
    Field("hosts", STRINGS, 1, list_type="atomic"),
    Field("secretName", STRING, 2),
)
INGRESS_SPEC = Struct(
    "networking.v1.IngressSpec",
    Field("ingressClassName", STRING, 4, pointer=True),
    Field("defaultBackend", BACKEND, 1, pointer=True),
    Field("tls", ListOf(INGRESS_TLS), 2, list_type="atomic"),
    Field("rules", ListOf(INGRESS_RULE), 3, list_type="atomic"),
)
INGRESS_PORT_STATUS = Struct(
    "networking.v1.IngressPortStatus",
    Field("port", INT32, 1, required=True, always=True),
    Field("protocol", STRING, 2, required=True, always=True),
    Field("error", STRING, 3, pointer=True),
)
INGRESS_LOAD_BALANCER_INGRESS = Struct(
    "networking.v1.IngressLoadBalancerIngress",
    Field("ip", STRING, 1),
    Field("hostname", STRING, 2),
    Field("ports", ListOf(INGRESS_PORT_STATUS), 4, list_type="atomic"),
)
INGRESS_LOAD_BALANCER_STATUS = Struct(
    "networking.v1.IngressLoadBalancerStatus",
    Field(
        "ingress",
        ListOf(INGRESS_LOAD_BALANCER_INGRESS),
        1,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)
INGRESS_STATUS = Struct(
    "networking.v1.IngressStatus",
    Field(
        "loadBalancer",
        INGRESS_LOAD_BALANCER_STATUS,
        1,
        before=(Before("1.26", type=LOAD_BALANCER_STATUS),),
    ),
)
INGRESS = Struct(
    "networking.v1.Ingress", METADATA, Field("spec", INGRESS_SPEC, 2), Field("status", INGRESS_STATUS, 3)
)


def define_ingress(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    return Definition(
        group=names.group("networking"),
        version="v1",
        kind="Ingress",
        plural="ingresses",
        names=DiscoveryNames(short_names=("ing",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=INGRESS,
        subresources=(
            Subresource(
                name="status",
                prepare=keep_spec,
                validate=ingress_status_rules,
                warnings=partial(load_balancer_warnings, features),
            ),
        ),
        storage=Storage(error_group="" if NETWORKING_IN_TEXTS in features else "extensions"),
        table=Table(INGRESS_COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(reset_status_and_generation, INGRESS_STATUS),
            prepare_for_update=keep_status_and_bump_generation,
            validate_create=partial(ingress_rules, class_key=names.key("ingress.class")),
            validate_update=ingress_update_rules,
            warnings=partial(ingress_warnings, names.key("ingress.class"))
            if FQDN_DEPRECATED in features
            else None,
        ),
    )


def ingress_rules(errors: FieldErrors, new: Object, *, class_key: str) -> None:
    _spec_rules(errors, new["spec"])
    annotations = new["metadata"].get("annotations", {})
    if class_key in annotations and "ingressClassName" in new["spec"]:
        text = "can not be set when the class field is also set"
        if FQDN_DEPRECATED in errors.features:
            text = "must match `ingressClassName` when both are specified"
            if annotations[class_key] == new["spec"]["ingressClassName"]:
                return
        errors.add(invalid(f"annotations.{class_key}", annotations[class_key], text))


def ingress_warnings(class_key: str, new: Object, old: Object | None) -> list[str]:
    annotated = class_key in new["metadata"].get("annotations", {})
    if old is None and annotated and "ingressClassName" not in new["spec"]:
        return [f"annotation \"{class_key}\" is deprecated, please use 'spec.ingressClassName' instead"]
    return []


def ingress_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    _spec_rules(
        errors,
        new["spec"],
        allow_invalid_secrets=_has_invalid_secret_names(old["spec"]),
        allow_invalid_wildcards=_has_invalid_wildcard_rules(old["spec"]),
    )


def ingress_status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    status, before = new["status"]["loadBalancer"], old["status"]["loadBalancer"]
    load_balancer_rules(errors, status, before, "status.loadBalancer")


def _spec_rules(
    errors: FieldErrors,
    spec: Object,
    *,
    allow_invalid_secrets: bool = False,
    allow_invalid_wildcards: bool = False,
) -> None:
    if "rules" not in spec and "defaultBackend" not in spec:
        text = "either `defaultBackend` or `rules` must be specified"
        errors.add(invalid("spec", Formatted("[]networking.IngressRule(nil)", None), text))
    if "defaultBackend" in spec:
        backend_rules(errors, spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules", ())):
        _ingress_rule_rules(
            errors, rule, f"spec.rules[{index}]", allow_invalid_wildcards=allow_invalid_wildcards
        )
    for index, tls in enumerate(spec.get("tls", ())):
        _tls_rules(errors, tls, f"spec.tls[{index}]", allow_invalid_secrets=allow_invalid_secrets)
    if "ingressClassName" in spec:
        name = spec["ingressClassName"]
        errors.add_each("spec.ingressClassName", name, dns_subdomain(name))


def _ingress_rule_rules(
    errors: FieldErrors, rule: Object, field: str, *, allow_invalid_wildcards: bool
) -> None:
    host = rule.get("host", "")
    if host:
        if parse_ip(host) is not None:
            errors.add(invalid(f"{field}.host", host, "must be a DNS name, not an IP address"))
        errors.add_each(f"{field}.host", host, _host_rules(host))
    if "http" in rule and not ("*" in host and allow_invalid_wildcards):
        _http_paths_rules(errors, rule["http"]["paths"], f"{field}.http.paths")


def _host_rules(host: str) -> list[str]:
    return wildcard_subdomain(host) if "*" in host else dns_subdomain(host)


def _http_paths_rules(errors: FieldErrors, paths: list[Object] | None, field: str) -> None:
    if not paths:
        errors.add(required(field))
    else:
        for index, path in enumerate(paths):
            _http_path_rules(errors, path, f"{field}[{index}]")


def _http_path_rules(errors: FieldErrors, path: Object, field: str) -> None:
    kind, text = path["pathType"], path.get("path", "")
    if kind is None:
        errors.add(required(f"{field}.pathType", "pathType must be specified"))
        return
    if kind not in PATH_TYPES:
        errors.add(not_supported(f"{field}.pathType", kind, PATH_TYPES))
    elif kind == "ImplementationSpecific":
        errors.add_each(f"{field}.path", text, _absolute_path_rules(text) if text else ())
    else:
        errors.add_each(f"{field}.path", text, [*_absolute_path_rules(text), *_normalized_path_rules(text)])
    backend_rules(errors, path["backend"], f"{field}.backend")


def _absolute_path_rules(path: str) -> list[str]:
    return [] if path.startswith("/") else ["must be an absolute path"]


def _normalized_path_rules(path: str) -> list[str]:
    """The path has no parts that proxies normalize in different ways."""
    return [f"must not contain '{part}'" for part in FORBIDDEN_IN_PATHS if part in path] + [
        f"cannot end with '{end}'" for end in FORBIDDEN_PATH_ENDINGS if path.endswith(end)
    ]


def _tls_rules(errors: FieldErrors, tls: Object, field: str, *, allow_invalid_secrets: bool) -> None:
    for index, host in enumerate(tls.get("hosts", ())):
        errors.add_each(f"{field}.hosts[{index}]", host, _host_rules(host))
    secret = tls.get("secretName", "")
    if secret and not allow_invalid_secrets:
        errors.add_each(f"{field}.secretName", secret, dns_subdomain(secret))


def _has_invalid_secret_names(spec: Object) -> bool:
    return any("secretName" in tls and dns_subdomain(tls["secretName"]) for tls in spec.get("tls", ()))


def _has_invalid_wildcard_rules(spec: Object) -> bool:
    return any(
        "*" in rule.get("host", "")
        and "http" in rule
        and collect(_http_paths_rules, rule["http"]["paths"], "")
        for rule in spec.get("rules", ())
    )


LONGEST_CONTROLLER: Final = 250
INGRESS_CLASS_SCOPES: Final = ("Cluster", "Namespace")

INGRESS_CLASS_PARAMETERS = Struct(
    "networking.v1.IngressClassParametersReference",
    Field("apiGroup", STRING, 1, pointer=True),
    Field("kind", STRING, 2, required=True, always=True),
    Field("name", STRING, 3, required=True, always=True),
    Field("scope", STRING, 4, pointer=True, always=True, default="Cluster"),
    Field("namespace", STRING, 5, pointer=True),
)
INGRESS_CLASS_SPEC = Struct(
    "networking.v1.IngressClassSpec",
    Field("controller", STRING, 1),
    Field("parameters", INGRESS_CLASS_PARAMETERS, 2, pointer=True),
)
INGRESS_CLASS = Struct("networking.v1.IngressClass", METADATA, Field("spec", INGRESS_CLASS_SPEC, 2))


def define_ingress_class(names: Names) -> Definition:
    return Definition(
        group=names.group("networking"),
        version="v1",
        kind="IngressClass",
        plural="ingressclasses",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=INGRESS_CLASS,
        table=Table(INGRESS_CLASS_COLUMNS),
        strategy=Strategy(
            prepare_for_create=prepare_create_ingress_class,
            prepare_for_update=bump_generation,
            validate_create=ingress_class_rules,
            validate_update=ingress_class_update_rules,
        ),
    )


def prepare_create_ingress_class(new: Object) -> None:
    new["metadata"]["generation"] = 1


def ingress_class_rules(errors: FieldErrors, new: Object) -> None:
    controller = new["spec"].get("controller", "")
    if size(controller) > LONGEST_CONTROLLER:
        errors.add(too_long("spec.controller", LONGEST_CONTROLLER))
    domain_prefixed_path(errors, "spec.controller", controller)
    if "parameters" in new["spec"]:
        _parameters_rules(errors, new["spec"]["parameters"], "spec.parameters")


def ingress_class_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    unchanged(errors, "spec.controller", new["spec"].get("controller", ""), old["spec"].get("controller", ""))
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=name_is_subdomain)
    ingress_class_rules(errors, new)


def _parameters_rules(errors: FieldErrors, parameters: Object, field: str) -> None:
    typed_reference_rules(errors, parameters, field)
    scope, namespace = parameters["scope"], parameters.get("namespace")
    if scope not in INGRESS_CLASS_SCOPES:
        errors.add(not_supported(f"{field}.scope", scope, INGRESS_CLASS_SCOPES))
        return
    if scope == "Cluster" and namespace is not None:
        errors.add(forbidden(f"{field}.namespace", "`parameters.scope` is set to 'Cluster'"))
    elif scope == "Namespace" and namespace is None:
        errors.add(required(f"{field}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif namespace is not None:
        errors.add_each(f"{field}.namespace", namespace, dns_label(namespace))


NETWORK_POLICY_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
POLICY_TYPES: Final = ("Ingress", "Egress")

NETWORK_POLICY_PORT = Struct(
    "networking.v1.NetworkPolicyPort",
    Field("protocol", STRING, 1, pointer=True, default="TCP"),
    Field("port", INT_OR_STRING, 2, pointer=True),
    Field("endPort", INT32, 3, pointer=True),
)
IP_BLOCK = Struct(
    "networking.v1.IPBlock",
    Field("cidr", STRING, 1, required=True, always=True),
    Field("except", STRINGS, 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
NETWORK_POLICY_PEER = Struct(
    "networking.v1.NetworkPolicyPeer",
    Field("podSelector", LABEL_SELECTOR, 1, pointer=True),
    Field("namespaceSelector", LABEL_SELECTOR, 2, pointer=True),
    Field("ipBlock", IP_BLOCK, 3, pointer=True),
)
NETWORK_POLICY_INGRESS_RULE = Struct(
    "networking.v1.NetworkPolicyIngressRule",
    Field("ports", ListOf(NETWORK_POLICY_PORT), 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("from", ListOf(NETWORK_POLICY_PEER), 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
EGRESS_RULE = Struct(
    "networking.v1.NetworkPolicyEgressRule",
    Field("ports", ListOf(NETWORK_POLICY_PORT), 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("to", ListOf(NETWORK_POLICY_PEER), 2, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
NETWORK_POLICY_SPEC = Struct(
    "networking.v1.NetworkPolicySpec",
    Field("podSelector", LABEL_SELECTOR, 1, before=(Before("1.34", required=True),)),
    Field(
        "ingress",
        ListOf(NETWORK_POLICY_INGRESS_RULE),
        2,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
    Field("egress", ListOf(EGRESS_RULE), 3, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("policyTypes", STRINGS, 4, list_type="atomic", before=UNTYPED_BEFORE_1_30),
)
NETWORK_POLICY_STATUS = Struct(
    "networking.v1.NetworkPolicyStatus",
    Field(
        "conditions",
        ListOf(CONDITION),
        1,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    ),
)
NETWORK_POLICY = Struct(
    "networking.v1.NetworkPolicy",
    METADATA,
    Field("spec", NETWORK_POLICY_SPEC, 2),
    Field("status", NETWORK_POLICY_STATUS, 3, until="1.27"),
)


def define_network_policy(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    has_status = POLICY_STATUS in features
    return Definition(
        group=names.group("networking"),
        version="v1",
        kind="NetworkPolicy",
        plural="networkpolicies",
        names=DiscoveryNames(short_names=("netpol",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=NETWORK_POLICY,
        set_defaults=set_network_policy_defaults,
        subresources=(
            Subresource(
                name="status",
                prepare=keep_spec if has_status else prepare_status_clear_network_policy,
                validate=network_policy_status_rules,
                until="1.27",
            ),
        ),
        storage=Storage(error_group="" if NETWORKING_IN_TEXTS in features else "extensions"),
        table=Table(NETWORK_POLICY_COLUMNS),
        strategy=Strategy(
            prepare_for_create=partial(reset_status_and_generation, NETWORK_POLICY_STATUS)
            if has_status
            else prepare_create_network_policy,
            prepare_for_update=keep_status_and_bump_generation
            if has_status
            else prepare_update_network_policy,
            validate_create=network_policy_rules,
            validate_update=network_policy_update_rules,
            warnings=partial(network_policy_warnings, features)
            if ADDRESSES_AND_NETWORKS in features
            else None,
        ),
    )


def set_network_policy_defaults(new: Object) -> None:
    """policyTypes defaults to Ingress, and to Ingress and Egress if the policy has egress rules."""
    spec = new["spec"]
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", "Egress"] if "egress" in spec else ["Ingress"]


def prepare_create_network_policy(new: Object) -> None:
    """While the feature is disabled, a create stores the status as the client sent it."""
    new["metadata"]["generation"] = 1


def prepare_update_network_policy(new: Object, old: Object) -> None:
    if old.get("status") and "status" in new:  # later versions have none
        keep_status(new, old)
    bump_generation(new, old)


def prepare_status_clear_network_policy(new: Object, old: Object) -> None:
    keep_spec(new, old)
    if new["status"]:
        new["status"] = old["status"]


def network_policy_rules(errors: FieldErrors, new: Object, kept: Set[str] = frozenset()) -> None:
    spec = new["spec"]
    label_selector_rules(errors, spec["podSelector"], "spec.podSelector")
    _traffic_rules(errors, spec.get("ingress", []), "from", "spec.ingress", kept)
    _traffic_rules(errors, spec.get("egress", []), "to", "spec.egress", kept)
    _policy_type_rules(errors, spec.get("policyTypes", []))


def network_policy_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    if POLICIES_CHECKED_ONCE not in errors.features:
        metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
        network_policy_rules(errors, new)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    network_policy_rules(errors, new, {text for _, text in _networks_of(old["spec"])})


def network_policy_warnings(features: frozenset[str], new: Object, _: Object | None) -> list[str]:
    return [text for field, one in _networks_of(new["spec"]) for text in cidr_warnings(features, field, one)]


def _networks_of(spec: Object) -> Iterator[tuple[str, str]]:
    """All networks in the rules of a policy, with their fields."""
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction, ())):
            for number, peer in enumerate(rule.get(peers, ())):
                field, block = f"spec.{direction}[{index}].{peers}[{number}].ipBlock", peer.get("ipBlock")
                if block is not None:
                    yield f"{field}.cidr", block["cidr"]
                    for position, text in enumerate(block.get("except", ())):
                        yield f"{field}.except[{position}]", text


def network_policy_status_rules(errors: FieldErrors, new: Object, _: Object) -> None:
    condition_rules(errors, new["status"].get("conditions", ()), "status.conditions")


def _traffic_rules(errors: FieldErrors, rules: list[Object], peers: str, field: str, kept: Set[str]) -> None:
    for index, rule in enumerate(rules):
        for number, port in enumerate(rule.get("ports", ())):
            _policy_port_rules(errors, port, f"{field}[{index}].ports[{number}]")
        for number, peer in enumerate(rule.get(peers, ())):
            _peer_rules(errors, peer, f"{field}[{index}].{peers}[{number}]", kept)


def _policy_port_rules(errors: FieldErrors, port: Object, field: str) -> None:
    if port["protocol"] not in NETWORK_POLICY_PROTOCOLS:
        errors.add(not_supported(f"{field}.protocol", port["protocol"], NETWORK_POLICY_PROTOCOLS))
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, int):
        _policy_port_range_rules(errors, first, last, field)
        return
    if last is not None:
        why = "not specified" if first is None else "non-numeric"
        errors.add(invalid(f"{field}.endPort", last, f"may not be specified when `port` is {why}"))
    if first is not None:
        errors.add_each(f"{field}.port", first, port_name(first))


def _policy_port_range_rules(errors: FieldErrors, first: int, last: int | None, field: str) -> None:
    errors.add_each(f"{field}.port", first, port_number(first))
    if last is None:
        return
    if last < first:
        errors.add(invalid(f"{field}.endPort", first, "must be greater than or equal to `port`"))
    errors.add_each(f"{field}.endPort", last, port_number(last))


def _peer_rules(errors: FieldErrors, peer: Object, field: str, kept: Set[str]) -> None:
    label_selector_rules(errors, peer.get("podSelector"), f"{field}.podSelector")
    label_selector_rules(errors, peer.get("namespaceSelector"), f"{field}.namespaceSelector")
    if "ipBlock" in peer:
        _ip_block_rules(errors, peer["ipBlock"], f"{field}.ipBlock", kept)
    if not peer:
        errors.add(required(field, "must specify a peer"))
    elif len(peer) > 1 and "ipBlock" in peer:
        errors.add(forbidden(field, "may not specify both ipBlock and another peer"))


def _ip_block_rules(errors: FieldErrors, block: Object, field: str, kept: Set[str]) -> None:
    if not block["cidr"]:
        errors.add(required(f"{field}.cidr"))
        return
    cidr_rules(errors, f"{field}.cidr", block["cidr"], kept)
    whole = parse_network(block["cidr"])
    if whole is None:
        return
    for index, text in enumerate(block.get("except", ())):
        part, here = parse_network(text), f"{field}.except[{index}]"
        cidr_rules(errors, here, text, kept)
        if part is None and NETWORK_EXAMPLES not in errors.features:
            return
        if part is not None and not _is_strict_subset(part, whole):
            errors.add(invalid(here, text, "must be a strict subset of `cidr`"))


def _is_strict_subset(part: Network, whole: Network) -> bool:
    return (
        part.version == whole.version and part.network_address in whole and part.prefixlen > whole.prefixlen
    )


def _policy_type_rules(errors: FieldErrors, types: list[str]) -> None:
    field = "spec.policyTypes"
    if len(types) > len(POLICY_TYPES):
        listed = Formatted(f"[]networking.PolicyType{{{quoted_list(types)}}}", types)
        errors.add(invalid(field, listed, "may not specify more than two policyTypes"))
        return
    for index, one in enumerate(types):
        if one not in POLICY_TYPES:
            errors.add(not_supported(f"{field}[{index}]", one, POLICY_TYPES))


MOST_CIDRS: Final = 2
ONE_PER_FAMILY: Final = (
    "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
)


def _address_struct(version: str) -> Struct:
    prefix = f"networking.{version}"
    parent = Struct(
        f"{prefix}.ParentReference",
        Field("group", STRING, 1),
        Field("resource", STRING, 2, required=True),
        Field("namespace", STRING, 3),
        Field("name", STRING, 4, required=True),
        *((Field("uid", STRING, 5, until="1.28"),) if version == "v1alpha1" else ()),
    )
    spec = Struct(f"{prefix}.IPAddressSpec", Field("parentRef", parent, 1, pointer=True, required=True))
    return Struct(f"{prefix}.IPAddress", METADATA, Field("spec", spec, 2))


PARENT: Final = cast(
    Struct, cast(Struct, _address_struct("v1").by_name["spec"].type).by_name["parentRef"].type
)


def _cidr_struct(version: str) -> Struct:
    prefix = f"networking.{version}"
    conditions = Field(
        "conditions",
        ListOf(CONDITION),
        1,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    )
    return Struct(
        f"{prefix}.ServiceCIDR",
        METADATA,
        Field(
            "spec",
            Struct(
                f"{prefix}.ServiceCIDRSpec",
                Field("cidrs", STRINGS, 1, list_type="atomic", before=UNTYPED_BEFORE_1_30),
            ),
            2,
        ),
        Field("status", Struct(f"{prefix}.ServiceCIDRStatus", conditions), 3),
    )


def _parent_cell(stored: Object, _: int) -> str:
    parent = stored["spec"].get("parentRef")
    if parent is None:
        return NONE
    resource = ".".join(filter(None, (parent.get("resource", ""), parent.get("group", ""))))
    return "/".join(filter(None, (resource.lower(), parent.get("namespace", ""), parent.get("name", ""))))


def define_addresses(names: Names) -> tuple[Definition, ...]:
    """IPAddress, a cluster IP that an object of the cluster has; its name is the address. v1 is stored."""
    stored = Definition(
        group=names.group("networking"),
        version="v1",
        kind="IPAddress",
        plural="ipaddresses",
        names=DiscoveryNames(short_names=("ip",)),
        namespaced=False,
        check_name=_address_name,
        fields=_address_struct("v1"),
        since="1.33",
        table=Table((NAME, Column("ParentRef", "string", "Object that has the address.", _parent_cell), AGE)),
        strategy=Strategy(validate_create=address_rules, validate_update=address_update_rules),
    )
    return stored, *_other_versions(stored, _address_struct, "1.27")


def define_service_cidrs(names: Names, features: frozenset[str]) -> tuple[Definition, ...]:
    """ServiceCIDR, ranges from which Services get cluster IPs. v1 is stored."""
    status = _cidr_struct("v1").by_name["status"].type
    assert isinstance(status, Struct)
    strategy = Strategy(
        reset_fields=(), validate_create=service_cidr_rules, validate_update=service_cidr_update_rules
    )
    if CIDR_STATUS_WIPING in features:
        strategy = msgspec.structs.replace(
            strategy,
            reset_fields=("status",),
            prepare_for_create=partial(clear_status, status),
            prepare_for_update=keep_status,
        )
    stored = Definition(
        group=names.group("networking"),
        version="v1",
        kind="ServiceCIDR",
        plural="servicecidrs",
        namespaced=False,
        check_name=name_is_subdomain,
        fields=_cidr_struct("v1"),
        since="1.33",
        subresources=(status_subresource(_cidr_status_rules),),
        table=Table(
            (
                NAME,
                Column(
                    "CIDRs",
                    "string",
                    "Ranges of the addresses.",
                    lambda stored, _: ",".join(stored["spec"].get("cidrs", ())),
                ),
                AGE,
            )
        ),
        strategy=strategy,
    )
    return stored, *_other_versions(stored, _cidr_struct, "1.29")


def _other_versions(
    stored: Definition, struct_of: Callable[[str], Struct], alpha_since: str
) -> tuple[Definition, ...]:
    same = Conversion(to_storage=dict, from_storage=dict)
    view = replace(
        stored,
        storage=Storage(stored_as=stored.type_name, conversion=same),
        on_by_default=False,
    )
    return (
        replace(
            view,
            version="v1beta1",
            fields=struct_of("v1beta1"),
            since="1.31",
        ),
        replace(
            view,
            version="v1alpha1",
            fields=struct_of("v1alpha1"),
            since=alpha_since,
            until="1.30",
            deprecated="1.30",
        ),
    )


def _address_name(name: str, _: bool) -> list[str]:
    return canonical_ip(name)


def address_rules(errors: FieldErrors, new: Object) -> None:
    parent, field = new["spec"].get("parentRef"), "spec.parentRef"
    if parent is None:
        errors.add(required(field))
        return
    group = parent.get("group", "")
    errors.add_each(f"{field}.group", group, dns_subdomain(group) if group else [])
    for part in ("resource", "name", "namespace"):
        value = parent.get(part, "")
        if value:
            errors.add_each(f"{field}.{part}", value, name_is_path_segment(value, False))
        elif part != "namespace":
            errors.add(required(f"{field}.{part}"))


def address_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_rules(errors, new["metadata"], namespaced=False, check_name=_address_name)
    address_rules(errors, new)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    parent, before = new["spec"].get("parentRef"), old["spec"].get("parentRef")
    if parent != before:
        errors.add(invalid("spec.parentRef", shown(PARENT, parent), IMMUTABLE))


def service_cidr_rules(errors: FieldErrors, new: Object) -> None:
    cidrs, field = new["spec"].get("cidrs", []), "spec.cidrs"
    if not cidrs:
        errors.add(required(field, "at least one CIDR required"))
        return
    if len(cidrs) > MOST_CIDRS:
        errors.add(invalid(field, new["spec"], "may only hold up to 2 values"))
        return
    for index, one in enumerate(cidrs):
        errors.add_each(f"{field}[{index}]", one, canonical_cidr(one))
    families = [network.version for network in map(parse_network, cidrs) if network is not None]
    if len(families) == MOST_CIDRS and families[0] == families[1]:
        errors.add(invalid(field, cidrs, ONE_PER_FAMILY))


def service_cidr_update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    cidrs, before = new["spec"].get("cidrs", []), old["spec"].get("cidrs", [])
    field = "spec.cidrs"
    becomes_dual_stack = len(before) == 1 and len(cidrs) == MOST_CIDRS
    if len(cidrs) != len(before) and not becomes_dual_stack:
        none = Formatted("[]string(nil)", None)
        errors.add(invalid(field, cidrs or none, IMMUTABLE))
        return
    for index, (one, was) in enumerate(zip(cidrs, before, strict=False)):
        if one != was:
            errors.add(invalid(f"{field}[{index}]", one, IMMUTABLE))
    if becomes_dual_stack:
        service_cidr_rules(errors, new)


def _cidr_status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])


def declare(names: Names, features: frozenset[str] = frozenset()) -> tuple[Definition, ...]:
    return (
        define_ingress_class(names),
        define_ingress(names, features),
        define_network_policy(names, features),
        *define_addresses(names),
        *define_service_cidrs(names, features),
    )
