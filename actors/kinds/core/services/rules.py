"""Rules of services besides those of their addresses: ports, types, affinity, load balancers and traffic policies."""

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
from actors.kinds.validation import (
    FieldErrors,
    dns_label,
    dns_subdomain,
    duplicate,
    forbidden,
    invalid,
    ip_address,
    not_supported,
    ordinary_ip,
    parse_network,
    port_name,
    port_number,
    qualified_name,
    required,
)
from actors.messages import Object

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
AFFINITIES: Final = ("ClientIP", "None")
TRAFFIC_POLICIES: Final = ("Cluster", "Local")
KUBELET_PORT: Final = 10250
LONGEST_AFFINITY: Final = 86400
NOT_FOR_EXTERNAL_NAME: Final = "may not be set for ExternalName services"
LOAD_BALANCER_ONLY: Final = "may only be used when `type` is 'LoadBalancer'"


def service_rules(errors: FieldErrors, new: Object, ranges_key: str) -> None:
    """`ranges_key` is the annotation that came before loadBalancerSourceRanges."""
    spec = new["spec"]
    _type_rules(errors, spec)
    _port_rules(errors, spec)
    label_rules(errors, spec.get("selector", {}), "spec.selector")
    _affinity_rules(errors, spec)
    address_rules(errors, spec)
    _external_ip_rules(errors, spec.get("externalIPs", []))
    _known_type_rules(errors, spec["type"])
    _node_port_rules(errors, spec)
    _duplicate_port_rules(errors, spec)
    _source_range_rules(errors, new, ranges_key)
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


def _type_rules(errors: FieldErrors, spec: Object) -> None:
    kind, headless = spec["type"], is_headless(spec)
    if not spec.get("ports") and not headless and kind != "ExternalName":
        errors.add(required("spec.ports"))
    if kind == "LoadBalancer":
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


def _external_ip_rules(errors: FieldErrors, ips: list[str]) -> None:
    for index, ip in enumerate(ips):
        for text in ip_address(ip) or ordinary_ip(ip):
            errors.add(invalid(f"spec.externalIPs[{index}]", ip, text))


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
            errors.add(duplicate(f"spec.ports[{index}]", {"protocol": key[0], "port": key[1]}))
        seen.add(key)


def _source_range_rules(errors: FieldErrors, new: Object, ranges_key: str) -> None:
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
    if not needs_node_ports(spec):
        if policy:
            text = "may only be set when `type` is 'NodePort' or 'LoadBalancer'"
            errors.add(invalid(field, policy, text))
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
