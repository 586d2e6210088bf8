"""Types in messages: signatures of calls, and types as the text of the protobuf message that cel-go keeps them in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from actors.cel.types import Type, TypeParameter

_PRIMITIVES: Final = {
    "bool": "BOOL",
    "int": "INT64",
    "uint": "UINT64",
    "double": "DOUBLE",
    "string": "STRING",
    "bytes": "BYTES",
}
_WHOLE: Final = {
    "null": "null:NULL_VALUE",
    "dyn": "dyn:{}",
    "!error!": "error:{}",
    "any": "well_known:ANY",
    "duration": "well_known:DURATION",
    "timestamp": "well_known:TIMESTAMP",
    "<nil>": "",
}


def signature(given: Sequence[Type], method: bool) -> str:
    """`receiver.(arguments)` or `(arguments)`."""
    if method:
        return f"{given[0]}.({', '.join(map(str, given[1:]))})"
    return f"({', '.join(map(str, given))})"


def as_message(of: Type) -> str:
    if of.name in _PRIMITIVES:
        return f"primitive:{_PRIMITIVES[of.name]}"
    if of.name in _WHOLE:
        return _WHOLE[of.name]
    if isinstance(of, TypeParameter):
        return f'type_param:"{of.name}"'
    inner = [as_message(parameter) for parameter in of.parameters]
    if of.name == "list":
        return f"list_type:{{elem_type:{{{inner[0]}}}}}"
    if of.name == "map":
        return f"map_type:{{key_type:{{{inner[0]}}} value_type:{{{inner[1]}}}}}"
    if of.name == "type":
        return f"type:{{{inner[0] if inner else ''}}}"
    if of.name == "wrapper":
        return f"wrapper:{_PRIMITIVES[of.parameters[0].name]}"
    return f'message_type:"{of.name}"'
