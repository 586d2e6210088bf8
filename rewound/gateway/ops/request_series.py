"""Counts, durations and sizes of requests by the labels that they have in Kubernetes v1.25.

The pipeline adds each request to its `Series`, which costs a dictionary lookup and a few additions: what most
requests have in common, a short time and a small body, has no bucket of its own. A route with its method has a shape
without names (`Route.shape`), which represents all labels but the status code.

Like in Kubernetes, only requests served by a handler of a resource are counted, and those of /healthz, /livez and
/readyz; others (discovery, OpenAPI, those refused earlier) are in `rewound_other_requests_total`. The number of
series is limited by what the server serves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import msgspec

from rewound.actors.kinds.registry import Registry
from rewound.gateway.describe.discovery import SUBRESOURCES
from rewound.gateway.message import Forwarding, ForwardingClient, Report, Request, Response
from rewound.gateway.ops.exposition import Buckets, Distributions, Family, Histogram, Value
from rewound.gateway.pipeline.context import RequestContext, removed_release
from rewound.gateway.pipeline.parameters import parse_leniently
from rewound.gateway.pipeline.route import HEALTH_PATHS, Route
from rewound.gateway.watch.watch import Watch

# Seconds and bytes, as in v1.25.
SLO_BOUNDS: Final = (
    *(0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0),
    *(4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0),
)
BOUNDS: Final = (0.005, 0.025, *SLO_BOUNDS)
_FINER: Final = len(BOUNDS) - len(SLO_BOUNDS)
SIZES: Final = tuple(10.0**power for power in range(3, 10))
_QUICK, _SMALL = BOUNDS[0], SIZES[0]
_VERBS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "LIST", "WATCH", "APPLY"})
OTHER: Final = "other"
# Verbs to which other servers respond.
_FORWARDED: Final = frozenset({"attach", "exec", "log", "portforward", "proxy"})
_APPLY: Final = b"application/apply-patch+yaml"
_HISTORY_RESOURCES: Final = frozenset(name for name, _, _ in SUBRESOURCES)

LabelValues = tuple[str, ...]
_OBJECT: Final = ("group", "version", "resource", "subresource", "scope", "component")


class Labels(NamedTuple):
    verb: str = ""
    dry_run: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    scope: str = ""
    component: str = ""

    @property
    def without_dry_run(self) -> LabelValues:
        return (self.verb, *self[2:])


class Series:
    """Requests with the same labels and status code."""

    __slots__ = ("bytes", "code", "count", "labels", "larger", "seconds", "slo", "slower", "unsized")

    def __init__(self, labels: Labels, code: int) -> None:
        self.labels = labels
        self.code = code
        self.count = 0
        self.seconds = 0.0
        self.slower = [0] * len(BOUNDS)  # counts above the first bound; the last one has those above all
        self.bytes = 0
        self.larger = [0] * len(SIZES)  # the same for sizes
        self.unsized = 0  # requests whose size is not known yet
        # The seconds spent in webhooks, and how these moved requests between buckets; only in a few series.
        self.slo: tuple[float, list[int]] | None = None

    def add(self, seconds: float, size: int) -> None:
        self.count += 1
        self.seconds += seconds
        if seconds > _QUICK:
            self.slower[bisect_left(BOUNDS, seconds) - 1] += 1
        self.bytes += size
        if size > _SMALL:
            self.larger[bisect_left(SIZES, size) - 1] += 1

    def deduct(self, seconds: float, webhooks: float) -> None:
        """Deduct the time of webhooks from a request that was added with these seconds."""
        total, moved = self.slo or (0.0, [0] * (len(SLO_BOUNDS) + 1))
        moved[bisect_left(SLO_BOUNDS, seconds)] -= 1
        moved[bisect_left(SLO_BOUNDS, seconds - webhooks)] += 1
        self.slo = total + webhooks, moved

    def add_parts(self, size: int) -> None:
        """Add the size of a body in parts, whose request was added without a size."""
        self.unsized -= 1
        self.bytes += size
        if size > _SMALL:
            self.larger[bisect_left(SIZES, size) - 1] += 1


class Counted(msgspec.Struct, frozen=True):
    """A copy of a series."""

    labels: Labels
    code: int
    count: int
    seconds: float
    durations: Buckets
    slo_seconds: float
    slo: Buckets
    bytes: int
    sizes: Buckets


class ServedRoutes:
    """The routes that this server serves now, and which of them are deprecated."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def knows(self, route: Route) -> bool:
        """Whether requests with this route may be counted by its names."""
        catalog = self._registry.current
        if route.rewinds:
            return route.subresource in _HISTORY_RESOURCES and catalog.serves(route.group, route.resource)
        definition = catalog.find(route.group, route.version, route.resource)
        return definition is not None and (
            not route.subresource or definition.subresource(route.subresource) is not None
        )

    def removed_release(self, route: Route) -> str | None:
        """In which release a deprecated API version is removed, "" if unknown; None if it is not deprecated."""
        definition = self._registry.current.find(route.group, route.version, route.resource)
        if definition is None or not definition.deprecation_warning:
            return None
        return removed_release(definition.deprecation_warning)


class RequestSeries:
    def __init__(
        self, known: Callable[[Route], bool], removed_release: Callable[[Route], str | None]
    ) -> None:
        """`known(route)` returns whether this server serves it; `removed_release` is for deprecated API versions."""
        self._known = known
        self._removed_release = removed_release
        self._series: dict[tuple[str, int], Series] = {}
        self._deprecated: dict[LabelValues, int] = {}
        self.others: dict[int, int] = {}
        self.lasting: dict[
            LabelValues, int
        ] = {}  # running forwarded requests, by verb and the labels of objects

    def find(self, request: Request, route: Route, status: int) -> Series:
        """The series of a request, to which the caller adds it."""
        kind = route.shape or _shape(route)
        if ("dryRun" in request.query or request.method == "PATCH") and (variant := _variant(request)):
            kind = f"{kind} {variant}"
        return self._series.get((kind, status)) or self._add(kind, request, route, status)

    def while_forwarded(self, request: Request, route: Route, forwarding: Forwarding) -> Forwarding:
        """The same forwarding, counted while it runs if it is long-running."""
        if route.subresource not in _FORWARDED or not self._known(route):
            return forwarding
        return LastingForwarding(forwarding, self.lasting, _labels(request, route).without_dry_run)

    def count_other(self, status: int) -> None:
        """Count a request that is in no series."""
        self.others[status] = self.others.get(status, 0) + 1

    def _add(self, kind: str, request: Request, route: Route, status: int) -> Series:
        is_health = route.path in HEALTH_PATHS and not route.is_resource
        if not is_health and not self._known(route):
            return Series(Labels(), status)  # not exposed
        labels = _labels(request, route)
        removed = self._removed_release(route) if route.is_resource else None
        if removed is not None:
            self._deprecated[labels.group, labels.version, labels.resource, labels.subresource, removed] = 1
        return self._series.setdefault((kind, status), Series(labels, status))

    def measure(self, context: RequestContext, response: Response, series: Series, seconds: float) -> None:
        """Add what is known only when the response has ended, or the time spent in webhooks."""
        if isinstance(response.stream, Watch):
            response.stream.measure(series, context.began)
        elif response.stream is not None:
            series.add(seconds, 0)
        if response.parts is not None:
            response.parts = MeasuredParts(response.parts, series)
        if context.webhook_seconds:
            series.deduct(seconds, sum(context.webhook_seconds.values()))

    def forget(self, group: str, resource: str) -> None:
        """Drop the series of a resource that is no longer served, so that their number stays limited."""
        self._series = {
            key: one
            for key, one in self._series.items()
            if (one.labels.group, one.labels.resource) != (group, resource)
        }
        self._deprecated = {
            key: one for key, one in self._deprecated.items() if (key[0], key[2]) != (group, resource)
        }
        for labels in [one for one in self.lasting if (one[1], one[3]) == (group, resource)]:
            del self.lasting[labels]

    def snapshot(self) -> list[Counted]:
        return [_copied(one) for one in self._series.values() if one.count]

    def deprecated(self) -> dict[LabelValues, int]:
        return dict(self._deprecated)


class MeasuredParts:
    """The parts of a long list, whose size is known only at the end."""

    __slots__ = ("_parts", "_series", "_size", "aclose")

    def __init__(self, parts: object, series: Series) -> None:
        self._parts = parts
        self._series = series
        self._size = 0
        series.unsized += 1
        self.aclose = getattr(parts, "aclose", None)

    def __aiter__(self) -> MeasuredParts:
        return self

    async def __anext__(self) -> bytes:
        try:
            part: bytes = await self._parts.__anext__()  # type: ignore[attr-defined]
        except StopAsyncIteration:
            self._series.add_parts(self._size)
            raise
        self._size += len(part)
        return part


class LastingForwarding:
    """Counts a forwarded request while it runs. Like in Kubernetes, its series stays when none is running any more."""

    def __init__(self, forwarding: Forwarding, running: dict[LabelValues, int], labels: LabelValues) -> None:
        self._forwarding = forwarding
        self._running = running
        self._labels = labels

    @property
    def report(self) -> Report | None:
        return self._forwarding.report

    @report.setter
    def report(self, report: Report | None) -> None:
        self._forwarding.report = report

    async def run(self, client: ForwardingClient) -> None:
        running, labels = self._running, self._labels
        running[labels] = running.get(labels, 0) + 1
        try:
            await self._forwarding.run(client)
        finally:
            if labels in running:  # only if the resource is still served
                running[labels] -= 1


def request_families(
    found: list[Counted],
) -> tuple[list[tuple[Family, Value]], list[tuple[Histogram, Distributions]]]:
    """The metrics of requests. Runs in a thread."""
    totals: dict[LabelValues, float] = {(*one.labels, str(one.code)): 0 for one in found}
    for one in found:
        totals[*one.labels, str(one.code)] += one.count
    counter = Family(
        "apiserver_request_total",
        "Requests served, by verb, dry run, group, version, resource, scope, component and status code.",
        "counter",
        ("verb", "dry_run", *_OBJECT, "code"),
    )
    durations = Histogram(
        "apiserver_request_duration_seconds",
        "Seconds from the head of a request to its response; of a watch, to its end.",
        BOUNDS,
        ("verb", "dry_run", *_OBJECT),
    )
    slo = Histogram(
        "apiserver_request_slo_duration_seconds",
        "The same without the time of admission webhooks, and without watches.",
        SLO_BOUNDS,
        ("verb", *_OBJECT),
    )
    sizes = Histogram(
        "apiserver_response_sizes",
        "Bytes of the bodies of responses to gets and lists, as they were sent.",
        SIZES,
        ("verb", *_OBJECT),
    )
    return [(counter, totals)], [
        (durations, summed((one.labels, one.seconds, one.durations) for one in found)),
        (
            slo,
            summed(
                (one.labels.without_dry_run, one.slo_seconds, one.slo)
                for one in found
                if one.labels.verb != "WATCH"
            ),
        ),
        (
            sizes,
            summed(
                (one.labels.without_dry_run, float(one.bytes), one.sizes)
                for one in found
                if one.labels.verb in ("GET", "LIST") and one.labels.subresource not in _FORWARDED
            ),
        ),
    ]


def summed(rows: Iterable[tuple[LabelValues, float, Buckets]]) -> Distributions:
    """Merge series that differ only in labels that a metric does not have."""
    found: dict[LabelValues, tuple[float, Buckets]] = {}
    for labels, total, buckets in rows:
        if labels in found:
            before, others = found[labels]
            total, buckets = total + before, tuple(map(int.__add__, buckets, others))
        found[labels] = total, buckets
    return found


def _copied(one: Series) -> Counted:
    durations = (one.count - sum(one.slower), *one.slower)
    slo = [sum(durations[: _FINER + 1]), *durations[_FINER + 1 :]]
    webhooks, moved = one.slo or (0.0, [])
    for index, change in enumerate(moved):
        slo[index] += change
    sizes = (one.count - one.unsized - sum(one.larger), *one.larger)
    return Counted(
        *(one.labels, one.code, one.count, one.seconds, durations),
        *(one.seconds - webhooks, tuple(slo), one.bytes, sizes),
    )


def _shape(route: Route) -> str:
    """The shape of a route without one: a path, or the history of an object."""
    return (
        f"{route.verb} {route.group}/{route.resource}/{route.subresource}"
        if route.is_resource
        else route.path
    )


def _variant(request: Request) -> str:
    """What a label says about a request besides its route and its status code."""
    verb = "APPLY " if _applies(request) else ""
    return verb + _dry_run(request)


def _applies(request: Request) -> bool:
    return request.method == "PATCH" and request.headers.get(b"content-type") == _APPLY


def _dry_run(request: Request) -> str:
    if "dryRun" not in request.query:
        return ""
    values = set(parse_leniently(request.query).all("dryRun"))
    return "All" if values == {"All"} else "invalid" if values else ""


def _labels(request: Request, route: Route) -> Labels:
    if not route.is_resource:
        return Labels(verb="GET", subresource=route.path)
    scope = "cluster"
    if route.name or route.verb == "create":
        scope = "resource"
    elif route.namespace:
        scope = "namespace"
    verb = request.method
    if route.verb == "watch":
        verb = "WATCH"
    elif verb in ("GET", "HEAD"):
        verb = "GET" if scope == "resource" else "LIST"
    elif _applies(request):
        verb = "APPLY"
    return Labels(
        verb=verb if verb in _VERBS else OTHER,
        dry_run=_dry_run(request),
        group=route.group,
        version=route.version,
        resource=route.resource,
        subresource=route.subresource,
        scope=scope,
        component="apiserver",
    )
