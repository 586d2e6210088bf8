"""The selectors of devices: CEL expressions about one device, `device.attributes["dra.example.com"].model == "a"`.

Expressions are checked when an object is written, with a bound of their cost; the scheduler evaluates them
(`actors.scheduler.device_selectors`). The library has no `includes` yet: expressions that use it are only parsed, as
are those with versions before all expressions may use them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rewound.actors.cel.checker import Checked, check
from rewound.actors.cel.cost_estimate import estimate
from rewound.actors.cel.language import Language, language_of
from rewound.actors.cel.parser import parse
from rewound.actors.cel.syntax import Expression, Problems
from rewound.actors.cel.types import ANY, BOOL, DYN, STRING, Environment, MessageType, Type, map_of
from rewound.actors.names import Names
from rewound.actors.versions.features import CEL_BINDINGS, CEL_SEMVER, CONSUMABLE_CAPACITY, LIST_ATTRIBUTES

TOO_COMPLEX: Final = "too complex, exceeds cost limit"
MAX_COST: Final = 1_000_000
LONGEST_DOMAIN, LONGEST_ID, LONGEST_DRIVER, LONGEST_VALUE, MOST_VALUES, MOST_PROPERTIES = (
    63,
    32,
    63,
    64,
    48,
    32,
)
# What only selectors of devices have, and this library has not.
_names_unknown = re.compile(r"\.\s*includes\s*\(").search
_names_versions = re.compile(r"\b(semver|isSemver)\b").search


def selector_error(names: Names, features: frozenset[str], expression: str) -> str:
    """Return what is wrong with an expression; empty: nothing."""
    language = _language(names, features)
    parsed = parse(expression, language)
    if isinstance(parsed, Problems):
        return "" if _names_unknown(expression) else f"compilation failed: {parsed}"
    if _names_unknown(expression) or (CEL_SEMVER not in language.features and _names_versions(expression)):
        return ""
    checked = _checked(names, features, parsed, language)
    if isinstance(checked, str):
        return checked
    return TOO_COMPLEX if estimate(checked, _Sizes()).most > MAX_COST else ""


def checked_selector(
    names: Names, features: frozenset[str], expression: str
) -> tuple[Expression, Checked] | str:
    """Return a stored expression for its evaluation, or what is wrong with it."""
    language = _language(names, features, stored=True)
    parsed = parse(expression, language)
    if isinstance(parsed, Problems):
        return f"compilation failed: {parsed}"
    checked = _checked(names, features, parsed, language)
    return checked if isinstance(checked, str) else (parsed, checked)


def _language(names: Names, features: frozenset[str], *, stored: bool = False) -> Language:
    return language_of(names, features, stored=stored, also=(CEL_BINDINGS,))


def _checked(names: Names, features: frozenset[str], parsed: Expression, language: Language) -> Checked | str:
    lists = LIST_ATTRIBUTES in features
    device = _device_type(names, CONSUMABLE_CAPACITY in features, DYN if lists else ANY)
    checked = check(parsed, Environment({"device": Type(device.name)}, {device.name: device}, language))
    if isinstance(checked, Problems):
        return f"compilation failed: {checked}"
    if checked.result not in ((BOOL, ANY, DYN) if lists else (BOOL, ANY)):
        return f"must evaluate to bool or the unknown type, not {checked.result}"
    return checked


def _device_type(names: Names, consumable: bool, attribute: Type) -> MessageType:
    prefix = names.url_type.rpartition(".")[0]
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, attribute)),
        "capacity": map_of(STRING, map_of(STRING, Type("kubernetes.Quantity"))),
    }
    return MessageType(
        f"{prefix}.DRADevice", {**fields, "allowMultipleAllocations": BOOL} if consumable else fields
    )


class _Sizes:
    """How long the strings and maps of a device can be."""

    def most(self, path: Sequence[str]) -> int | None:
        match path[1:]:
            case ["driver"]:
                return LONGEST_DRIVER
            case ["allowMultipleAllocations"]:
                return 1
            case ["attributes" | "capacity"] | ["attributes" | "capacity", "@values"]:
                return MOST_PROPERTIES
            case [_, "@keys"]:
                return LONGEST_DOMAIN
            case [_, "@values", "@keys"]:
                return LONGEST_ID
            case ["attributes", "@values", _]:
                return LONGEST_VALUE
        return None
