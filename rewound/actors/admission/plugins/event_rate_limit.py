"""EventRateLimit: limits the rate of core/v1 Events, in total and per namespace, user, or source and object.

Each limit has token buckets: a bucket holds at most `burst` tokens, gets `qps` tokens a second, and an event takes one
from the bucket of each limit. If one bucket is empty, the event is rejected with 429, and still takes tokens from the
others. The least recently used buckets are dropped if there are more than `cacheSize`; their keys start again with a
full bucket. Dry runs take no tokens.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rewound.actors.access.authorize import join_errors
from rewound.actors.admission.configuration import PluginConfiguration
from rewound.actors.admission.plugin import Plugin, rule
from rewound.actors.admission.request import CREATE, UPDATE, AdmissionRequest
from rewound.actors.errors import RateLimited, Resource
from rewound.actors.messages import Object
from rewound.actors.names import Names

EVENTS: Final = Resource("", "events")
SERVER = "Server"
TYPES = (SERVER, "Namespace", "User", "SourceAndObject")
CACHE_SIZE: Final = 4096
_SOURCE: Final = ("component", "host")
_OBJECT: Final = ("kind", "namespace", "name", "uid", "apiVersion")


@dataclass(frozen=True, slots=True)
class Limit:
    type: str  # one of TYPES
    qps: int
    burst: int
    cache_size: int = CACHE_SIZE


class EventRateLimit(Plugin):
    name = "EventRateLimit"
    validates = (rule(CREATE, UPDATE, of=(EVENTS,), subresources=None),)

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._buckets = [_Buckets(one) for one in limits]

    def check_configuration(self) -> None:
        if not self._buckets:
            raise ValueError("EventRateLimit needs a configuration with limits")

    def validate(self, request: AdmissionRequest) -> None:
        if request.dry_run:
            return
        assert request.object is not None and request.context is not None
        refusals = [
            f"limit reached on type {buckets.limit.type} for key {key}"
            for buckets in self._buckets
            if not buckets.take(key := _key(buckets.limit.type, request), request.context.time)
        ]
        if refusals:
            raise RateLimited(join_errors(refusals))


class _Buckets:
    """The buckets of one limit, by key, the most recently used one last."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._tokens: OrderedDict[str, tuple[float, int]] = OrderedDict()  # how many there were, and when

    def take(self, key: str, now: int) -> bool:
        """Whether there was a token. The time is in microseconds; a clock that is set back adds no tokens."""
        limit = self.limit
        tokens, last = self._tokens.pop(key, (float(limit.burst), now))
        tokens = min(limit.burst, tokens + max(0, now - last) * limit.qps / 1_000_000)
        allowed = tokens >= 1
        self._tokens[key] = (tokens - allowed, now)
        if len(self._tokens) > limit.cache_size:
            self._tokens.popitem(last=False)
        return allowed


def _key(limit_type: str, request: AdmissionRequest) -> str:
    match limit_type:
        case "Namespace":
            return request.namespace
        case "User":
            return request.user
        case "SourceAndObject":
            assert request.object is not None
            return _source_and_object(request.object)
    return ""


def _source_and_object(event: Object) -> str:
    source, involved = event.get("source") or {}, event.get("involvedObject") or {}
    return "".join([*(source.get(one, "") for one in _SOURCE), *(involved.get(one, "") for one in _OBJECT)])


def parse_limits(names: Names, given: PluginConfiguration | None) -> tuple[Limit, ...]:
    if given is None:
        return ()
    given.check_type((f"{names.group('eventratelimit.admission')}/v1alpha1", "Configuration"))
    given.check_fields("limits")
    limits = given.document.get("limits")
    if not isinstance(limits, list) or not limits:
        raise given.error("limits", "must not be empty")
    return tuple(_parse_limit(given, one, f"limits[{index}]") for index, one in enumerate(limits))


def _parse_limit(given: PluginConfiguration, one: object, field: str) -> Limit:
    if not isinstance(one, dict):
        raise given.error(field, "must be a mapping")
    if one.get("type") not in TYPES:
        raise given.error(f"{field}.type", f"must be one of {', '.join(TYPES)}")
    numbers = {part: one.get(part, 0) for part in ("burst", "qps", "cacheSize")}
    for part, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool):
            raise given.error(f"{field}.{part}", "must be a number")
        if value <= 0 and part != "cacheSize":
            raise given.error(f"{field}.{part}", "must be positive")
    cache_size = 0 if one["type"] == SERVER else numbers["cacheSize"]
    if cache_size < 0:
        raise given.error(f"{field}.cacheSize", "must not be negative")
    return Limit(one["type"], numbers["qps"], numbers["burst"], cache_size or CACHE_SIZE)
