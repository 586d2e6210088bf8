"""Serves non-resource paths: health, version, metrics, discovery, OpenAPI, the keys of service account tokens,
the page about the journal with its timeline, the stream for standbys, and the index of all paths.

Most of them treat any method like GET, as kube-apiserver does; the others allow GET only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from rewound.actors.access.accounts.keys import (
    CONFIGURATION_PATH,
    KEYS_PATH,
    configuration,
    is_discoverable,
    key_set,
)
from rewound.actors.access.accounts.tokens import Accounts
from rewound.actors.errors import NoSuchResource
from rewound.actors.flowcontrol.seats import CANCELLED, TIME_OUT, SchemaCounts, Seats
from rewound.actors.versions.features import EMULATION, Release
from rewound.gateway.describe.discovery import Discovery, aggregated
from rewound.gateway.describe.openapi.handler import OpenApi
from rewound.gateway.message import Response
from rewound.gateway.ops.operations import Operations
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.errors import MethodNotAllowed, NoSuchPath
from rewound.gateway.pipeline.route import FEED_PATH, PAGE_PATH, TIMELINE_PATH
from rewound.gateway.wire.negotiate import DISCOVERY_LIST, ResponseKind
from rewound.release import version_document

_HEADINGS = (
    *("PriorityLevelName", "IsIdle", "WaitingRequests", "ExecutingRequests", "SeatsInUse", "Seats"),
    *("DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests"),
)


# For each priority level: whether it is idle, and the numbers in the other columns.
LevelRows = dict[str, tuple[bool, list[int]]]
_LIMIT = _HEADINGS.index("Seats") - 2  # is that of all workers; the other numbers add up


def merge_levels(workers: Sequence[LevelRows]) -> LevelRows:
    """Merge the rows of several workers."""
    found: LevelRows = {}
    for rows in workers:
        for name, (idle, numbers) in rows.items():
            others_idle, others = found.get(name, (True, [0] * len(numbers)))
            summed = [one + other for one, other in zip(numbers, others, strict=True)]
            summed[_LIMIT] = max(numbers[_LIMIT], others[_LIMIT])
            found[name] = idle and others_idle, summed
    return found


def dump_priority_levels(levels: LevelRows) -> str:
    rows = [
        _HEADINGS,
        *((name, str(idle).lower(), *map(str, numbers)) for name, (idle, numbers) in sorted(levels.items())),
    ]
    widths = [max(len(row[column]) for row in rows) + 2 for column in range(len(_HEADINGS))]
    lines = (
        "".join(f"{cell + ',':<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def level_rows(seats: Seats) -> LevelRows:
    return {name: _row(seats, name) for name in seats.levels}


def _row(seats: Seats, name: str) -> tuple[bool, list[int]]:
    level = seats.levels[name]
    counts = [one for one in seats.counts() if one.level == name]
    rejected = sum(sum(one.rejected.values()) for one in counts)
    expired, cancelled = _rejected(counts, TIME_OUT), _rejected(counts, CANCELLED)
    numbers = (
        *(level.waiting, level.running, level.executing, level.limit),
        *(sum(one.dispatched for one in counts), rejected - expired - cancelled, expired, cancelled),
    )
    return level.unused, list(numbers)


def _rejected(counts: list[SchemaCounts], reason: str) -> int:
    return sum(one.rejected.get(reason, 0) for one in counts)


HEALTH = ("livez", "readyz", "healthz")
PUBLIC_FOR_AN_HOUR = (b"cache-control", b"public, max-age=3600")

# The first segments of paths that may end in a slash: the default roles name both forms.
_WITH_SLASH = frozenset({"", ".well-known", "api", "apis", "debug", "openid", "version"})

Serve = Callable[[RequestContext], Awaitable[Response]]
CollectLevels = Callable[[LevelRows], Awaitable[Sequence[LevelRows]]]  # with those of this process
TEST_CONTROLS = "/debug/rewound/"


class Paths:
    def __init__(
        self,
        operations: Operations,
        accounts: Accounts,
        discovery: Discovery,
        openapi: OpenApi,
        release: Release,
        controls: Serve | None,
        serve_page: Serve | None,
        serve_feed: Serve,
        collect_levels: CollectLevels | None = None,
        *,
        public_health: bool = False,
    ) -> None:
        self._operations = operations
        self._accounts = accounts
        self._discovery = discovery
        self._openapi = openapi
        self._version = version_document(release.patch_release, names_emulation=EMULATION in release.features)
        self._controls = controls  # of --enable-test-controls
        self._serve_page = serve_page  # None: it is off
        self._serve_feed = serve_feed
        self._collect_levels = collect_levels  # None: this process is the whole server
        self._public = frozenset(f"/{name}" for name in HEALTH) if public_health else frozenset[str]()

    @staticmethod
    def negotiates(path: str) -> bool:
        """Whether the response is negotiated; other paths respond in a fixed media type."""
        first = path.strip("/").partition("/")[0]
        return first in ("", "api", "apis", "version")

    def response_kind(self, path: str) -> ResponseKind:
        first, *rest = path.strip("/").split("/")
        if first not in ("api", "apis"):
            return "document"
        if not rest:
            return self._discovery.groups_kind
        return "resources" if len(rest) == (1 if first == "api" else 2) else "document"

    def reads_body(self, path: str) -> bool:
        """Whether requests to this path may have a body: those to the test controls alone."""
        return self._controls is not None and path.startswith(TEST_CONTROLS)

    def is_public(self, path: str) -> bool:
        """Whether a path needs neither authentication nor a right: the files of the page have no data, and users log
        in there; probes have no credentials.
        """
        return path in self._public or (self._serve_page is not None and (path + "/").startswith(PAGE_PATH))

    async def __call__(self, context: RequestContext) -> Response:
        path = context.route.path
        first, _, rest = path.strip("/").partition("/")
        if "//" in path or (path[-1:] == "/" and first not in _WITH_SLASH):
            raise NoSuchPath  # authorizers compare the path as sent: /metrics/ is not /metrics
        if first in HEALTH:
            return await self._report_health(context, first, rest)
        if self._serve_page is not None and _is_of_page(path):
            return await self._serve_page(context)
        if first in ("api", "apis"):
            return await self._discover(context, path)
        if path.rstrip("/") in (CONFIGURATION_PATH, KEYS_PATH):
            return await self._describe_issuer(context, path.rstrip("/"))
        if first == "openapi":
            return await self._openapi(context)
        if first == "version" and not rest:
            _allow(context, "GET")
            return await render.document(context, self._version)
        if first == "metrics" and not rest:
            return Response(
                200, await self._operations.metrics.scrape(), b"text/plain; version=0.0.4; charset=utf-8"
            )
        if path == "/debug/api_priority_and_fairness/dump_priority_levels":
            own = level_rows(self._operations.limits)
            all_workers = [own] if self._collect_levels is None else await self._collect_levels(own)
            return render.text(dump_priority_levels(merge_levels(all_workers)))
        if path == FEED_PATH:
            return await self._serve_feed(context)
        if self.reads_body(path):
            assert self._controls is not None
            return await self._controls(context)
        if not first:
            return await render.document(context, {"paths": self._index()})
        raise NoSuchPath

    async def _report_health(self, context: RequestContext, kind: str, single: str) -> Response:
        verbose = context.parameters.first("verbose") is not None
        exclude = context.parameters.all("exclude")
        health = self._operations.health
        if health.refresh is not None:
            await health.refresh()
        report = health.report(kind, single, verbose=verbose, exclude=exclude)
        if report is None:
            raise NoSuchPath
        status, body = report
        return render.text(body, status)

    async def _describe_issuer(self, context: RequestContext, path: str) -> Response:
        """The OpenID discovery documents for service account tokens; only for an issuer that OpenID allows."""
        options = self._accounts.options
        if not is_discoverable(options.issuer):
            raise NoSuchPath
        _allow(context, "GET")
        keys = await self._accounts.keys.get()
        if path == KEYS_PATH:
            return Response(200, key_set(keys), b"application/jwk-set+json", [PUBLIC_FOR_AN_HOUR])
        keys_url = options.keys_url or f"https://{self._discovery.address()}{KEYS_PATH}"
        body = configuration(options.issuer, keys_url, keys)
        return Response(200, body, b"application/json", [PUBLIC_FOR_AN_HOUR])

    async def _discover(self, context: RequestContext, path: str) -> Response:
        found = self._discovery.find(path)
        if found is None:
            if self._discovery.knows_group(path):
                raise NoSuchResource
            raise NoSuchPath
        if not self._discovery.is_plain_path(path):
            _allow(context, "GET")
        if context.representation.as_kind == DISCOVERY_LIST:
            return await aggregated(context, self._discovery, path)
        return await render.document(context, found)

    def _index(self) -> list[str]:
        health = [f"/{kind}" for kind in HEALTH]
        names = self._operations.health.names
        single = [f"/{kind}/{name}" for kind in HEALTH for name in names(kind)]
        descriptions = [*self._discovery.paths(), "/openapi/v2", "/openapi/v3"]
        if is_discoverable(self._accounts.options.issuer):
            descriptions += [CONFIGURATION_PATH, KEYS_PATH]
        return sorted([*descriptions, *health, *single, "/metrics", "/version"])


def _is_of_page(path: str) -> bool:
    return (path + "/").startswith((PAGE_PATH, TIMELINE_PATH + "/"))


def _allow(context: RequestContext, *methods: str) -> None:
    if context.request.method not in methods:
        raise MethodNotAllowed(methods)
