"""Continue tokens: the position at which a paged list continues, and the resourceVersion of all its pages.

    {"v": 12, "t": 1700000000000000, "n": "default", "a": "web-3", "r": 41}   as base64url JSON

v: version of the first page, or -1 for the current one (in the token of a 410 response); t: when the first page was
read, in microseconds: a token is valid as long as the watch history; n, a: namespace and name of the last item of the
page; r: number of items after it, or -1 if a selector makes that unknown. Opaque to clients, but not secret: every page
is authorized like the first.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import orjson

from actors.errors import BadRequest

CURRENT = -1


@dataclass(frozen=True, slots=True)
class Token:
    version: int
    issued: int
    namespace: str
    after: str
    remaining: int

    def __str__(self) -> str:
        short = {
            "v": self.version,
            "t": self.issued,
            "n": self.namespace,
            "a": self.after,
            "r": self.remaining,
        }
        return base64.urlsafe_b64encode(orjson.dumps(short)).rstrip(b"=").decode()


_TYPES = {"v": int, "t": int, "n": str, "a": str, "r": int}


def parse_token(text: str) -> Token:
    try:
        fields = orjson.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise BadRequest("continue key is not valid: it is not a token that this server made") from None
    if not isinstance(fields, dict) or any(type(fields.get(key)) is not kind for key, kind in _TYPES.items()):
        raise BadRequest("continue key is not valid: it is incomplete; start the list again without it")
    if fields["v"] < CURRENT or fields["v"] == 0 or not fields["a"]:
        raise BadRequest("continue key is not valid: incorrect encoded start resourceVersion")
    return Token(*(fields[key] for key in _TYPES))
