"""NetworkPolicy: which traffic some pods take and send.

Its status belongs to a feature. While that is off, one that comes with the policy is kept as it is sent, because
nothing looks at it; what is there then stays, and through its own path it can only be cleared.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.declaration.conditions import CONDITION, condition_rules
from actors.kinds.declaration.definition import Definition, DiscoveryNames, Storage, Subresource, Table
from actors.kinds.declaration.halves import count, keep_spec, keep_status, keep_status_and_count, start
from actors.kinds.declaration.label_selector import LABEL_SELECTOR, label_selector_rules
from actors.kinds.declaration.meta import METADATA, metadata_change_rules, metadata_rules
from actors.kinds.declaration.strategy import Strategy
from actors.kinds.features import POLICY_STATUS
from actors.kinds.networking import cells
from actors.kinds.schema.fields import INT32, INT_OR_STRING, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation.checks import (
    FieldError,
    Network,
    each,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    parse_network,
    port_number,
    required,
)
from actors.kinds.validation.formats import port_name
from actors.kinds.values.spelling import quoted
from actors.messages import Object
from actors.names import Names

PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
POLICY_TYPES: Final = ("Ingress", "Egress")

PORT = Struct(
    "networking.v1.NetworkPolicyPort",
    Field("protocol", STRING, 1, pointer=True, default="TCP"),
    Field("port", INT_OR_STRING, 2, pointer=True),
    Field("endPort", INT32, 3, pointer=True),
)
IP_BLOCK = Struct(
    "networking.v1.IPBlock",
    Field("cidr", STRING, 1, required=True, always=True),
    Field("except", STRINGS, 2),
)
PEER = Struct(
    "networking.v1.NetworkPolicyPeer",
    Field("podSelector", LABEL_SELECTOR, 1, pointer=True),
    Field("namespaceSelector", LABEL_SELECTOR, 2, pointer=True),
    Field("ipBlock", IP_BLOCK, 3, pointer=True),
)
INGRESS_RULE = Struct(
    "networking.v1.NetworkPolicyIngressRule", Field("ports", ListOf(PORT), 1), Field("from", ListOf(PEER), 2)
)
EGRESS_RULE = Struct(
    "networking.v1.NetworkPolicyEgressRule", Field("ports", ListOf(PORT), 1), Field("to", ListOf(PEER), 2)
)
SPEC = Struct(
    "networking.v1.NetworkPolicySpec",
    Field("podSelector", LABEL_SELECTOR, 1, required=True),
    Field("ingress", ListOf(INGRESS_RULE), 2),
    Field("egress", ListOf(EGRESS_RULE), 3),
    Field("policyTypes", STRINGS, 4),
)
STATUS = Struct(
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
    "networking.v1.NetworkPolicy", METADATA, Field("spec", SPEC, 2), Field("status", STATUS, 3)
)


def define(names: Names, features: frozenset[str] = frozenset()) -> Definition:
    told = POLICY_STATUS in features
    return Definition(
        group=names.group("networking"),
        version="v1",
        kind="NetworkPolicy",
        plural="networkpolicies",
        names=DiscoveryNames(short_names=("netpol",)),
        namespaced=True,
        check_name=name_is_subdomain,
        fields=NETWORK_POLICY,
        set_defaults=fill,
        subresources=(
            Subresource(
                name="status", prepare=keep_spec if told else prepare_cleared_status, validate=status_rules
            ),
        ),
        storage=Storage(error_group="extensions"),  # where the kind comes from
        table=Table(cells.NETWORK_POLICY),
        strategy=Strategy(
            prepare_for_create=partial(start, STATUS) if told else prepare_create,
            prepare_for_update=keep_status_and_count if told else prepare_update,
            validate_create=rules,
            validate_update=change_rules,
        ),
    )


def fill(new: Object) -> None:
    """A policy is about what comes in, and about what goes out when it says anything of that."""
    spec = new["spec"]
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", "Egress"] if "egress" in spec else ["Ingress"]


def prepare_create(new: Object) -> None:
    """As long as there is no feature to report it, nobody looks at a status that comes with the policy."""
    new["metadata"]["generation"] = 1


def prepare_update(new: Object, old: Object) -> None:
    if old["status"]:
        keep_status(new, old)
    count(new, old)


def prepare_cleared_status(new: Object, old: Object) -> None:
    keep_spec(new, old)
    if new["status"]:
        new["status"] = old["status"]


def rules(new: Object) -> list[FieldError]:
    spec = new["spec"]
    return [
        *label_selector_rules(spec["podSelector"], "spec.podSelector"),
        *_traffic(spec.get("ingress", []), "from", "spec.ingress"),
        *_traffic(spec.get("egress", []), "to", "spec.egress"),
        *_policy_types(spec.get("policyTypes", [])),
    ]


def change_rules(new: Object, old: Object) -> list[FieldError]:
    judged = rules(new)
    return [
        *metadata_rules(new["metadata"], namespaced=True, check_name=name_is_subdomain),
        *judged,
        *metadata_change_rules(new["metadata"], old["metadata"]),
        *judged,
    ]


def status_rules(new: Object, _: Object) -> list[FieldError]:
    return condition_rules(new["status"].get("conditions", ()), "status.conditions")


def _traffic(rules: list[Object], peers: str, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(rules):
        for number, port in enumerate(rule.get("ports", ())):
            errors += _port(port, f"{field}[{index}].ports[{number}]")
        for number, peer in enumerate(rule.get(peers, ())):
            errors += _peer(peer, f"{field}[{index}].{peers}[{number}]")
    return errors


def _port(port: Object, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if port["protocol"] not in PROTOCOLS:
        errors.append(not_supported(f"{field}.protocol", port["protocol"], PROTOCOLS))
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, int):
        return errors + _port_range(first, last, field)
    if last is not None:
        why = "not specified" if first is None else "non-numeric"
        errors.append(invalid(f"{field}.endPort", last, f"may not be specified when `port` is {why}"))
    return errors if first is None else errors + each(f"{field}.port", first, port_name(first))


def _port_range(first: int, last: int | None, field: str) -> list[FieldError]:
    errors = [invalid(f"{field}.port", first, text) for text in port_number(first)]
    if last is None:
        return errors
    if last < first:
        errors.append(invalid(f"{field}.endPort", first, "must be greater than or equal to `port`"))
    return errors + [invalid(f"{field}.endPort", last, text) for text in port_number(last)]


def _peer(peer: Object, field: str) -> list[FieldError]:
    errors = [
        *label_selector_rules(peer.get("podSelector"), f"{field}.podSelector"),
        *label_selector_rules(peer.get("namespaceSelector"), f"{field}.namespaceSelector"),
    ]
    if "ipBlock" in peer:
        errors += _ip_block(peer["ipBlock"], f"{field}.ipBlock")
    if not peer:
        errors.append(required(field, "must specify a peer"))
    elif len(peer) > 1 and "ipBlock" in peer:
        errors.append(forbidden(field, "may not specify both ipBlock and another peer"))
    return errors


def _ip_block(block: Object, field: str) -> list[FieldError]:
    if not block["cidr"]:
        return [required(f"{field}.cidr")]
    whole = parse_network(block["cidr"])
    if whole is None:
        return [invalid(f"{field}.cidr", block["cidr"], "not a valid CIDR")]
    errors: list[FieldError] = []
    for index, text in enumerate(block.get("except", ())):
        part, here = parse_network(text), f"{field}.except[{index}]"
        if part is None:
            return [*errors, invalid(here, text, "not a valid CIDR")]
        if not _strictly_inside(part, whole):
            errors.append(invalid(here, text, "must be a strict subset of `cidr`"))
    return errors


def _strictly_inside(part: Network, whole: Network) -> bool:
    return (
        part.version == whole.version and part.network_address in whole and part.prefixlen > whole.prefixlen
    )


def _policy_types(types: list[str]) -> list[FieldError]:
    field = "spec.policyTypes"
    if len(types) > len(POLICY_TYPES):
        listed = ", ".join(quoted(one) for one in types)
        text = (
            f"Invalid value: []networking.PolicyType{{{listed}}}: may not specify more than two policyTypes"
        )
        return [FieldError("FieldValueInvalid", field, text)]
    return [
        not_supported(f"{field}[{index}]", one, POLICY_TYPES)
        for index, one in enumerate(types)
        if one not in POLICY_TYPES
    ]
