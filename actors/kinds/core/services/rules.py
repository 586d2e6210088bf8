"""Rules of services besides those of their addresses: ports, types, affinity, load balancers and traffic."""

from __future__ import annotations

from typing import Final

from actors.kinds.core.services.addresses import address_rules
from actors.kinds.core.services.traits import (
    TYPES,
    is_headless,
    needs_health_check,
    needs_node_ports,
)
from actors.kinds.declaration.meta import label_rules
from actors.kinds.validation.checks import (
    FieldError,
    dns_label,
    dns_subdomain,
    duplicate,
    each,
    forbidden,
    invalid,
    ip_address,
    not_supported,
    ordinary_ip,
    parse_network,
    port_number,
    qualified_name,
    required,
)
from actors.kinds.validation.formats import port_name
from actors.messages import Object

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
AFFINITIES: Final = ("ClientIP", "None")
TRAFFIC_POLICIES: Final = ("Cluster", "Local")
NODE_AGENT_PORT: Final = 10250
LONGEST_AFFINITY: Final = 86400
NOT_FOR_NAMES: Final = "may not be set for ExternalName services"
BALANCED_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"


def service_rules(new: Object, ranges_key: str) -> list[FieldError]:
    """`ranges_key` is the annotation that came before loadBalancerSourceRanges."""
    spec = new["spec"]
    return [
        *_type_rules(spec),
        *_port_rules(spec),
        *label_rules(spec.get("selector", {}), "spec.selector"),
        *_affinity(spec),
        *address_rules(spec),
        *_external_ips(spec.get("externalIPs", [])),
        *_known_type(spec["type"]),
        *_node_port_rules(spec),
        *_repeated_ports(spec),
        *_source_ranges(new, ranges_key),
        *_balancer(spec),
        *load_balancer_class_rules(spec, None),
        *_external_traffic(spec),
        *_internal_traffic(spec),
    ]


def load_balancer_class_rules(spec: Object, before: Object | None) -> list[FieldError]:
    name, field = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    errors: list[FieldError] = []
    balanced = spec["type"] == "LoadBalancer"
    stays = balanced and before is not None and before["type"] == "LoadBalancer"
    if stays and name != (before or {}).get("loadBalancerClass"):
        errors.append(invalid(field, name, "may not change once set"))
    if name is None:
        return errors
    return (
        errors + each(field, name, qualified_name(name))
        if balanced
        else [*errors, forbidden(field, BALANCED_ONLY)]
    )


def _type_rules(spec: Object) -> list[FieldError]:
    kind, headless = spec["type"], is_headless(spec)
    errors: list[FieldError] = []
    if not spec.get("ports") and not headless and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind == "LoadBalancer":
        text = f"may not expose port {NODE_AGENT_PORT} externally since it is used by kubelet"
        errors += [
            invalid(f"spec.ports[{index}]", NODE_AGENT_PORT, text)
            for index, port in enumerate(spec.get("ports", ()))
            if port["port"] == NODE_AGENT_PORT
        ]
    if headless and needs_node_ports(spec):
        text = f"may not be set to 'None' for {kind} services"
        errors.append(invalid("spec.clusterIPs[0]", "None", text))
    return errors + _external_name(spec) if kind == "ExternalName" else errors


def _external_name(spec: Object) -> list[FieldError]:
    parts = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
    errors = [forbidden(f"spec.{part}", NOT_FOR_NAMES) for part in parts if part in spec]
    name, field = spec.get("externalName", "").removesuffix("."), "spec.externalName"
    return errors + (each(field, name, dns_subdomain(name)) if name else [required(field)])


def _port_rules(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    ports = spec.get("ports", [])
    seen: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"spec.ports[{index}]", port.get("name", "")
        if name:
            errors += each(f"{field}.name", name, dns_label(name))
            errors += [duplicate(f"{field}.name", name)] if name in seen else []
            seen.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{field}.name"))
        errors += _port(port, field)
    return errors


def _port(port: Object, field: str) -> list[FieldError]:
    errors = [invalid(f"{field}.port", port["port"], text) for text in port_number(port["port"])]
    if port["protocol"] not in PROTOCOLS:
        errors.append(not_supported(f"{field}.protocol", port["protocol"], PROTOCOLS))
    target = port["targetPort"]
    wrong = port_name(target) if isinstance(target, str) else port_number(target)
    errors += [invalid(f"{field}.targetPort", target, text) for text in wrong]
    if "appProtocol" in port:
        errors += each(f"{field}.appProtocol", port["appProtocol"], qualified_name(port["appProtocol"]))
    return errors


def _affinity(spec: Object) -> list[FieldError]:
    affinity = spec["sessionAffinity"]
    if affinity not in AFFINITIES:
        return [not_supported("spec.sessionAffinity", affinity, AFFINITIES)]
    if affinity == "None":
        return []
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if 0 < seconds <= LONGEST_AFFINITY:
        return []
    field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
    return [invalid(field, seconds, f"must be greater than 0 and less than {LONGEST_AFFINITY}")]


def _external_ips(ips: list[str]) -> list[FieldError]:
    return [
        invalid(f"spec.externalIPs[{index}]", ip, text)
        for index, ip in enumerate(ips)
        for text in ip_address(ip) or ordinary_ip(ip)
    ]


def _known_type(kind: str) -> list[FieldError]:
    return [] if kind in TYPES else [not_supported("spec.type", kind, TYPES)]


def _node_port_rules(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, int]] = set()
    used = [(index, port) for index, port in enumerate(spec.get("ports", ())) if port.get("nodePort")]
    if spec["type"] == "ClusterIP":
        text = "may not be used when `type` is 'ClusterIP'"
        errors += [forbidden(f"spec.ports[{index}].nodePort", text) for index, _ in used]
    for index, port in used:
        if (port["protocol"], port["nodePort"]) in seen:
            errors.append(duplicate(f"spec.ports[{index}].nodePort", port["nodePort"]))
        seen.add((port["protocol"], port["nodePort"]))
    return errors


def _repeated_ports(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(spec.get("ports", ())):
        key = (port["protocol"], port["port"])
        if key in seen:
            errors.append(duplicate(f"spec.ports[{index}]", {"protocol": key[0], "port": key[1]}))
        seen.add(key)
    return errors


def _source_ranges(new: Object, ranges_key: str) -> list[FieldError]:
    spec, annotated = new["spec"], new["metadata"].get("annotations", {}).get(ranges_key)
    ranges = spec.get("loadBalancerSourceRanges", [])
    if not ranges and annotated is None:
        return []
    field = "spec.LoadBalancerSourceRanges" if ranges else f"metadata.annotations[{ranges_key}]"
    value = f"[{' '.join(ranges)}]" if ranges else str(annotated)
    errors = [] if spec["type"] == "LoadBalancer" else [forbidden(field, BALANCED_ONLY)]
    texts = ranges or (value.strip() or "0.0.0.0/0").split(",")
    if any(parse_network(text.strip()) is None for text in texts):
        text = "must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24 "
        errors.append(invalid(field, value, text))
    return errors


def _balancer(spec: Object) -> list[FieldError]:
    if "allocateLoadBalancerNodePorts" in spec and spec["type"] != "LoadBalancer":
        return [forbidden("spec.allocateLoadBalancerNodePorts", BALANCED_ONLY)]
    return []


def _external_traffic(spec: Object) -> list[FieldError]:
    policy, port = spec.get("externalTrafficPolicy", ""), spec.get("healthCheckNodePort", 0)
    field, errors = "spec.externalTrafficPolicy", []
    if not needs_node_ports(spec):
        if policy:
            text = "may only be set when `type` is 'NodePort' or 'LoadBalancer'"
            errors.append(invalid(field, policy, text))
    elif policy not in TRAFFIC_POLICIES:
        errors.append(not_supported(field, policy, TRAFFIC_POLICIES))
    return errors + _health_check(spec, port, "spec.healthCheckNodePort")


def _health_check(spec: Object, port: int, field: str) -> list[FieldError]:
    if needs_health_check(spec):
        return [invalid(field, port, text) for text in port_number(port)] if port else [required(field)]
    if not port:
        return []
    text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
    return [invalid(field, port, text)]


def _internal_traffic(spec: Object) -> list[FieldError]:
    policy = spec.get("internalTrafficPolicy")
    if policy is None or policy in TRAFFIC_POLICIES:
        return []
    return [not_supported("spec.internalTrafficPolicy", policy, TRAFFIC_POLICIES)]
