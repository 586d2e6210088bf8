"""PriorityLevelConfiguration: how many requests of a level run at once, and whether others queue or fail."""

from __future__ import annotations

import math
from typing import Final

from actors.kinds.declaration.columns import AGE, NAME, NONE, Column, at
from actors.kinds.declaration.definition import Definition
from actors.kinds.declaration.meta import METADATA
from actors.kinds.flowcontrol.kind import flow_control_kind
from actors.kinds.flowcontrol.status import status_of, status_rules
from actors.kinds.schema.fields import INT32, STRING, Field, Struct
from actors.kinds.validation import FieldErrors, forbidden, invalid, not_supported, required
from actors.messages import Object
from actors.names import Names

TYPES: Final = ("Exempt", "Limited")
RESPONSES: Final = ("Queue", "Reject")
MAX_QUEUES: Final = 10_000_000
MAX_HASH_BITS: Final = 60  # of the hash that shuffle sharding deals a hand of queues from
POSITIVE: Final = "must be positive"
# The mandatory objects, whose specs no client may change.
MANDATORY: Final = {
    "exempt": {"type": "Exempt"},
    "catch-all": {
        "type": "Limited",
        "limited": {"assuredConcurrencyShares": 5, "limitResponse": {"type": "Reject"}},
    },
}

QUEUING = Struct(
    "flowcontrol.v1beta2.QueuingConfiguration",
    Field("queues", INT32, 1, always=True, default=64),
    Field("handSize", INT32, 2, always=True, default=8),
    Field("queueLengthLimit", INT32, 3, always=True, default=50),
)
LIMIT_RESPONSE = Struct(
    "flowcontrol.v1beta2.LimitResponse",
    Field("type", STRING, 1, required=True, always=True),
    Field("queuing", QUEUING, 2, pointer=True),
    union="type",
)
LIMITED = Struct(
    "flowcontrol.v1beta2.LimitedPriorityLevelConfiguration",
    Field("assuredConcurrencyShares", INT32, 1, always=True, default=30),
    Field("limitResponse", LIMIT_RESPONSE, 2),
)
SPEC = Struct(
    "flowcontrol.v1beta2.PriorityLevelConfigurationSpec",
    Field("type", STRING, 1, required=True, always=True),
    Field("limited", LIMITED, 2, pointer=True),
    union="type",
)
STATUS = status_of("PriorityLevelConfiguration")
PRIORITY_LEVEL = Struct(
    "flowcontrol.v1beta2.PriorityLevelConfiguration",
    METADATA,
    Field("spec", SPEC, 2),
    Field("status", STATUS, 3),
)


def _queuing_column(name: str, part: str, description: str) -> Column:
    path = ("spec", "limited", "limitResponse", "queuing", part)
    return Column(name, "string", description, at(*path, missing=NONE))


COLUMNS: Final = (
    NAME,
    Column("Type", "string", "Whether concurrency is limited: Exempt or Limited.", at("spec", "type")),
    Column(
        "AssuredConcurrencyShares",
        "string",
        "Its share of the server's concurrency limit.",
        at("spec", "limited", "assuredConcurrencyShares", missing=NONE),
    ),
    _queuing_column("Queues", "queues", "Number of queues."),
    _queuing_column("HandSize", "handSize", "Number of queues that a flow may use."),
    _queuing_column("QueueLengthLimit", "queueLengthLimit", "Maximum number of requests in a queue."),
    AGE,
)


def define(names: Names) -> Definition:
    return flow_control_kind(names, "PriorityLevelConfiguration", PRIORITY_LEVEL, STATUS, COLUMNS, rules)


def rules(errors: FieldErrors, new: Object) -> None:
    name, spec = new["metadata"].get("name", ""), new["spec"]
    if (name == "exempt") is not (spec["type"] == "Exempt"):
        text = "type must be 'Exempt' if and only if name is 'exempt'"
        errors.add(invalid("spec.type", spec["type"], text))
    _limits(errors, spec)
    if name in MANDATORY and spec != MANDATORY[name]:
        errors.add(invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
    status_rules(errors, new)


def _limits(errors: FieldErrors, spec: Object) -> None:
    kind, limited, field = spec["type"], spec.get("limited"), "spec.limited"
    if kind not in TYPES:
        errors.add(not_supported("spec.type", kind, TYPES))
        return
    if kind == "Exempt":
        text = "must be nil if the type is not Limited"
        if limited is not None:
            errors.add(forbidden(field, text))
        return
    if limited is None:
        errors.add(required(field, "must not be empty when type is Limited"))
        return
    shares = limited["assuredConcurrencyShares"]
    if shares <= 0:
        errors.add(invalid(f"{field}.assuredConcurrencyShares", shares, POSITIVE))
    _response(errors, limited["limitResponse"], f"{field}.limitResponse")


def _response(errors: FieldErrors, response: Object, field: str) -> None:
    kind, queuing = response["type"], response.get("queuing")
    if kind not in RESPONSES:
        errors.add(not_supported(f"{field}.type", kind, RESPONSES))
        return
    if kind == "Reject":
        text = "must be nil if limited.limitResponse.type is not Limited"
        if queuing is not None:
            errors.add(forbidden(f"{field}.queuing", text))
        return
    if queuing is None:
        text = "must not be empty if limited.limitResponse.type is Limited"
        errors.add(required(f"{field}.queuing", text))
        return
    _queuing(errors, queuing, f"{field}.queuing")


def _queuing(errors: FieldErrors, queuing: Object, field: str) -> None:
    length, queues = queuing["queueLengthLimit"], queuing["queues"]
    if length <= 0:
        errors.add(invalid(f"{field}.queueLengthLimit", length, POSITIVE))
    if queues <= 0:
        errors.add(invalid(f"{field}.queues", queues, POSITIVE))
    elif queues > MAX_QUEUES:
        errors.add(invalid(f"{field}.queues", queues, f"must not be greater than {MAX_QUEUES}"))
    hand = queuing["handSize"]
    wrong = _hand_size_error(hand, queues)
    if wrong:
        errors.add(invalid(f"{field}.handSize", hand, wrong))


def _hand_size_error(hand: int, queues: int) -> str:
    if hand <= 0:
        return POSITIVE
    if hand > queues:
        return f"should not be greater than queues ({queues})"
    if math.ceil(math.log2(queues) * hand) <= MAX_HASH_BITS:
        return ""
    return (
        f"required entropy bits of deckSize {queues} and handSize {hand} "
        f"should not be greater than {MAX_HASH_BITS}"
    )
