r"""Field selectors: `metadata.name=a,type!=Opaque`, as Kubernetes reads them.

Only `=`, `==` and `!=` exist, joined by commas. In a value, `\,` `\=` and `\\` stand for the character
itself. The definition of a kind lists its selectable fields (`Definition.selection`); here a field
is any text before the first operator. A field that an object does not have counts as the empty string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from rewound.actors.errors import BadRequest
from rewound.actors.selectors.facts import LateField, field_bytes

# Kubernetes limits only the size of the request's headers.
MAX_TERMS = 3000

_TERM = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)
_OPERATOR = re.compile("!=|==|=")
_ESCAPE = re.compile(r"\\(.?)|[,=]", re.DOTALL)
_SPECIAL = re.compile(r"[\\,=]")


class FieldRequirement(NamedTuple):
    field: str
    operator: Literal["=", "!="]
    value: str

    def matches(self, fields: Mapping[str, str]) -> bool:
        return (fields.get(self.field, "") == self.value) is (self.operator == "=")

    def __str__(self) -> str:
        return self.field + self.operator + _SPECIAL.sub(lambda found: "\\" + found[0], self.value)


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All requirements must hold; a selector without requirements selects everything."""

    requirements: tuple[FieldRequirement, ...]  # sorted, each once
    late: tuple[LateField, ...] = field(default=(), compare=False)  # those that facts may lack

    @classmethod
    def parse(cls, text: str) -> FieldSelector:
        if text.count(",") >= MAX_TERMS:
            raise BadRequest(f"a field selector may have at most {MAX_TERMS} requirements")
        # Sort before parsing, so that of several mistakes always the same one is reported.
        terms = sorted(_TERM.findall(text))
        return cls(tuple(sorted({_requirement(text, term) for term in terms})))

    def exact(self, field: str) -> str | None:
        """Return the value that this selector requires for a field, or None if it requires none."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.operator == "=":
                return requirement.value
        return None

    def renamed(self, name_of: Callable[[str], str]) -> FieldSelector:
        """Return the same selector with other field names."""
        renamed = (one._replace(field=name_of(one.field)) for one in self.requirements)
        return FieldSelector(tuple(sorted(renamed)))

    def reading(self, late: Mapping[str, bytes], read: Mapping[str, Callable[[Any], str]]) -> FieldSelector:
        """Return the same selector, which reads fields that facts lack; `late` has the key in JSON of each."""
        named = {one.field for one in self.requirements} & late.keys()
        fields = (LateField(name, field_bytes(name), late[name], read[name]) for name in sorted(named))
        return replace(self, late=tuple(fields)) if named else self

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all(requirement.matches(fields) for requirement in self.requirements)

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def _requirement(text: str, term: str) -> FieldRequirement:
    found = _OPERATOR.search(term)
    if found is None:
        raise BadRequest(f"invalid selector: '{text}'; can't understand '{term}'")
    field, value = term[: found.start()], term[found.end() :]
    return FieldRequirement(field, "!=" if found[0] == "!=" else "=", _ESCAPE.sub(_unescaped, value))


def _unescaped(found: re.Match[str]) -> str:
    if found[0] in ("\\\\", "\\,", "\\="):
        return found[1]
    if found[0].startswith("\\"):
        raise BadRequest(f"invalid field selector: invalid escape sequence: {found[0]}")
    # The position in this text is part of the wording that clients know.
    raise BadRequest(f"invalid field selector: unescaped character in value: {ord(found[0])}")
