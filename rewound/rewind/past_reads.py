"""Serves gets and lists with `?at=`: objects as they were at a version or a time, in every representation.

Dispatch calls it for every request with this parameter. It reads the whole retained journal, not only the watch
history. A list pages like any other: its continue tokens name the version of the first page, and need `at` again.
"""

from __future__ import annotations

from typing import Final

from rewound.actors.errors import BadRequest, NotFound
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.rewind.moments import Moment, parse_moment, resolve, thinned_warning
from rewound.actors.rewind.rights import HistoryRights
from rewound.actors.runtime.threads import run_in_thread
from rewound.actors.store.reads import ListOptions, parse_token
from rewound.gateway.handlers.lists import ListHandler, parse_selectors
from rewound.gateway.message import Response
from rewound.gateway.pipeline import render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.store import Store
from rewound.journal import history

AT: Final = "at"
# These choose a version too.
_EXCLUDED: Final = ("resourceVersion", "resourceVersionMatch")


class PastReads:
    def __init__(self, store: Store, lists: ListHandler) -> None:
        self._journal = store.journal
        self._reads = store.reads
        self._now = store.write_contexts.now
        self._rights = HistoryRights(store.access.authorizer)
        self._encoders = lists.encoders
        self._lists = lists

    async def __call__(self, context: RequestContext, definition: Definition) -> Response:
        moment = _moment(context, definition)
        route = context.route
        await self._rights.check(context.user, definition, route.namespace, route.name)
        if moment.time is not None:
            from rewound.rewind.gaps import warnings_at  # a start does not need it

            folder = self._journal.path.parent
            context.warnings += await run_in_thread(warnings_at, folder, definition.type_name, moment.time)
        if route.verb == "get":
            version = self._resolve(moment)
            self._warn(context, definition, version)
            return await self._get(context, definition, version, self._time(moment, version))
        return await self._list(context, definition, moment, of_past=True)

    async def read_older(self, context: RequestContext, definition: Definition, version: int) -> Response:
        """Serve a get or list from an older version that its resourceVersion allows; needs no right to history."""
        if context.route.verb == "get":
            return await self._get(context, definition, version)
        return await self._list(context, definition, Moment(version=version))

    def _resolve(self, moment: Moment) -> int:
        with self._journal.read() as view:
            return resolve(view, moment, self._now())

    def _warn(self, context: RequestContext, definition: Definition, version: int) -> None:
        """Warn if the times of the objects may not be exact."""
        type_id = self._journal.type_id(definition.type_name)
        with self._journal.read() as view:
            if warning := thinned_warning(view, type_id, str(definition.resource), version):
                context.warnings.append(warning)

    def _time(self, moment: Moment, version: int) -> int:
        """The time for ages in a Table: that of the moment, or of the event with its version."""
        if moment.time is not None:
            return moment.time
        with self._journal.read() as view:
            event = view.event(
                next(history.descending(view, history.whole_log(view), version), 0), contents=False
            )
        return self._now() if event is None else event.time

    async def _get(
        self, context: RequestContext, definition: Definition, version: int, at: int | None = None
    ) -> Response:
        route = context.route
        namespace = route.namespace if definition.namespaced else ""
        subresource = definition.subresource(route.subresource) if route.subresource else None
        try:
            body = self._reads.get_at(definition, namespace, route.name, version)
        except NotFound:
            if subresource is None or subresource.not_found_resource is None:
                raise
            raise NotFound(subresource.not_found_resource, route.name) from None
        if definition.converts_by_webhook:
            body = await self._encoders.converted.one(definition, body)
        encoder = self._encoders.of(context, definition.definition_at(route.subresource), at)
        if len(body) > encoder.in_thread:
            return await self._lists.respond_object(context, encoder, body)
        return await render.respond(context, encoder.document(body))

    async def _list(
        self, context: RequestContext, definition: Definition, moment: Moment, *, of_past: bool = False
    ) -> Response:
        limit, token = self._lists.page(context)
        given = moment
        if token and moment.time is not None:
            # The first page has resolved the time; all pages are at that version.
            moment = Moment(version=max(parse_token(token).version, 0))
        version = self._resolve(moment)
        labels, fields = await parse_selectors(context, definition)
        options = ListOptions(limit=limit, token=token, labels=labels, fields=fields, at=version)
        at = self._time(given, version) if of_past else None
        self._warn(context, definition, version)
        return await self._lists.respond(context, definition, options, at)


def _moment(context: RequestContext, definition: Definition) -> Moment:
    """The moment of a request. Raises BadRequest if the resource has no history, or something else sets a version."""
    if context.route.verb not in ("get", "list"):
        raise BadRequest(f"{AT}: only get and list have it, not {context.route.verb}")
    if not definition.is_stored:
        raise BadRequest(f"{AT}: {definition.plural} are never stored, so they have no past")
    subresource = definition.subresource(context.route.subresource) if context.route.subresource else None
    if subresource is not None and subresource.forwarded:
        raise BadRequest(f"{AT}: {definition.plural}/{subresource.name} is never stored, so it has no past")
    for name in _EXCLUDED:
        if context.parameters.first(name):
            raise BadRequest(f"{AT}: must not be combined with {name}: both choose the version")
    sent = context.parameters.all(AT)
    if len(sent) > 1:
        raise BadRequest(f"{AT}: expected exactly one value")
    return parse_moment(sent[0])
