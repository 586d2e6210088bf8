"""Stored CustomResourceDefinitions without their versions, read from the bytes around them.

Schemas are most of a definition: parsing a megabyte of them holds the interpreter for 20 milliseconds, in whichever
thread. Controllers read names and conditions, which stand before and behind the versions:

    {"metadata":{...},"spec":{"group":"example.com","names":{...},"scope":"Cluster","versions":[...]},"status":{...}}

Nothing before the versions can look like the mark below: strings have no quotes that are not escaped, the values of
labels and annotations are strings, and the names in managedFields begin with f:. The status has no member `status` that
is an object, so that the last one in the text is the status itself.
"""

from __future__ import annotations

from typing import Final

import orjson

from actors.large_work import LARGE_BYTES
from actors.messages import Object

_VERSIONS: Final = b',"versions":['
_STATUS: Final = b',"status":{'


def outline(body: bytes) -> Object:
    """The definition, whose spec has group, names and scope; the whole of a small one."""
    found: Object = orjson.loads(_without_versions(body) if len(body) > LARGE_BYTES else body)
    return found


def _without_versions(body: bytes) -> bytes:
    begin, end = body.find(_VERSIONS), body.rfind(_STATUS)
    return body[:begin] + b"}" + body[end:] if 0 < begin < end else body
