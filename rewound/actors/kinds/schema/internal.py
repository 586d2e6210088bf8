"""Objects as Go prints Kubernetes' internal types, which validation sees: versions from 1.34 show them in texts.

Internal types have no JSON names, so that their fields have the names of Go and none is omitted:

    {"apiGroup": "", "kind": "Role"}    {"APIGroup":"","Kind":"Role","Name":""}

Types of the group meta are no internal types, and metadata is embedded.
"""

from __future__ import annotations

import re
from typing import Any, Final

from rewound.actors.golang.format import Formatted, format_value
from rewound.actors.kinds.schema.fields import ListOf, MapOf, Struct, Type, zero

# Words that Go's names have in upper case; longer ones first.
_INITIALS: Final = (
    *(
        "GMSA",
        "HTTPS",
        "HTTP",
        "ISCSI",
        "CIDR",
        "GRPC",
        "AWS",
        "API",
        "CSI",
        "DNS",
        "GCE",
        "NFS",
        "RBD",
        "TCP",
        "TLS",
    ),
    *("TTL", "UID", "URI", "URL", "FC", "FS", "ID", "IP", "OS", "SE"),
)
_FIRST_WORD: Final = re.compile(f"(?:{'|'.join(one.lower() for one in _INITIALS)})(?=[A-Z]|s?$)")
_OTHER: Final = {"cephfs": "CephFS", "qosClass": "QOSClass"}


def shown(struct: Struct, value: Any) -> Formatted:
    """Return a value of a type for an error: JSON of the API until 1.33, that of the internal type later."""
    return Formatted(format_value(value), None if value is None else internal_form(struct, value))


def internal_form(type_: Type, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(type_, ListOf):
        return [internal_form(type_.item, item) for item in value]
    if isinstance(type_, MapOf):
        return {key: internal_form(type_.value, value[key]) for key in sorted(value)}
    if not isinstance(type_, Struct) or type_.of.startswith("meta."):
        return value
    made: dict[str, Any] = {}
    for field in type_.fields:
        if field.name == "metadata":
            made |= value.get("metadata") or {}
        elif value.get(field.name) is not None:
            made[_go_name(field.name)] = internal_form(field.type, value[field.name])
        else:
            absent = None if field.pointer else zero(field.type, defaults=False)
            made[_go_name(field.name)] = internal_form(field.type, absent)
    return made


def _go_name(name: str) -> str:
    if name in _OTHER:
        return _OTHER[name]
    found = _FIRST_WORD.match(name)
    return name[: found.end()].upper() + name[found.end() :] if found else name[0].upper() + name[1:]
