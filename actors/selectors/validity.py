"""What a label key and a label value may look like, in the words clients know.

The rules bind selectors as well as objects: a selector that no label could ever fulfil is a mistake worth
telling, not an empty list.
"""

from __future__ import annotations

import json
import re

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_NAME})?"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME_PATTERN, _VALUE_PATTERN, _SUBDOMAIN_PATTERN = map(re.compile, (_NAME, _VALUE, _SUBDOMAIN))

_ENDS = "and must start and end with an alphanumeric character"
_NAME_RULE = (
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_RULE = (
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ENDS} "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_SUBDOMAIN_RULE = (
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ENDS} "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


def key_problems(key: str) -> list[str]:
    """`[prefix/]name`: the prefix a DNS subdomain, the name at most 63 characters."""
    if key.count("/") > 1:
        return [
            f"a qualified name {_NAME_RULE} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    prefix, slash, name = key.rpartition("/")
    problems = _prefix_problems(prefix) if slash else []
    if not name:
        problems.append("name part must be non-empty")
    elif _size(name) > 63:
        problems.append("name part must be no more than 63 characters")
    if not _NAME_PATTERN.fullmatch(name):
        problems.append(f"name part {_NAME_RULE}")
    return problems


def _prefix_problems(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    problems = []
    if _size(prefix) > 253:
        problems.append("prefix part must be no more than 253 characters")
    if not _SUBDOMAIN_PATTERN.fullmatch(prefix):
        problems.append(f"prefix part {_SUBDOMAIN_RULE}")
    return problems


def value_problems(value: str) -> list[str]:
    problems = []
    if _size(value) > 63:
        problems.append("must be no more than 63 characters")
    if not _VALUE_PATTERN.fullmatch(value):
        problems.append(_VALUE_RULE)
    return problems


def invalid(field: str, value: str, why: str) -> str:
    return f"{field}: Invalid value: {json.dumps(value, ensure_ascii=False)}: {why}"


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
