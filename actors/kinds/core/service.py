"""Service: a name and an address for a set of pods, inside the cluster or beyond it.

Many fields belong to some of the four types only. An update that changes the type drops the fields that the new
type does not use, unless the client changed them too and so has to get an error.
Admission allocates addresses and node ports before any of this runs (actors/admission/plugins/service_allocation).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.core.connect_options import connecting
from actors.kinds.core.load_balancer import LOAD_BALANCER_STATUS, load_balancer_rules
from actors.kinds.core.services.addresses import address_update_rules
from actors.kinds.core.services.cells import COLUMNS
from actors.kinds.core.services.rules import (
    AFFINITIES,
    PROTOCOLS,
    TRAFFIC_POLICIES,
    load_balancer_class_rules,
    service_rules,
)
from actors.kinds.core.services.traits import (
    TYPES,
    needs_address,
    needs_health_check,
    needs_node_ports,
    node_ports,
    same,
)
from actors.kinds.declaration.definition import (
    Definition,
    Deletion,
    DiscoveryNames,
    Strategy,
    Subresource,
    Table,
    clear_status,
    keep_spec,
    keep_status,
)
from actors.kinds.declaration.meta import CONDITION, METADATA, metadata_rules, metadata_update_rules
from actors.kinds.schema.fields import (
    BOOL,
    INT32,
    INT_OR_STRING,
    STRING,
    STRING_MAP,
    STRINGS,
    Field,
    ListOf,
    Struct,
)
from actors.kinds.validation import FieldErrors, forbidden, name_is_1035_label
from actors.messages import Object
from actors.names import Names

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
    Field("externalIPs", STRINGS, 5),
    Field("sessionAffinity", STRING, 7, default="None", enum=AFFINITIES),
    Field("loadBalancerIP", STRING, 8),
    Field("loadBalancerSourceRanges", STRINGS, 9),
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


def define(names: Names) -> Definition:
    ranges_key = names.key("load-balancer-source-ranges", "service.beta")
    return Definition(
        group="",
        version="v1",
        kind="Service",
        plural="services",
        names=DiscoveryNames(short_names=("svc",), categories=("all",)),
        namespaced=True,
        check_name=name_is_1035_label,
        fields=SERVICE,
        set_defaults=set_defaults,
        subresources=(
            connecting("proxy", "ServiceProxyOptions"),
            Subresource(name="status", prepare=keep_spec, validate=status_rules),
        ),
        deletion=Deletion(returns_object=True),
        table=Table(COLUMNS),
        strategy=Strategy(
            allow_create_on_update=True,
            prepare_for_create=prepare_create,
            prepare_for_update=prepare_update,
            validate_create=partial(service_rules, ranges_key=ranges_key),
            validate_update=partial(update_rules, ranges_key=ranges_key),
        ),
    )


def set_defaults(new: Object) -> None:
    spec = new["spec"]
    for port in spec.get("ports", ()):
        port["targetPort"] = port["targetPort"] or port["port"]
    _set_affinity_defaults(spec)
    if needs_node_ports(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] in TYPES and needs_address(spec):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    new["spec"] = SPEC.arranged(spec)


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


def prepare_update(new: Object, old: Object) -> None:
    keep_status(new, old)
    spec, before = new["spec"], old["spec"]
    _drop_address(spec, before)
    _drop_ports(spec, before)
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


def _drop_ports(spec: Object, before: Object) -> None:
    if needs_node_ports(before) and not needs_node_ports(spec):
        if "ports" in spec and set(node_ports(spec)) <= set(node_ports(before)):
            spec["ports"] = [
                {part: value for part, value in port.items() if part != "nodePort"} for port in spec["ports"]
            ]
        if same("externalTrafficPolicy", spec, before):
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


def update_rules(errors: FieldErrors, new: Object, old: Object, ranges_key: str) -> None:
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
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_1035_label)
    service_rules(errors, new, ranges_key)


def status_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    load_balancer_rules(errors, new["status"]["loadBalancer"], "status.loadBalancer")
