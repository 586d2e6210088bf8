"""The configuration of flow control, from the stored FlowSchemas and PriorityLevelConfigurations. Pure.

A FlowSchema whose level does not exist is left out. The mandatory objects are always there, stored or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.access.authorize import Attributes
from actors.flowcontrol.initial_objects import CATCH_ALL, MANDATORY
from actors.flowcontrol.matching import matches
from actors.kinds import flowcontrol
from actors.messages import Object


@dataclass(frozen=True, slots=True)
class LevelSettings:
    name: str
    uid: str
    exempt: bool
    seats: int = 0  # requests of one seat that may run at once
    rejects: bool = False  # without a queue
    queues: int = 1
    hand_size: int = 1
    queue_length: int = 0


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    name: str
    uid: str
    level: str
    precedence: int
    by_user: bool
    by_namespace: bool
    spec: Object

    def distinguisher(self, request: Attributes) -> str:
        """What separates the flows of this schema."""
        if self.by_user:
            return request.user.name
        return request.namespace if self.by_namespace else ""


@dataclass(frozen=True, slots=True)
class Configuration:
    levels: Mapping[str, LevelSettings]
    schemas: tuple[SchemaSettings, ...]  # in the order of matching

    def classify(self, request: Attributes) -> SchemaSettings:
        for schema in self.schemas:
            if matches(schema.spec, request):
                return schema
        return next(schema for schema in self.schemas if schema.name == CATCH_ALL)


def configure(schemas: Iterable[Object], levels: Iterable[Object], seats: int) -> Configuration:
    """`seats` are shared by all levels that are limited."""
    level_specs = _with_mandatory(levels, flowcontrol.MANDATORY_PRIORITY_LEVELS)
    shares = sum(_shares(spec) for _, spec in level_specs.values())
    settings = {name: _level(name, *one, seats, shares) for name, one in level_specs.items()}
    found = [
        _schema(name, *one)
        for name, one in _with_mandatory(schemas, flowcontrol.MANDATORY_FLOW_SCHEMAS).items()
    ]
    usable = [schema for schema in found if schema.level in settings]
    return Configuration(settings, tuple(sorted(usable, key=lambda one: (one.precedence, one.name))))


def _with_mandatory(stored: Iterable[Object], mandatory: Mapping[str, Any]) -> dict[str, tuple[str, Object]]:
    """Uid and spec by name; the mandatory ones have no uid until they are stored."""
    specs: dict[str, tuple[str, Object]] = {name: ("", mandatory[name]) for name in MANDATORY}
    for one in stored:
        specs[one["metadata"]["name"]] = (one["metadata"]["uid"], one["spec"])
    return specs


def _shares(spec: Object) -> int:
    return int(spec["limited"]["assuredConcurrencyShares"]) if spec["type"] == "Limited" else 0


def _level(name: str, uid: str, spec: Object, seats: int, shares: int) -> LevelSettings:
    if spec["type"] != "Limited":
        return LevelSettings(name, uid, exempt=True)
    own = -(-seats * _shares(spec) // shares)
    queuing = spec["limited"]["limitResponse"].get("queuing")
    if queuing is None:
        return LevelSettings(name, uid, exempt=False, seats=own, rejects=True)
    return LevelSettings(
        name,
        uid,
        exempt=False,
        seats=own,
        queues=queuing["queues"],
        hand_size=queuing["handSize"],
        queue_length=queuing["queueLengthLimit"],
    )


def _schema(name: str, uid: str, spec: Object) -> SchemaSettings:
    method = (spec.get("distinguisherMethod") or {}).get("type")
    return SchemaSettings(
        name,
        uid,
        spec["priorityLevelConfiguration"]["name"],
        spec["matchingPrecedence"],
        method == "ByUser",
        method == "ByNamespace",
        spec,
    )
