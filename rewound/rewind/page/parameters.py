"""Parameters of timelines and of their events."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Final

import orjson

from rewound.actors.errors import BadRequest
from rewound.actors.golang.quoting import quoted
from rewound.actors.rewind.moments import Moment, parse_moment
from rewound.actors.rewind.search import parse_text
from rewound.actors.rewind.timeline import SECOND, Filter, Patterns, patterns
from rewound.gateway.pipeline.context import RequestContext

DEFAULT_BUCKETS: Final = 500
MAX_BUCKETS: Final = 2000
MAX_NAMESPACES: Final = 20
MAX_TYPES: Final = 100
MAX_PATTERNS: Final = 20  # names, verbs, users and field managers, each
DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1000
MAX_WAIT: Final = 30
_HOUR: Final = 3600 * SECOND
_MAX_LENGTH: Final = 512  # characters of a filter's text
GROUPINGS: Final = ("type", "namespace", "both")
_ORDERS: Final = ("descending", "ascending")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of times in microseconds since 1970; `end` is exclusive."""

    start: int
    end: int


def refuse_token(context: RequestContext) -> None:
    """Refuse a token in the URL, where it would end up in logs and histories."""
    for name in ("token", "access_token"):
        if context.parameters.first(name) is not None:
            raise BadRequest(f"{name}: tokens are not accepted in a URL: send the header Authorization")


def span_of(context: RequestContext, now: int) -> Span:
    end = _time(context, "to", now + 1)
    start = _time(context, "from", end - _HOUR)
    if start >= end:
        raise BadRequest("from: must be before to")
    return Span(start, end)


def whole_span_of(context: RequestContext) -> Span:
    """The range of `from` and `to`; by default from the beginning to the end."""
    return Span(_time(context, "from", 0), _time(context, "to", 1 << 62))


def _time(context: RequestContext, name: str, default: int) -> int:
    moment = moment_of(context, name)
    if moment is None:
        return default
    if moment.time is None:
        raise BadRequest(f"{name}: a timeline has times, like 2024-05-01T12:03:00Z, no versions")
    return moment.time


def moment_of(context: RequestContext, name: str) -> Moment | None:
    text = context.parameters.first(name)
    return None if text is None else parse_moment(text, name)


def buckets_of(context: RequestContext) -> int:
    return _number(context, "buckets", DEFAULT_BUCKETS, 1, MAX_BUCKETS)


def limit_of(context: RequestContext, default: int = DEFAULT_LIMIT) -> int:
    """The limit, at most the largest one."""
    value = context.parameters.integer("limit")
    if value is not None and value < 1:
        raise BadRequest(f"limit: Invalid value: {value}: must be at least 1")
    return MAX_LIMIT if value is not None and value > MAX_LIMIT else value or default


def wait_of(context: RequestContext) -> int:
    return _number(context, "wait", 0, 0, MAX_WAIT)


def _number(context: RequestContext, name: str, default: int, least: int, most: int) -> int:
    value = context.parameters.integer(name)
    if value is None:
        return default
    if not least <= value <= most:
        raise BadRequest(f"{name}: Invalid value: {value}: must be between {least} and {most}")
    return value


def grouping_of(context: RequestContext) -> str:
    return _choice(context, "by", GROUPINGS)


def is_descending(context: RequestContext) -> bool:
    return _choice(context, "order", _ORDERS) == "descending"


def _choice(context: RequestContext, name: str, choices: tuple[str, ...]) -> str:
    value = context.parameters.first(name) or choices[0]
    if value not in choices:
        raise BadRequest(f"{name}: must be one of {', '.join(choices)}")
    return value


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page of rows begins, in the order by the events after `first` and up to `last`."""

    at: int
    first: int
    last: int


def position_token(at: int, first: int, last: int) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([at, first, last])).rstrip(b"=").decode()


def position_in(token: str) -> Position:
    try:
        value = orjson.loads(base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        value = None
    numbers = value if isinstance(value, list) else []
    if len(numbers) != 3 or any(type(one) is not int or not 0 <= one < 1 << 63 for one in numbers):
        raise BadRequest("continue key is not valid: it is not a token that this server made")
    return Position(*numbers)


def types_of(context: RequestContext) -> Patterns:
    return _patterns(context, "type", MAX_TYPES)


def namespaces_of(context: RequestContext) -> Patterns:
    found = _patterns(context, "namespace", MAX_NAMESPACES)
    for name in found.wanted:
        if name.endswith("*"):
            raise BadRequest(
                f"namespace: Invalid value: {quoted(name)}: must be a whole name; "
                "only those to leave out may end with *"
            )
    return found


def filter_of(context: RequestContext) -> Filter:
    name, verb, user, manager = (
        _patterns(context, name, MAX_PATTERNS) for name in ("name", "verb", "user", "manager")
    )
    return Filter(name, verb, user, manager, _terms(context), includes(context, "status"))


def includes(context: RequestContext, name: str) -> bool:
    """Whether the request leaves something in, as it does unless it says `name=false`."""
    return context.parameters.optional_boolean(name) is not False


def _terms(context: RequestContext) -> str:
    """The terms of the text `q`, for the index of words; empty without one."""
    text = (context.parameters.first("q") or "").strip()
    if len(text) > _MAX_LENGTH:
        raise BadRequest(f"q: must not have more than {_MAX_LENGTH} characters")
    try:
        return parse_text(text) if text else ""
    except ValueError as error:
        raise BadRequest(f"q: {error}") from None


def _patterns(context: RequestContext, name: str, most: int) -> Patterns:
    """Parse patterns; one that begins with `!` excludes."""
    values = [value for value in context.parameters.all(name) if value]
    if any(len(value) > _MAX_LENGTH for value in values):
        raise BadRequest(f"{name}: must not have more than {_MAX_LENGTH} characters")
    if "!" in values:
        raise BadRequest(f'{name}: Invalid value: "!": say what to leave out, like !kube-system')
    found = patterns(*values)
    if len(found.wanted) + len(found.excluded) > most:
        raise BadRequest(f"{name}: at most {most} of them")
    return found
