"""Named formats of texts: `format.dns1123Label().validate('a.b').value()` is a list of what is wrong.

The texts are those that validation of objects uses (`kinds.validation`), in the wording of 1.31 and later.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from rewound.actors.cel.urls import InvalidURL, parse_request_url
from rewound.actors.cel.values import NONE, EvaluationError, Optional, no_such_overload
from rewound.actors.runtime.budget import Budget

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

# The same as the patterns in the texts, without backtracking.
_LABEL_ONCE: Final = "[a-z0-9][-a-z0-9]*+(?<!-)"
_QUALIFIED_ONCE: Final = "[A-Za-z0-9][-A-Za-z0-9_.]*+(?<![-_.])"
_is_label: Final = re.compile(_LABEL_ONCE).fullmatch
_is_1035_label: Final = re.compile("[a-z][-a-z0-9]*+(?<!-)").fullmatch
_is_subdomain: Final = re.compile(rf"{_LABEL_ONCE}(?:\.{_LABEL_ONCE})*+").fullmatch
_is_qualified: Final = re.compile(_QUALIFIED_ONCE).fullmatch
_is_label_value: Final = re.compile(f"(?:{_QUALIFIED_ONCE})?").fullmatch
_is_uuid: Final = re.compile(
    "[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII
).fullmatch
_is_base64: Final = re.compile(
    "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
).fullmatch
_is_clock: Final = re.compile(
    "(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})"
).fullmatch
_DATE: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")


@dataclass(frozen=True, slots=True)
class Format:
    """`pattern_size` is the length of the pattern that its cost assumes."""

    name: str
    check: Callable[[str], list[str]]
    pattern_size: int

    type_name = "kubernetes.NamedFormat"

    def equals(self, other: Any, _: Budget) -> bool:
        if other.__class__ is not Format:
            raise other if isinstance(other, EvaluationError) else no_such_overload()
        return self.name == other.name

    def validate(self, text: str) -> Optional:
        wrong = self.check(text)
        return Optional(list(wrong)) if wrong else NONE


def _explained(text: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{one}', " for one in examples)
    return f"{text} (e.g. {listed}regex used for validation is '{pattern}')"


_ENDS: Final = "and must start and end with an alphanumeric character"
_LABEL_TEXT: Final = _explained(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ENDS}",
    _LABEL,
    "my-name",
    "123-abc",
)
_LABEL_1035_TEXT: Final = _explained(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_SUBDOMAIN_TEXT: Final = _explained(
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}",
    _SUBDOMAIN,
    "example.com",
)
_QUALIFIED_TEXT: Final = _explained(
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    _QUALIFIED,
    "MyName",
    "my.name",
    "123-abc",
)
_LABEL_VALUE_TEXT: Final = _explained(
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS}",
    f"({_QUALIFIED})?",
    "MyValue",
    "my_value",
    "12345",
)
_UNITS: Final = ("characters", "bytes")


def _too_long(text: str, most: int, unit: str = "characters") -> list[str]:
    size = len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
    return [f"must be no more than {most} {unit}"] if size > most else []


def _label(text: str) -> list[str]:
    wrong = _too_long(text, 63)
    if _is_label(text):
        return wrong
    return [*wrong, "must not contain dots" if _is_subdomain(text) else _LABEL_TEXT]


def _label_1035(text: str) -> list[str]:
    return _too_long(text, 63) + ([] if _is_1035_label(text) else [_LABEL_1035_TEXT])


def _subdomain(text: str, unit: str = "characters") -> list[str]:
    return _too_long(text, 253, unit) + ([] if _is_subdomain(text) else [_SUBDOMAIN_TEXT])


def _start_of(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Check the start of a name that is generated, which may end in a dash, as if a letter followed."""
    return lambda text: check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _qualified_name(is_label_key: bool) -> Callable[[str], list[str]]:
    """Check a name with an optional subdomain before it. Later versions count bytes, and speak of label keys."""
    unit, called = _UNITS[is_label_key], "a valid label key" if is_label_key else "a qualified name"

    def check(text: str) -> list[str]:
        if text.count("/") > 1:
            prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            return [f"{called} {_QUALIFIED_TEXT} {prefix}"]
        before, slash, name = text.rpartition("/")
        wrong: list[str] = []
        if slash:
            wrong += ["must be non-empty"] if not before else _subdomain(before, unit)
            wrong = [f"prefix part {one}" for one in wrong]
        wrong += ["name part must be non-empty"] if not name else []
        wrong += [f"name part {one}" for one in _too_long(name, 63, unit)]
        return wrong if _is_qualified(name) else [*wrong, f"name part {_QUALIFIED_TEXT}"]

    return check


def _label_value(unit: str) -> Callable[[str], list[str]]:
    return lambda text: _too_long(text, 63, unit) + ([] if _is_label_value(text) else [_LABEL_VALUE_TEXT])


def _uri(text: str) -> list[str]:
    try:
        parse_request_url(text)
    except InvalidURL as problem:
        return [str(problem)]
    return []


def _fixed(is_right: Callable[[str], Any], wrong: str) -> Callable[[str], list[str]]:
    return lambda text: [] if is_right(text) else [wrong]


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    try:
        return found is not None and bool(date(int(found[1]) or 2000, int(found[2]), int(found[3])))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    parts = text.lower().split("t")
    return len(parts) > 1 and _is_date(parts[0]) and _is_clock(parts[1]) is not None


def _formats(is_label_key: bool) -> dict[str, Format]:
    return {
        "dns1123Label": Format("DNS1123Label", _label, 30),
        "dns1123Subdomain": Format("DNS1123Subdomain", _subdomain, 60),
        "dns1035Label": Format("DNS1035Label", _label_1035, 30),
        "qualifiedName": Format("QualifiedName", _qualified_name(is_label_key), 60),
        "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _start_of(_label), 30),
        "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _start_of(_subdomain), 60),
        "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _start_of(_label_1035), 30),
        "labelValue": Format("LabelValue", _label_value(_UNITS[is_label_key]), 40),
        "uri": Format("URI", _uri, 1103),
        "uuid": Format("uuid", _fixed(_is_uuid, "does not match the UUID format"), 70),
        "byte": Format("byte", _fixed(_is_base64, "invalid base64"), 84),
        "date": Format("date", _fixed(_is_date, "invalid date"), 71),
        "datetime": Format("datetime", _fixed(_is_date_time, "invalid datetime"), 71),
    }


FORMATS: Final = _formats(is_label_key=True)
EARLIER_FORMATS: Final = _formats(is_label_key=False)  # before 1.35


def named(name: str) -> Optional:
    found = FORMATS.get(name)
    return NONE if found is None else Optional(found)


def named_earlier(name: str) -> Optional:
    found = EARLIER_FORMATS.get(name)
    return NONE if found is None else Optional(found)
