"""Allocates ClusterIPs and node ports for a service, after its IP families have been defaulted.

The caller reserves `Allocated.items` until the write is durable, and then calls `stored`. An update keeps the
allocated values: clients that know only clusterIP, or that send a manifest without the allocated values again, must
not lose any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from rewound.actors.allocation.allocated import (
    AddressPool,
    AllocatedItems,
    Cursor,
    FixedRanges,
    NotInRange,
    PortPool,
    ServiceCidrs,
    items_of,
)
from rewound.actors.errors import Exhausted
from rewound.actors.kinds.core.service import (
    HEADLESS,
    PORT,
    SPEC,
    address_rules,
    family_of,
    is_headless,
    needs_address,
    needs_health_check,
    needs_node_ports,
    node_ports,
    same,
)
from rewound.actors.kinds.validation import FieldError, FieldErrors, collect_with, invalid
from rewound.actors.messages import Object
from rewound.actors.runtime.time_limit import check_time
from rewound.actors.versions.features import SERVICE_IN_TEXTS

ADDRESS_TAKEN = "provided IP is already allocated"
PORT_TAKEN = "provided port is already allocated"
NO_PORT = 32768  # the node ports of dry runs begin after it, outside the usual range


class ServicePools(msgspec.Struct, frozen=True):
    """The pools of one cluster."""

    addresses: FixedRanges | ServiceCidrs
    ports: PortPool


class Allocated(msgspec.Struct, frozen=True):
    service: Object
    items: list[str]  # addresses and ports that the service did not have before
    stored: Callable[[], None]  # moves the cursors of the pools past these items


def allocate(
    allocated: AllocatedItems,
    pools: ServicePools,
    service: Object,
    old: Object | None,
    *,
    unchecked: bool = False,
    features: frozenset[str] = frozenset(),
) -> Allocated:
    """Return a copy of the service with its allocated values.

    Raises AllocationError if it cannot get an item that it requests, Exhausted if a range is full. With `unchecked`,
    for dry runs, node ports outside the range and addresses of other services are accepted, and values that the client
    does not request are those that no service can have.
    """
    allocation = _Allocation(allocated, pools, old, unchecked=unchecked, features=features)
    completed = allocation.completed(service, old)
    return Allocated(completed, allocation.items(), allocation.stored)


class _Allocation:
    """The allocation of one write.

    The service keeps its items, but only for the same use: its health check port cannot become a node port, nor the
    reverse.
    """

    def __init__(
        self,
        allocated: AllocatedItems,
        pools: ServicePools,
        old: Object | None,
        *,
        unchecked: bool,
        features: frozenset[str],
    ) -> None:
        self._allocated = allocated
        self._unchecked, self._features = unchecked, features
        self._service = ""  # its name
        self._own = items_of(old) if old else frozenset[str]()
        self._own_node_ports = frozenset(node_ports(old["spec"])) if old else frozenset[int]()
        self._addresses, self._ports = pools.addresses, pools.ports
        self._cursors: dict[AddressPool | PortPool, Cursor] = {}
        self._new: dict[str, None] = {}  # in the order of allocation

    def items(self) -> list[str]:
        return list(self._new)

    def stored(self) -> None:
        for pool, cursor in self._cursors.items():
            pool.continue_from(cursor)

    def completed(self, service: Object, old: Object | None) -> Object:
        spec, before = dict(service["spec"]), old["spec"] if old else None
        self._service = service["metadata"].get("name", "")
        if "ports" in spec:
            spec["ports"] = list(spec["ports"] or ())
        if before is not None:
            keep_allocated_values(spec, before)
        normalize_cluster_ips(spec, before)
        default_ip_families(spec, before, self._addresses.families, self._features)
        if needs_address(spec) and not is_headless(spec) and not stays_prefer_dual_stack(spec, before):
            self._allocate_addresses(spec, before)
        if needs_node_ports(spec):
            self._allocate_node_ports(spec, share=before is None)
        if needs_health_check(spec) and not (before and needs_health_check(before)):
            self._allocate_health_check_port(spec)
        return {**service, "spec": SPEC.arranged(spec)}

    def _allocate_addresses(self, spec: Object, before: Object | None) -> None:
        """Allocate one address per family. Validation refuses changes of existing addresses."""
        if before is not None and is_headless(before):
            return
        had = len(before.get("clusterIPs", ())) if before is not None and needs_address(before) else 0
        ips = list(spec.get("clusterIPs", ()))
        for index, family in list(enumerate(spec["ipFamilies"]))[had:]:
            wanted = ips[index] if index < len(ips) else ""
            ips[index : index + 1] = [self._address(family, wanted, ips)]
        spec["clusterIPs"] = ips
        spec["clusterIP"] = ips[0]

    def _address(self, family: str, wanted: str, ips: list[str]) -> str:
        if not wanted:
            return self._next_address(family)
        if wanted in self._own:
            return wanted
        why = f"failed to allocate IP {wanted}"
        try:
            checked = self._checked(family, wanted)
        except NotInRange as error:
            raise AllocationError([invalid("spec.clusterIPs", ips, f"{why}: {error}")]) from None
        if not self._unchecked and not self._is_free(checked):
            raise AllocationError([invalid("spec.clusterIPs", ips, f"{why}: {ADDRESS_TAKEN}")])
        self._new[checked] = None
        return wanted

    def _next_address(self, family: str) -> str:
        for pool in self._addresses.pools(family):
            if self._unchecked:
                return pool.network_address
            if (found := self._next(pool)) is not None:
                return found
        of_service = f' for Service "{self._service}"' if SERVICE_IN_TEXTS in self._features else ""
        raise Exhausted(f"failed to allocate a serviceIP{of_service}: range is full")

    def _checked(self, family: str, wanted: str) -> str:
        """Return the canonical text of an address of the pools. Raises NotInRange."""
        refused: NotInRange | None = None
        for pool in self._addresses.pools(family):
            try:
                return pool.check(wanted)
            except NotInRange as error:
                refused = refused or error
        if refused is not None and (self._unchecked or isinstance(self._addresses, FixedRanges)):
            raise refused
        raise NotInRange("the provided network does not match the current range")

    def _allocate_node_ports(self, spec: Object, *, share: bool) -> None:
        """Allocate node ports. Only in a new service (`share`), ports with the same number share one, whatever their
        protocol.
        """
        by_port: dict[int, int] = {}
        requested_first = _requested(spec.get("ports", ()))
        allocates_all = spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts", True)
        ports = spec.get("ports", [])
        for index, port in enumerate(ports):
            check_time()
            requested, field = port.get("nodePort", 0), f"spec.ports[{index}].nodePort"
            if not requested and not allocates_all:
                continue
            if share:
                number = self._shared_port(port, requested_first, by_port, field)
            elif requested:
                if str(requested) not in self._new:
                    self._take_node_port(requested, field)
                number = requested
            else:
                number = self._next_port("nodePort")
            ports[index] = PORT.arranged({**port, "nodePort": number})

    def _shared_port(
        self, port: Object, requested_first: dict[int, int], by_port: dict[int, int], field: str
    ) -> int:
        requested, known = port.get("nodePort", 0), by_port.get(port["port"], 0)
        if known and requested in (0, known):
            return known
        wanted = requested if known else requested_first.get(port["port"], 0)
        if wanted:
            self._take_node_port(wanted, field)
        number = wanted or self._next_port("nodePort")
        by_port.setdefault(port["port"], number)
        return number

    def _allocate_health_check_port(self, spec: Object) -> None:
        requested = spec.get("healthCheckNodePort", 0)
        if requested:
            self._take_port(requested, "spec.healthCheckNodePort")
        else:
            spec["healthCheckNodePort"] = self._next_port("HealthCheck NodePort")

    def _next_port(self, what: str) -> int:
        if self._unchecked:
            number = max((int(item) for item in self._new if item.isdecimal()), default=NO_PORT) + 1
            self._new[str(number)] = None
            return number
        found = self._next(self._ports)
        if found is None:
            raise Exhausted(f"failed to allocate a {what}: range is full")
        return int(found)

    def _next(self, pool: AddressPool | PortPool) -> str | None:
        if pool not in self._cursors:
            self._cursors[pool] = pool.cursor()
        found = self._cursors[pool].next(self._is_free)
        if found is not None:
            self._new[found] = None
        return found

    def _take_node_port(self, number: int, field: str) -> None:
        if number not in self._own_node_ports:
            self._take_port(number, field)

    def _take_port(self, number: int, field: str) -> None:
        try:
            checked = self._ports.check(number)
        except NotInRange as error:
            if self._unchecked:
                return
            raise AllocationError([invalid(field, number, str(error))]) from None
        if not self._is_free(checked):
            raise AllocationError([invalid(field, number, PORT_TAKEN)])
        self._new[checked] = None

    def _is_free(self, item: str) -> bool:
        return item not in self._new and item not in self._own and self._allocated.is_free(item)


def _requested(ports: Iterable[Object]) -> dict[int, int]:
    """Return, by port, the first node port that the client requests for it."""
    return {port["port"]: port["nodePort"] for port in reversed(list(ports)) if port.get("nodePort")}


def keep_allocated_values(spec: Object, before: Object) -> None:
    """Copy allocated values that an update leaves out."""
    if needs_address(spec) and needs_address(before):
        for part in ("clusterIP", "clusterIPs"):
            if not spec.get(part) and before.get(part):
                spec[part] = before[part]
    if needs_node_ports(spec) and needs_node_ports(before):
        _keep_node_ports(spec, before)
    if needs_health_check(spec) and needs_health_check(before):
        spec.setdefault("healthCheckNodePort", before.get("healthCheckNodePort", 0))


def _keep_node_ports(spec: Object, before: Object) -> None:
    """Match ports by their names."""
    used = set(node_ports(before)) & set(node_ports(spec))
    by_name = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports", ())}
    for index, port in enumerate(spec.get("ports", ())):
        known = by_name.get(port.get("name", ""), 0)
        if not port.get("nodePort") and known and known not in used:
            spec["ports"][index] = {**port, "nodePort": known}


def normalize_cluster_ips(spec: Object, before: Object | None) -> None:
    """Update clusterIPs if the client changed only clusterIP."""
    ip = spec.get("clusterIP", "")
    if before is None:
        if ip and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [ip]
        return
    if ip == before.get("clusterIP", ""):
        if not spec.get("clusterIPs") and before.get("clusterIPs"):
            spec["clusterIPs"] = before["clusterIPs"]
    elif same("clusterIPs", spec, before):
        spec.pop("clusterIPs", None)
        if ip:
            spec["clusterIPs"] = [ip]


_POLICY = "spec.ipFamilyPolicy"


class AllocationError(Exception):
    """The service cannot get the items that it requests; the errors say why."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__(errors)
        self.errors = errors


def default_ip_families(
    spec: Object,
    before: Object | None,
    configured: Sequence[str],
    features: frozenset[str] = frozenset(),
) -> None:
    """Default ipFamilies and ipFamilyPolicy of a service, as Kubernetes does. Pure.

    `configured` has the one or two IP families of this cluster, the preferred one first. Every function changes
    `spec` or collects its errors.
    """
    if not needs_address(spec) or stays_prefer_dual_stack(spec, before):
        return
    if "ipFamilyPolicy" not in spec:
        spec["ipFamilyPolicy"] = _default_policy(spec, before)
    _raise_if(collect_with(features, address_rules, spec, before))
    _raise_if(collect_with(features, _infer_families, spec, before, configured))
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        _default_without_selector(spec, configured)
        return
    _raise_if(collect_with(features, _check_configured, spec, configured))
    families = spec.setdefault("ipFamilies", [configured[0]])
    if spec["ipFamilyPolicy"] != "SingleStack" and len(families) == 1 and len(configured) == 2:
        spec["ipFamilies"] = [*families, _other(families[0])]


def _infer_families(
    errors: FieldErrors, spec: Object, before: Object | None, configured: Sequence[str]
) -> None:
    _check_policy(errors, spec, before)
    _infer_from_addresses(errors, spec, configured)


def stays_prefer_dual_stack(spec: Object, before: Object | None) -> bool:
    """Whether an update leaves a service with PreferDualStack as it is."""
    if before is None or before["type"] != spec["type"]:
        return False
    return (
        spec.get("ipFamilyPolicy") == before.get("ipFamilyPolicy") == "PreferDualStack"
        and same("clusterIPs", spec, before)
        and same("ipFamilies", spec, before)
    )


def _default_policy(spec: Object, before: Object | None) -> str:
    if before is not None and "ipFamilyPolicy" in before:
        return str(before["ipFamilyPolicy"])
    unselected = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    return "RequireDualStack" if unselected else "SingleStack"


def _check_policy(errors: FieldErrors, spec: Object, before: Object | None) -> None:
    policy = spec["ipFamilyPolicy"]
    if policy != "SingleStack":
        _check_not_reduced(errors, spec, before or {}, policy)
        return
    for part, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
        values = spec.get(part, [])
        if before is not None and len(values) > 1 and same(part, spec, before):
            spec[part] = values[:1]  # the client asks for SingleStack: drop the second
        elif len(values) == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
            errors.add(invalid(_POLICY, policy, text))


def _check_not_reduced(errors: FieldErrors, spec: Object, before: Object, policy: str) -> None:
    for part, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        if 0 < len(spec.get(part, [])) < len(before.get(part, [])):
            text = f"must be 'SingleStack' to release the secondary {what}"
            errors.add(invalid(_POLICY, policy, text))


def _infer_from_addresses(errors: FieldErrors, spec: Object, configured: Sequence[str]) -> None:
    ips, families = spec.get("clusterIPs", []), spec.get("ipFamilies", [])
    if HEADLESS in ips:
        return
    for index, ip in enumerate(ips[len(families) :], start=len(families)):
        family = family_of(ip)
        if family in configured:
            spec["ipFamilies"] = families = [*families, family]
        else:
            text = f"{family} is not configured on this cluster"
            errors.add(invalid(f"spec.clusterIPs[{index}]", ips, text))


def _default_without_selector(spec: Object, configured: Sequence[str]) -> None:
    """A headless service without selector may have both families, whatever the cluster has."""
    families = spec.setdefault("ipFamilies", [configured[0]])
    if len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
        spec["ipFamilies"] = [*families, _other(families[0])]


def _check_configured(errors: FieldErrors, spec: Object, configured: Sequence[str]) -> None:
    if spec["ipFamilyPolicy"] == "RequireDualStack" and len(configured) < 2:
        text = "this cluster is not configured for dual-stack services"
        errors.add(invalid(_POLICY, spec["ipFamilyPolicy"], text))
    for index, family in enumerate(spec.get("ipFamilies", ())):
        if family not in configured:
            errors.add(invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))


def _other(family: str) -> str:
    return "IPv6" if family == "IPv4" else "IPv4"


def _raise_if(errors: list[FieldError]) -> None:
    if errors:
        raise AllocationError(errors)
