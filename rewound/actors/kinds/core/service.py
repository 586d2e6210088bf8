"""Service: a name and an address for a set of pods, inside the cluster or beyond it.

Many fields belong to only some of the four types. An update that changes the type drops the fields that the new type
does not use, unless the client changed them too and must get an error. Admission allocates addresses and node ports
before any of this runs (`actors/allocation/services.py`).

A service has one or two cluster IPs, of one or two families, in a single field and in a list: `address_rules`
validates what a client sent, before anything is allocated; `address_update_rules` validates a change of what was
allocated. The addresses of a load balancer (`LOAD_BALANCER_STATUS`) are in the status of services and of ingresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from rewound.actors.golang.format import Repeated
from rewound.actors.kinds.core.connect_options import connecting
from rewound.actors.kinds.declaration.columns import AGE, NAME, NONE, UNKNOWN, Column, at
from rewound.actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Selection,
    Strategy,
    Subresource,
    Table,
    clear_status,
    keep_spec,
    keep_status,
)
from rewound.actors.kinds.declaration.meta import (
    CONDITION,
    METADATA,
    label_rules,
    metadata_rules,
    metadata_update_rules,
)
from rewound.actors.kinds.declaration.workloads import labels_or_none
from rewound.actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT_OR_STRING,
    STRING,
    STRING_MAP,
    STRINGS,
    UNTYPED_BEFORE_1_30,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.kinds.schema.internal import shown
from rewound.actors.kinds.validation import (
    CheckName,
    FieldErrors,
    cidr_rules,
    cidr_warnings,
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    ip_rules,
    ip_warnings,
    name_is_1035_label,
    name_is_label,
    not_supported,
    ordinary_ip,
    parse_ip,
    parse_network,
    port_name,
    port_number,
    qualified_name,
    required,
    reworded,
)
from rewound.actors.messages import Object
from rewound.actors.names import Names
from rewound.actors.versions.features import (
    ADDRESS_EXAMPLES,
    ADDRESSES_AND_NETWORKS,
    BALANCER_MODES,
    BALANCERS_HAVE_INGRESS,
    EXTERNAL_IPS_DEPRECATED,
    EXTERNALLY_ACCESSIBLE,
    IGNORED_IN_HEADLESS,
    IGNORED_IN_SERVICES,
    KUBELET_PORT_EXPOSED,
    NETWORK_EXAMPLES,
    PREFER_CLOSE_DEPRECATED,
    RELAXED_SERVICE_NAMES,
    SAME_ZONE_OR_NODE,
    SERVICE_METADATA_ONCE,
    SERVICE_SELECTORS,
    TOPOLOGY_MODE,
)

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")

PORT_STATUS = Struct(
    "core.v1.PortStatus",
    Field("port", INT32, 1, required=True, always=True),
    Field("protocol", STRING, 2, required=True, always=True, enum=PROTOCOLS),
    Field("error", STRING, 3, pointer=True),
)
LOAD_BALANCER_INGRESS = Struct(
    "core.v1.LoadBalancerIngress",
    Field("ip", STRING, 1),
    Field("hostname", STRING, 2),
    Field("ipMode", STRING, 3, pointer=True, since="1.29", gate="LoadBalancerIPMode"),
    Field("ports", ListOf(PORT_STATUS), 4, list_type="atomic"),
)
LOAD_BALANCER_STATUS = Struct(
    "core.v1.LoadBalancerStatus",
    Field(
        "ingress",
        ListOf(LOAD_BALANCER_INGRESS),
        1,
        list_type="atomic",
        before=UNTYPED_BEFORE_1_30,
    ),
)


def load_balancer_warnings(features: frozenset[str], new: Object, _: Object | None) -> list[str]:
    """Warn of odd addresses in a status of services and of ingresses."""
    points, field = new["status"]["loadBalancer"].get("ingress", ()), "status.loadBalancer.ingress"
    return [
        text
        for index, one in enumerate(points)
        for text in (ip_warnings(features, f"{field}[{index}]", one["ip"]) if one.get("ip") else ())
    ]


def load_balancer_addresses(status: Object) -> list[str]:
    """Return each address once, in alphabetical order."""
    points = status.get("ingress", ())
    return sorted({address for one in points if (address := one.get("ip") or one.get("hostname"))})


def load_balancer_rules(
    errors: FieldErrors, status: Object, before: Object, field: str, *, has_modes: bool = False
) -> None:
    """Validate the addresses of a load balancer; `before` has those that the object had."""
    kept = {one.get("ip") for one in before.get("ingress", ())}
    for index, ingress in enumerate(status.get("ingress", ())):
        here, ip, host = f"{field}.ingress[{index}]", ingress.get("ip", ""), ingress.get("hostname", "")
        if ip and ADDRESS_EXAMPLES in errors.features:
            ip_rules(errors, f"{here}.ip", ip, kept)
        elif ip and parse_ip(ip) is None:
            errors.add(invalid(f"{here}.ip", ip, "must be a valid IP address"))
        if has_modes:
            _mode_rules(errors, ingress, f"{here}.ipMode")
        if host:
            errors.add_each(f"{here}.hostname", host, dns_subdomain(host))
        if host and parse_ip(host) is not None:
            errors.add(invalid(f"{here}.hostname", host, "must be a DNS name, not an IP address"))


TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
HEADLESS: Final = "None"  # instead of an address: a headless service


def needs_address(spec: Object) -> bool:
    return bool(spec["type"] != "ExternalName")


def needs_node_ports(spec: Object) -> bool:
    return spec["type"] in ("NodePort", "LoadBalancer")


def needs_health_check(spec: Object) -> bool:
    """Whether each node answers health checks on a separate port: does it run a pod of the service?"""
    return spec["type"] == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_externally_accessible(features: frozenset[str], spec: Object) -> bool:
    """Whether the service has a policy for traffic from outside."""
    if needs_node_ports(spec):
        return True
    return EXTERNALLY_ACCESSIBLE in features and spec["type"] == "ClusterIP" and bool(spec.get("externalIPs"))


def is_headless(spec: Object) -> bool:
    return bool(spec.get("clusterIPs") == [HEADLESS])


def node_ports(spec: Object) -> list[int]:
    return [port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")]


def same(part: str, spec: Object, before: Object) -> bool:
    return bool(_value_or_none(spec, part) == _value_or_none(before, part))


def _value_or_none(spec: Object, part: str) -> Any:
    return spec.get(part) or None


AFFINITIES: Final = ("ClientIP", "None")
TRAFFIC_POLICIES: Final = ("Cluster", "Local")
DEFAULT_AFFINITY_SECONDS: Final = 10800

PORT = Struct(
    "core.v1.ServicePort",
    Field("name", STRING, 1),
    Field("protocol", STRING, 2, default="TCP", enum=PROTOCOLS),
    Field("appProtocol", STRING, 6, pointer=True),
    Field("port", INT32, 3, required=True, always=True),
    Field("targetPort", INT_OR_STRING, 4),
    Field("nodePort", INT32, 5),
)
CLIENT_IP = Struct("core.v1.ClientIPConfig", Field("timeoutSeconds", INT32, 1, pointer=True))
AFFINITY_CONFIG = Struct("core.v1.SessionAffinityConfig", Field("clientIP", CLIENT_IP, 1, pointer=True))
SPEC = Struct(
    "core.v1.ServiceSpec",
    Field(
        "ports",
        ListOf(PORT),
        1,
        patch="merge",
        merge_key="port",
        list_type="map",
        list_keys=("port", "protocol"),
    ),
    Field("selector", STRING_MAP, 2, map_type="atomic"),
    Field("clusterIP", STRING, 3),
    Field("clusterIPs", STRINGS, 18, list_type="atomic"),
    Field("type", STRING, 4, default="ClusterIP", enum=TYPES),
    Field("externalIPs", STRINGS, 5, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("sessionAffinity", STRING, 7, default="None", enum=AFFINITIES),
    Field("loadBalancerIP", STRING, 8),
    Field("loadBalancerSourceRanges", STRINGS, 9, list_type="atomic", before=UNTYPED_BEFORE_1_30),
    Field("externalName", STRING, 10),
    Field("externalTrafficPolicy", STRING, 11, enum=TRAFFIC_POLICIES),
    Field("healthCheckNodePort", INT32, 12),
    Field("publishNotReadyAddresses", BOOL, 13),
    Field("sessionAffinityConfig", AFFINITY_CONFIG, 14, pointer=True),
    Field("ipFamilies", STRINGS, 19, list_type="atomic"),
    Field("ipFamilyPolicy", STRING, 17, pointer=True),
    Field("allocateLoadBalancerNodePorts", BOOL, 20, pointer=True),
    Field("loadBalancerClass", STRING, 21, pointer=True),
    Field("internalTrafficPolicy", STRING, 22, pointer=True),
    Field("trafficDistribution", STRING, 23, pointer=True, since="1.30", gate="ServiceTrafficDistribution"),
)
STATUS = Struct(
    "core.v1.ServiceStatus",
    Field("loadBalancer", LOAD_BALANCER_STATUS, 1),
    Field(
        "conditions",
        ListOf(CONDITION),
        2,
        patch="merge",
        merge_key="type",
        list_type="map",
        list_keys=("type",),
    ),
)
SERVICE = Struct("core.v1.Service", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3))


SELECTION: Final = Selection(
    fields={
        "spec.clusterIP": lambda stored: str(stored["spec"].get("clusterIP", "")),
        "spec.type": lambda stored: str(stored["spec"]["type"]),
    },
    own_label_conversion=True,
)


class AnnotationKeys(NamedTuple):
    """The annotations that are validated."""

    ranges: str  # preceded loadBalancerSourceRanges
    topology_hints: str  # preceded the next one
    topology_mode: str


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    check_name = name_is_label if RELAXED_SERVICE_NAMES in features else name_is_1035_label
    ranges_key = names.key("load-balancer-source-ranges", "service.beta")
    keys = AnnotationKeys(
        ranges_key, names.key("topology-aware-hints", "service"), names.key("topology-mode", "service")
    )
    return Definition(
        group="",
        version="v1",
        kind="Service",
        plural="services",
        names=DiscoveryNames(short_names=("svc",), categories=("all",)),
        namespaced=True,
        check_name=check_name,
        fields=SERVICE,
        set_defaults=partial(set_defaults, features),
        subresources=(
            connecting("proxy", "ServiceProxyOptions"),
            Subresource(
                name="status",
                prepare=keep_spec,
                validate=status_rules,
                warnings=partial(load_balancer_warnings, features),
            ),
        ),
        deletion=Deletion(returns_object=True),
        selection=SELECTION if SERVICE_SELECTORS in features else Selection(),
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_create_on_update=True,
            prepare_for_create=prepare_create,
            prepare_for_update=partial(prepare_update, features),
            validate_create=partial(service_rules, keys=keys),
            validate_update=partial(update_rules, keys=keys, check_name=check_name),
            warnings=partial(warnings, features, keys),
        ),
    )


def set_defaults(features: frozenset[str], new: Object) -> None:
    spec = new["spec"]
    for port in spec.get("ports", ()):
        port["targetPort"] = port["targetPort"] or port["port"]
    _set_affinity_defaults(spec)
    if is_externally_accessible(features, spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] in TYPES and needs_address(spec):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        if BALANCER_MODES in features:
            _set_mode_defaults(new["status"]["loadBalancer"])
    new["spec"] = SPEC.arranged(spec)


def _set_mode_defaults(status: Object) -> None:
    if "ingress" in status:
        status["ingress"] = [
            LOAD_BALANCER_INGRESS.arranged({"ipMode": "VIP", **one}) if one.get("ip") else one
            for one in status["ingress"]
        ]


def _set_affinity_defaults(spec: Object) -> None:
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = spec.get("sessionAffinityConfig", {}).get("clientIP", {})
        seconds = client.get("timeoutSeconds", DEFAULT_AFFINITY_SECONDS)
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": seconds}}


def prepare_create(new: Object) -> None:
    clear_status(STATUS, new)
    _drop_internal_policy(new["spec"])


def prepare_update(features: frozenset[str], new: Object, old: Object) -> None:
    keep_status(new, old)
    spec, before = new["spec"], old["spec"]
    _drop_address(spec, before)
    _drop_ports(features, spec, before)
    _drop_load_balancer_fields(spec, before)
    _drop_internal_policy(spec)
    if spec["type"] != "LoadBalancer":
        new["status"] = {**new["status"], "loadBalancer": {}}


def _drop_internal_policy(spec: Object) -> None:
    """ExternalName services have no traffic inside the cluster, so the policy for it does not apply."""
    if not needs_address(spec) and spec.get("internalTrafficPolicy") in TRAFFIC_POLICIES:
        del spec["internalTrafficPolicy"]


def _drop_address(spec: Object, before: Object) -> None:
    if needs_address(spec) or not needs_address(before):
        return
    if same("clusterIP", spec, before) and same("clusterIPs", spec, before):
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)
    for part in ("ipFamilies", "ipFamilyPolicy"):
        if same(part, spec, before):
            spec.pop(part, None)


def _drop_ports(features: frozenset[str], spec: Object, before: Object) -> None:
    if (
        needs_node_ports(before)
        and not needs_node_ports(spec)
        and "ports" in spec
        and set(node_ports(spec)) <= set(node_ports(before))
    ):
        spec["ports"] = [
            {part: value for part, value in port.items() if part != "nodePort"} for port in spec["ports"]
        ]
    if (
        is_externally_accessible(features, before)
        and not is_externally_accessible(features, spec)
        and same("externalTrafficPolicy", spec, before)
    ):
        spec.pop("externalTrafficPolicy", None)
    if (
        needs_health_check(before)
        and not needs_health_check(spec)
        and same("healthCheckNodePort", spec, before)
    ):
        spec.pop("healthCheckNodePort", None)


def _drop_load_balancer_fields(spec: Object, before: Object) -> None:
    if before["type"] != "LoadBalancer" or spec["type"] == "LoadBalancer":
        return
    for part in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if part in spec and spec[part] == before.get(part):
            del spec[part]


def update_rules(
    errors: FieldErrors, new: Object, old: Object, keys: AnnotationKeys, check_name: CheckName
) -> None:
    spec, before = new["spec"], old["spec"]
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    address_update_rules(errors, spec, before)
    load_balancer_class_rules(errors, spec, before)
    if (
        needs_health_check(before)
        and needs_health_check(spec)
        and not same("healthCheckNodePort", spec, before)
    ):
        errors.add(forbidden("spec.healthCheckNodePort", "field is immutable"))
    if SERVICE_METADATA_ONCE not in errors.features:
        metadata_rules(errors, new["metadata"], namespaced=True, check_name=check_name)
    service_rules(errors, new, keys, old)


def status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    status, field = new["status"]["loadBalancer"], "status.loadBalancer"
    is_balanced = new["spec"]["type"] == "LoadBalancer"
    if status.get("ingress") and not is_balanced and BALANCERS_HAVE_INGRESS in errors.features:
        text = "may only be used when `spec.type` is 'LoadBalancer'"
        errors.add(forbidden(f"{field}.ingress", text))
        return
    has_modes = BALANCER_MODES in errors.features
    load_balancer_rules(errors, status, old["status"]["loadBalancer"], field, has_modes=has_modes)


def _mode_rules(errors: FieldErrors, ingress: Object, field: str) -> None:
    mode, ip = ingress.get("ipMode"), ingress.get("ip")
    if mode is None:
        if ip:
            errors.add(required(field, "must be specified when `ip` is set"))
    elif not ip:
        errors.add(forbidden(field, "may not be specified when `ip` is not set"))
    elif mode not in BALANCER_IP_MODES:
        errors.add(not_supported(field, mode, BALANCER_IP_MODES))


BALANCER_IP_MODES: Final = ("Proxy", "VIP")
DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
KUBELET_PORT: Final = 10250
LONGEST_AFFINITY: Final = 86400
NOT_FOR_EXTERNAL_NAME: Final = "may not be set for ExternalName services"
LOAD_BALANCER_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"


def service_rules(errors: FieldErrors, new: Object, keys: AnnotationKeys, old: Object | None = None) -> None:
    """Validate a service, which may keep addresses of the old one."""
    spec, before = new["spec"], old["spec"] if old else {}
    if TOPOLOGY_MODE in errors.features:
        _topology_rules(errors, new["metadata"].get("annotations", {}), keys)
    _type_rules(errors, spec)
    _port_rules(errors, spec)
    label_rules(errors, spec.get("selector", {}), "spec.selector")
    _affinity_rules(errors, spec)
    address_rules(errors, spec, before)
    _external_ip_rules(errors, spec.get("externalIPs", []), set(before.get("externalIPs", ())))
    _known_type_rules(errors, spec["type"])
    _node_port_rules(errors, spec)
    _duplicate_port_rules(errors, spec)
    if NETWORK_EXAMPLES in errors.features:
        _source_range_rules(errors, new, old, keys.ranges)
    else:
        _source_ranges_rules(errors, new, keys.ranges)
    _allocation_rules(errors, spec)
    load_balancer_class_rules(errors, spec, None)
    _external_traffic_rules(errors, spec)
    _internal_traffic_rules(errors, spec)


def load_balancer_class_rules(errors: FieldErrors, spec: Object, before: Object | None) -> None:
    name, field = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    balanced = spec["type"] == "LoadBalancer"
    stays = balanced and before is not None and before["type"] == "LoadBalancer"
    if stays and name != (before or {}).get("loadBalancerClass"):
        errors.add(invalid(field, name, "may not change once set"))
    if name is not None:
        if balanced:
            errors.add_each(field, name, qualified_name(name))
        else:
            errors.add(forbidden(field, LOAD_BALANCER_ONLY))


def _topology_rules(errors: FieldErrors, annotations: Object, keys: AnnotationKeys) -> None:
    hints, mode = annotations.get(keys.topology_hints), annotations.get(keys.topology_mode)
    if hints is not None and mode is not None and hints != mode:
        text = f"must match annotations[{keys.topology_hints}] when both are specified"
        errors.add(invalid(f"metadata.annotations[{keys.topology_mode}]", mode, text))


def _type_rules(errors: FieldErrors, spec: Object) -> None:
    kind, headless = spec["type"], is_headless(spec)
    if not spec.get("ports") and not headless and kind != "ExternalName":
        errors.add(required("spec.ports"))
    if kind == "LoadBalancer" and KUBELET_PORT_EXPOSED not in errors.features:
        text = f"may not expose port {KUBELET_PORT} externally since it is used by kubelet"
        for index, port in enumerate(spec.get("ports", ())):
            if port["port"] == KUBELET_PORT:
                errors.add(invalid(f"spec.ports[{index}]", KUBELET_PORT, text))
    if headless and needs_node_ports(spec):
        text = f"may not be set to 'None' for {kind} services"
        errors.add(invalid("spec.clusterIPs[0]", "None", text))
    if kind == "ExternalName":
        _external_name_rules(errors, spec)


def _external_name_rules(errors: FieldErrors, spec: Object) -> None:
    parts = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
    for part in parts:
        if part in spec:
            errors.add(forbidden(f"spec.{part}", NOT_FOR_EXTERNAL_NAME))
    name, field = spec.get("externalName", "").removesuffix("."), "spec.externalName"
    if name:
        errors.add_each(field, name, dns_subdomain(name))
    else:
        errors.add(required(field))


def _port_rules(errors: FieldErrors, spec: Object) -> None:
    ports = spec.get("ports", [])
    seen: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            errors.add_each(f"{field}.name", name, dns_label(name))
            if name in seen:
                errors.add(duplicate(f"{field}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            errors.add(required(f"{field}.name"))
        _one_port_rules(errors, port, field)


def _one_port_rules(errors: FieldErrors, port: Object, field: str) -> None:
    errors.add_each(f"{field}.port", port["port"], port_number(port["port"]))
    if port["protocol"] not in PROTOCOLS:
        errors.add(not_supported(f"{field}.protocol", port["protocol"], PROTOCOLS))
    target = port["targetPort"]
    wrong = port_name(target) if isinstance(target, str) else port_number(target)
    errors.add_each(f"{field}.targetPort", target, wrong)
    if "appProtocol" in port:
        errors.add_each(f"{field}.appProtocol", port["appProtocol"], qualified_name(port["appProtocol"]))


def _affinity_rules(errors: FieldErrors, spec: Object) -> None:
    affinity = spec["sessionAffinity"]
    if affinity not in AFFINITIES:
        errors.add(not_supported("spec.sessionAffinity", affinity, AFFINITIES))
        return
    if affinity == "None":
        return
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if 0 < seconds <= LONGEST_AFFINITY:
        return
    field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    errors.add(invalid(field, seconds, f"must be greater than 0 and less than {LONGEST_AFFINITY}"))


def _external_ip_rules(errors: FieldErrors, ips: list[str], kept: set[str]) -> None:
    for index, ip in enumerate(ips):
        field = f"spec.externalIPs[{index}]"
        if not errors.added_by(ip_rules, field, ip, kept):
            errors.add_each(field, ip, ordinary_ip(ip))


def _known_type_rules(errors: FieldErrors, kind: str) -> None:
    if kind not in TYPES:
        errors.add(not_supported("spec.type", kind, TYPES))


def _node_port_rules(errors: FieldErrors, spec: Object) -> None:
    seen: set[tuple[str, int]] = set()
    used = [(index, port) for index, port in enumerate(spec.get("ports", ())) if port.get("nodePort")]
    if spec["type"] == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        for index, _ in used:
            errors.add(forbidden(f"spec.ports[{index}].nodePort", text))
    for index, port in used:
        if (port["protocol"], port["nodePort"]) in seen:
            errors.add(duplicate(f"spec.ports[{index}].nodePort", port["nodePort"]))
        seen.add((port["protocol"], port["nodePort"]))


def _duplicate_port_rules(errors: FieldErrors, spec: Object) -> None:
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.get("ports", ())):
        key = (port["protocol"], port["port"])
        if key in seen:
            value = {"protocol": key[0], "port": key[1]}
            errors.add(duplicate(f"spec.ports[{index}]", shown(PORT, value)))
        seen.add(key)


def _source_range_rules(errors: FieldErrors, new: Object, old: Object | None, ranges_key: str) -> None:
    spec, ranges = new["spec"], new["spec"].get("loadBalancerSourceRanges", [])
    annotated = new["metadata"].get("annotations", {}).get(ranges_key)
    if not ranges and annotated is None:
        return
    field = "spec.LoadBalancerSourceRanges" if ranges else f"metadata.annotations[{ranges_key}]"
    if spec["type"] != "LoadBalancer":
        errors.add(forbidden(field, LOAD_BALANCER_ONLY))
    kept = {one.strip() for one in old["spec"].get("loadBalancerSourceRanges", ())} if old else set[str]()
    for index, text in enumerate(ranges):
        cidr_rules(errors, f"{field}[{index}]", text.strip(), kept)
    if ranges or not annotated.strip():
        return
    was = old["metadata"].get("annotations", {}).get(ranges_key) if old is not None else None
    if was == annotated and ADDRESSES_AND_NETWORKS in errors.features:
        return
    for text in annotated.strip().split(","):
        cidr_rules(errors, field, text.strip())


def _source_ranges_rules(errors: FieldErrors, new: Object, ranges_key: str) -> None:
    """Validate all source ranges at once, as early versions do."""
    spec, annotated = new["spec"], new["metadata"].get("annotations", {}).get(ranges_key)
    ranges = spec.get("loadBalancerSourceRanges", [])
    if not ranges and annotated is None:
        return
    field = "spec.LoadBalancerSourceRanges" if ranges else f"metadata.annotations[{ranges_key}]"
    value = f"[{' '.join(ranges)}]" if ranges else str(annotated)
    if spec["type"] != "LoadBalancer":
        errors.add(forbidden(field, LOAD_BALANCER_ONLY))
    texts = ranges or (value.strip() or "0.0.0.0/0").split(",")
    if any(parse_network(text.strip()) is None for text in texts):
        text = "must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24 "
        errors.add(invalid(field, value, text))


def _allocation_rules(errors: FieldErrors, spec: Object) -> None:
    if "allocateLoadBalancerNodePorts" in spec and spec["type"] != "LoadBalancer":
        errors.add(forbidden("spec.allocateLoadBalancerNodePorts", LOAD_BALANCER_ONLY))


def _external_traffic_rules(errors: FieldErrors, spec: Object) -> None:
    policy, port = spec.get("externalTrafficPolicy", ""), spec.get("healthCheckNodePort", 0)
    field = "spec.externalTrafficPolicy"
    if not is_externally_accessible(errors.features, spec):
        if policy:
            text = "may only be set when `type` is 'NodePort' or 'LoadBalancer'"
            later = "may only be set for externally-accessible services"
            errors.add(invalid(field, policy, reworded(text, EXTERNALLY_ACCESSIBLE, later)))
    elif policy not in TRAFFIC_POLICIES:
        errors.add(not_supported(field, policy, TRAFFIC_POLICIES))
    _health_check_rules(errors, spec, port, "spec.healthCheckNodePort")


def _health_check_rules(errors: FieldErrors, spec: Object, port: int, field: str) -> None:
    if needs_health_check(spec):
        if port:
            errors.add_each(field, port, port_number(port))
        else:
            errors.add(required(field))
        return
    if not port:
        return
    text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
    errors.add(invalid(field, port, text))


def _internal_traffic_rules(errors: FieldErrors, spec: Object) -> None:
    policy = spec.get("internalTrafficPolicy")
    if policy is not None and policy not in TRAFFIC_POLICIES:
        errors.add(not_supported("spec.internalTrafficPolicy", policy, TRAFFIC_POLICIES))
    distribution = spec.get("trafficDistribution")
    supported = DISTRIBUTIONS if SAME_ZONE_OR_NODE in errors.features else DISTRIBUTIONS[:1]
    if distribution is not None and distribution not in supported:
        errors.add(not_supported("spec.trafficDistribution", distribution, supported))


FAMILIES: Final = ("IPv4", "IPv6")
FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
IMMUTABLE_ONCE_SET: Final = "may not change once set"
_IPS: Final = "spec.clusterIPs"
_FAMILIES: Final = "spec.ipFamilies"
_POLICY: Final = "spec.ipFamilyPolicy"


def family_of(address: str) -> str:
    parsed = parse_ip(address)
    return "IPv6" if parsed is not None and parsed.version == 6 else "IPv4"


def address_rules(errors: FieldErrors, spec: Object, before: Object | None = None) -> None:
    if not needs_address(spec):
        return
    ips, kept = spec.get("clusterIPs", []), set((before or {}).get("clusterIPs", ()))
    _single_address_rules(errors, spec.get("clusterIP", ""), ips)
    _family_rules(errors, spec)
    wrong = errors.added_by(_address_format_rules, ips, kept)
    if len(ips) > 2:
        errors.add(invalid(_IPS, ips, "may only hold up to 2 values"))
    if not wrong:
        _family_match_rules(errors, spec, ips)


def _single_address_rules(errors: FieldErrors, ip: str, ips: list[str]) -> None:
    if ip and not ips:
        errors.add(required(_IPS))
        return
    if ip and ips[0] != ip:
        errors.add(invalid(_IPS, ips, "first value must match `clusterIP`"))
        return
    if ips and not ip:
        errors.add(invalid(_IPS, ips, "must be empty when `clusterIP` is not specified"))


def _family_rules(errors: FieldErrors, spec: Object) -> None:
    families, policy = spec.get("ipFamilies", []), spec.get("ipFamilyPolicy")
    seen: set[str] = set()
    for index, family in enumerate(families):
        if family not in FAMILIES:
            errors.add(not_supported(f"{_FAMILIES}[{index}]", family, FAMILIES))
        if family in seen:
            errors.add(duplicate(f"{_FAMILIES}[{index}]", family))
        seen.add(family)
    if policy is not None and policy not in FAMILY_POLICIES:
        errors.add(not_supported(_POLICY, policy, FAMILY_POLICIES))


def _address_format_rules(errors: FieldErrors, ips: list[str], kept: set[str]) -> None:
    for index, ip in enumerate(ips):
        if index == 0 and ip == HEADLESS:
            if len(ips) > 1:
                errors.add(invalid(_IPS, ips, "'None' must be the first and only value"))
            continue
        ip_rules(errors, f"{_IPS}[{index}]", ip, kept)


def _family_match_rules(errors: FieldErrors, spec: Object, ips: list[str]) -> None:
    if len(ips) > 1 and len({family_of(ip) for ip in ips}) == 1:
        errors.add(invalid(_IPS, ips, "may specify no more than one IP for each IP family"))
    if is_headless(spec):
        return
    for index, (ip, family) in enumerate(zip(ips, spec.get("ipFamilies", []), strict=False)):
        if family in FAMILIES and family_of(ip) != family:
            text = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.add(invalid(f"{_IPS}[{index}]", ip, text))


def address_update_rules(errors: FieldErrors, spec: Object, before: Object) -> None:
    if needs_address(spec) and needs_address(before):
        _list_update_rules(errors, spec, before)
        _family_update_rules(errors, spec, before)


def _list_update_rules(errors: FieldErrors, spec: Object, before: Object) -> None:
    ips, old = spec.get("clusterIPs", []), before.get("clusterIPs", [])
    if is_headless(spec) and is_headless(before):
        return
    if len(ips) == len(old):
        all_ips = Repeated(lambda: ips)
        for index, ip in enumerate(old):
            if ip != ips[index]:
                errors.add(invalid(f"{_IPS}[{index}]", all_ips, IMMUTABLE_ONCE_SET))
        return
    if not ips:
        errors.add(invalid(f"{_IPS}[0]", ips, "primary clusterIP can not be unset"))
    elif old and ips[0] != old[0]:
        errors.add(invalid(f"{_IPS}[0]", ips, IMMUTABLE_ONCE_SET))
    if len(ips) == 1 and len(old) > 1:
        _needs_single_stack(errors, spec, "clusterIP")


def _family_update_rules(errors: FieldErrors, spec: Object, before: Object) -> None:
    families, old = spec.get("ipFamilies", []), before.get("ipFamilies", [])
    if is_headless(spec) or is_headless(before):
        return
    if len(families) == len(old):
        changed = [family for family, was in zip(families, old, strict=True) if family != was]
        all_families = Repeated(lambda: families)
        for _ in changed:
            errors.add(invalid(f"{_FAMILIES}[0]", all_families, IMMUTABLE_ONCE_SET))
        return
    ips = spec.get("clusterIPs", [])
    if len(families) < len(old) and not ips:
        errors.add(invalid(f"{_FAMILIES}[0]", families, "primary ipFamily can not be unset"))
    if families and old and families[0] != old[0]:
        errors.add(invalid(f"{_FAMILIES}[0]", ips, IMMUTABLE_ONCE_SET))
    if len(families) == 1 and len(old) > 1:
        _needs_single_stack(errors, spec, "ipFamily")


def _needs_single_stack(errors: FieldErrors, spec: Object, what: str) -> None:
    policy = spec.get("ipFamilyPolicy")
    if policy != "SingleStack":
        errors.add(
            invalid(_POLICY, policy, f"must be set to 'SingleStack' when releasing the secondary {what}")
        )


def warnings(features: frozenset[str], keys: AnnotationKeys, new: Object, _: Object | None) -> list[str]:
    spec, texts = new["spec"], []
    if TOPOLOGY_MODE in features and keys.topology_hints in new["metadata"].get("annotations", {}):
        texts.append(
            f"annotation {keys.topology_hints} is deprecated, please use {keys.topology_mode} instead"
        )
    headless = spec["type"] == "ClusterIP" and spec.get("clusterIP") == HEADLESS
    if spec.get("clusterIP", HEADLESS) != HEADLESS and needs_address(spec):
        texts += _each(ip_warnings, features, "spec.clusterIPs", spec.get("clusterIPs", ()))
    if headless and IGNORED_IN_HEADLESS in features:
        texts += _ignored_in_headless(spec)
    ips, kind = spec.get("externalIPs", ()), spec["type"]
    texts += _each(ip_warnings, features, "spec.externalIPs", ips)
    if ips and not headless and kind != "ExternalName" and EXTERNAL_IPS_DEPRECATED in features:
        texts.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    texts += ip_warnings(features, "spec.loadBalancerIP", spec.get("loadBalancerIP", ""))
    ranges = spec.get("loadBalancerSourceRanges", ())
    texts += _each(cidr_warnings, features, "spec.loadBalancerSourceRanges", ranges)
    if IGNORED_IN_SERVICES in features:
        if kind == "ExternalName" and ips:
            texts.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
        if kind != "ExternalName" and spec.get("externalName"):
            texts.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose" and PREFER_CLOSE_DEPRECATED in features:
        texts.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return texts


def _each(
    warn: Callable[[frozenset[str], str, str], list[str]],
    features: frozenset[str],
    field: str,
    values: Iterable[str],
) -> list[str]:
    return [text for index, one in enumerate(values) for text in warn(features, f"{field}[{index}]", one)]


def _ignored_in_headless(spec: Object) -> Iterator[str]:
    if spec.get("loadBalancerIP"):
        yield "spec.loadBalancerIP is ignored for headless services"
    if spec.get("externalIPs"):
        yield "spec.externalIPs is ignored for headless services"
    if spec["sessionAffinity"] != "None":
        yield "spec.SessionAffinity is ignored for headless services"


def _cluster_ip_cell(stored: Object, _: int) -> str:
    return str((stored["spec"].get("clusterIPs") or [NONE])[0])


def _external_ip_cell(stored: Object, _: int) -> str:
    spec, kind = stored["spec"], stored["spec"]["type"]
    if kind not in TYPES:
        return UNKNOWN
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    balanced = load_balancer_addresses(stored["status"]["loadBalancer"]) if kind == "LoadBalancer" else []
    addresses = [*balanced, *spec.get("externalIPs", ())]
    return ",".join(addresses) or ("<pending>" if kind == "LoadBalancer" else NONE)


def _ports_cell(stored: Object, _: int) -> str:
    return ",".join(_port_text(port) for port in stored["spec"].get("ports", ())) or NONE


def _port_text(port: Object) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node}/{port['protocol']}"


COLUMNS: Final = (
    NAME,
    Column("Type", "string", "ClusterIP, NodePort, LoadBalancer or ExternalName.", at("spec", "type")),
    Column("Cluster-IP", "string", "Cluster IP address of the service.", _cluster_ip_cell),
    Column("External-IP", "string", "External addresses of the service.", _external_ip_cell),
    Column("Port(s)", "string", "Ports of the service, each followed by its node port.", _ports_cell),
    AGE,
    Column(
        "Selector",
        "string",
        "Labels of the pods behind it.",
        lambda stored, _: labels_or_none(stored["spec"].get("selector", {})),
        priority=1,
    ),
)
