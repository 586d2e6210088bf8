"""NetworkPolicy: which ingress and egress traffic the selected pods allow.

Its status belongs to the feature NetworkPolicyStatus. While that is disabled, a create stores the status that the
client sent, an update keeps the stored one, and the `status` subresource can only clear it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.kinds.declaration.definition import (
    Definition,
    DiscoveryNames,
    Storage,
    Strategy,
    Subresource,
    Table,
    bump_generation,
    keep_spec,
    keep_status,
    keep_status_and_bump_generation,
    reset_status_and_generation,
)
from actors.kinds.declaration.meta import (
    CONDITION,
    LABEL_SELECTOR,
    METADATA,
    condition_rules,
    label_selector_rules,
    metadata_rules,
    metadata_update_rules,
)
from actors.kinds.features import POLICY_STATUS
from actors.kinds.networking import columns
from actors.kinds.schema.fields import INT32, INT_OR_STRING, STRING, STRINGS, Field, ListOf, Struct
from actors.kinds.validation import (
    FieldError,
    FieldErrors,
    Network,
    forbidden,
    invalid,
    name_is_subdomain,
    not_supported,
    parse_network,
    port_name,
    port_number,
    required,
)
from actors.messages import Object
from actors.names import Names
from actors.quoting import quoted_list

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
        set_defaults=set_defaults,
        subresources=(
            Subresource(
                name="status",
                prepare=keep_spec if has_status else prepare_status_clear,
                validate=status_rules,
            ),
        ),
        storage=Storage(error_group="extensions"),  # the group that the kind was moved from
        table=Table(columns.NETWORK_POLICY),
        strategy=Strategy(
            prepare_for_create=partial(reset_status_and_generation, STATUS) if has_status else prepare_create,
            prepare_for_update=keep_status_and_bump_generation if has_status else prepare_update,
            validate_create=rules,
            validate_update=update_rules,
        ),
    )


def set_defaults(new: Object) -> None:
    """policyTypes defaults to Ingress, and to Ingress and Egress where the policy has egress rules."""
    spec = new["spec"]
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress", "Egress"] if "egress" in spec else ["Ingress"]


def prepare_create(new: Object) -> None:
    """While the feature is disabled, a create stores the status as the client sent it."""
    new["metadata"]["generation"] = 1


def prepare_update(new: Object, old: Object) -> None:
    if old["status"]:
        keep_status(new, old)
    bump_generation(new, old)


def prepare_status_clear(new: Object, old: Object) -> None:
    keep_spec(new, old)
    if new["status"]:
        new["status"] = old["status"]


def rules(errors: FieldErrors, new: Object) -> None:
    spec = new["spec"]
    label_selector_rules(errors, spec["podSelector"], "spec.podSelector")
    _traffic(errors, spec.get("ingress", []), "from", "spec.ingress")
    _traffic(errors, spec.get("egress", []), "to", "spec.egress")
    _policy_types(errors, spec.get("policyTypes", []))


def update_rules(errors: FieldErrors, new: Object, old: Object) -> None:
    metadata_rules(errors, new["metadata"], namespaced=True, check_name=name_is_subdomain)
    own = errors.added_by(rules, new)
    metadata_update_rules(errors, new["metadata"], old["metadata"])
    errors.add_all(own)


def status_rules(errors: FieldErrors, new: Object, _: Object) -> None:
    condition_rules(errors, new["status"].get("conditions", ()), "status.conditions")


def _traffic(errors: FieldErrors, rules: list[Object], peers: str, field: str) -> None:
    for index, rule in enumerate(rules):
        for number, port in enumerate(rule.get("ports", ())):
            _port(errors, port, f"{field}[{index}].ports[{number}]")
        for number, peer in enumerate(rule.get(peers, ())):
            _peer(errors, peer, f"{field}[{index}].{peers}[{number}]")


def _port(errors: FieldErrors, port: Object, field: str) -> None:
    if port["protocol"] not in PROTOCOLS:
        errors.add(not_supported(f"{field}.protocol", port["protocol"], PROTOCOLS))
    first, last = port.get("port"), port.get("endPort")
    if isinstance(first, int):
        _port_range(errors, first, last, field)
        return
    if last is not None:
        why = "not specified" if first is None else "non-numeric"
        errors.add(invalid(f"{field}.endPort", last, f"may not be specified when `port` is {why}"))
    if first is not None:
        errors.add_each(f"{field}.port", first, port_name(first))


def _port_range(errors: FieldErrors, first: int, last: int | None, field: str) -> None:
    errors.add_each(f"{field}.port", first, port_number(first))
    if last is None:
        return
    if last < first:
        errors.add(invalid(f"{field}.endPort", first, "must be greater than or equal to `port`"))
    errors.add_each(f"{field}.endPort", last, port_number(last))


def _peer(errors: FieldErrors, peer: Object, field: str) -> None:
    label_selector_rules(errors, peer.get("podSelector"), f"{field}.podSelector")
    label_selector_rules(errors, peer.get("namespaceSelector"), f"{field}.namespaceSelector")
    if "ipBlock" in peer:
        _ip_block(errors, peer["ipBlock"], f"{field}.ipBlock")
    if not peer:
        errors.add(required(field, "must specify a peer"))
    elif len(peer) > 1 and "ipBlock" in peer:
        errors.add(forbidden(field, "may not specify both ipBlock and another peer"))


def _ip_block(errors: FieldErrors, block: Object, field: str) -> None:
    if not block["cidr"]:
        errors.add(required(f"{field}.cidr"))
        return
    whole = parse_network(block["cidr"])
    if whole is None:
        errors.add(invalid(f"{field}.cidr", block["cidr"], "not a valid CIDR"))
        return
    for index, text in enumerate(block.get("except", ())):
        part, here = parse_network(text), f"{field}.except[{index}]"
        if part is None:
            errors.add(invalid(here, text, "not a valid CIDR"))
            return
        if not _is_strict_subset(part, whole):
            errors.add(invalid(here, text, "must be a strict subset of `cidr`"))


def _is_strict_subset(part: Network, whole: Network) -> bool:
    return (
        part.version == whole.version and part.network_address in whole and part.prefixlen > whole.prefixlen
    )


def _policy_types(errors: FieldErrors, types: list[str]) -> None:
    field = "spec.policyTypes"
    if len(types) > len(POLICY_TYPES):
        listed = quoted_list(types)
        text = (
            f"Invalid value: []networking.PolicyType{{{listed}}}: may not specify more than two policyTypes"
        )
        errors.add(FieldError("FieldValueInvalid", field, text))
        return
    for index, one in enumerate(types):
        if one not in POLICY_TYPES:
            errors.add(not_supported(f"{field}[{index}]", one, POLICY_TYPES))
