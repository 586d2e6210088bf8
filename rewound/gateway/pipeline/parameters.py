"""The query of a request: every parameter, in order, as often as it was sent.

    parse("limit=5&dryRun=All&dryRun=All&watch").all("dryRun")  -> ["All", "All"]

The pipeline parses the query once per request. Clients repeat short ones, such as `?resourceVersion=0`, so their
parameters are cached; nothing changes parameters. Names are case-sensitive, `+` is a space, a name without `=` has the
value "". A malformed query is refused as a whole: other servers drop the malformed pair, which turns "delete what this
selector matches" into "delete everything".
"""

from __future__ import annotations

import re
from binascii import a2b_qp
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from math import inf
from urllib.parse import unquote_to_bytes

from rewound.actors.errors import BadRequest
from rewound.actors.golang.quoting import quoted
from rewound.actors.kinds.values.times import duration_error, duration_seconds
from rewound.actors.selectors import FieldSelector
from rewound.gateway.pipeline.options import boolean, integer

# Characters; parsing a longer selector (200 requirements) takes longer than starting a thread.
LARGE_SELECTOR = 2048
# How many queries are cached, and how long ones: together less than a megabyte.
_CACHED_QUERIES = 256
_CACHED_LENGTH = 256
# A query of this many takes two to five milliseconds. The command of an exec has a parameter for each word.
MOST_PARAMETERS = 2000
INVALID_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)


class Parameters:
    __slots__ = ("_values", "at", "pretty", "watch")

    def __init__(self, values: dict[str, list[str]]) -> None:
        self._values = values
        # What the server reads of every query.
        self.at = self.first("at")
        self.pretty = self.first("pretty")
        self.watch = self.boolean("watch")

    def __bool__(self) -> bool:
        return bool(self._values)

    def first(self, name: str) -> str | None:
        values = self._values.get(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        return self._values.get(name, [])

    def values(self) -> Mapping[str, list[str]]:
        return self._values

    def integer(self, name: str) -> int | None:
        """A 64-bit integer; raises BadRequest for other values, also the empty one."""
        text = self.first(name)
        return None if text is None else integer(name, text)

    def boolean(self, name: str) -> bool:
        """Whether the parameter has any value but "false" and "0"."""
        text = self.first(name)
        return text is not None and boolean(text)

    def optional_boolean(self, name: str) -> bool | None:
        """The same; None if the request does not have the parameter."""
        text = self.first(name)
        return None if text is None else boolean(text)

    def timeout(self) -> float:
        """The parameter `timeout` in seconds; infinite if it is absent or not positive."""
        text = self.first("timeout")
        if not text:
            return inf
        if reason := duration_error(text):
            raise BadRequest(f"invalid timeout specified in the request URL - {reason}")
        seconds = duration_seconds(text)
        return seconds if seconds > 0 else inf

    def selected_name(self) -> str:
        """The name that the field selector of a list or watch selects: rules with resourceNames may allow that one."""
        text = self.first("fieldSelector")
        if not text or len(text) > LARGE_SELECTOR:  # the handler parses it in a thread
            return ""
        try:
            name = FieldSelector.parse(text).exact("metadata.name") or ""
        except BadRequest:
            return ""  # the handler refuses the selector, after authorization
        return "" if name in (".", "..") or "/" in name or "%" in name else name


EMPTY = Parameters({})


def parse(query: str) -> Parameters:
    """`query` as it was sent, one character per byte."""
    if not query:
        return EMPTY
    return _cached(query) if len(query) <= _CACHED_LENGTH else _parse(query)


def _parse(query: str) -> Parameters:
    if ";" in query:
        raise BadRequest("the query of the request has a bare semicolon: write %3B, and separate with &")
    values: dict[str, list[str]] = {}
    for pair in _pairs(query):
        _add_pair(values, pair)
    return Parameters(values)


_cached = lru_cache(_CACHED_QUERIES)(_parse)


def parse_leniently(query: str) -> Parameters:
    """The same for a query that another server reads: malformed pairs are dropped.

    The others must count: if `watch=1&x=%` had no parameters, the request would be authorized as a list, and the other
    server would serve a watch.
    """
    values: dict[str, list[str]] = {}
    for pair in _pairs(query):
        with suppress(BadRequest):
            if ";" not in pair:
                _add_pair(values, pair)
    return Parameters(values) if values else EMPTY


def _pairs(query: str) -> list[str]:
    if query.count("&") >= MOST_PARAMETERS:
        raise BadRequest(f"the query of the request has more than {MOST_PARAMETERS} parameters")
    return query.split("&")


def _add_pair(values: dict[str, list[str]], pair: str) -> None:
    if pair:
        name, _, text = pair.partition("=")
        value = _unescaped(text)
        values.setdefault(_unescaped(name), []).append(value)


def _unescaped(text: str) -> str:
    if "%" not in text and "+" not in text and text.isascii():
        return text
    raw = text.replace("+", " ").encode("latin-1", "replace")
    # Escapes are those of quoted-printable with another sign. Its decoder is C: a query may have 300,000 of them.
    decoded = a2b_qp(raw.replace(b"=", b"=3D").replace(b"%", b"="))
    each_became_a_byte = len(decoded) == len(raw) - 2 * raw.count(b"%")
    if not each_became_a_byte or "\n" in text or "\r" in text:  # a2b_qp drops ends of lines
        invalid = INVALID_ESCAPE.search(text)
        if invalid:
            raise BadRequest(f"the query of the request has an invalid URL escape {quoted(invalid[0])}")
        decoded = unquote_to_bytes(raw)
    return decoded.decode("utf-8", "replace")
