"""From a request for a resource to reads or one message to an actor, and back to a document.

Every verb is one method. Nothing here decides whether a change is allowed or what it becomes; it decodes, asks,
and frames the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actors.access.attributes import Attributes
from actors.access.authorize import Authorizer, Decision
from actors.access.reviews import Reviews
from actors.errors import BadRequest, Invalid, NoSuchResource, NotFound, Resource, TimedOut
from actors.kinds.declaration.definition import Definition
from actors.kinds.registry import Registry
from actors.messages import Create, Delete, Deleted, DeleteOptions, Patch, Replace, Written
from actors.names import Names
from actors.resource import options
from actors.resource.collection import delete_collection
from actors.resource.directory import Directory
from actors.resource.evictions import Evictions
from actors.selectors import FieldSelector, LabelSelector
from actors.stamps import Stamps
from actors.store.addressing import check_name, settle_namespace
from actors.store.reads import ListOptions, Reads
from gateway.handlers.bodies import decode_body, decode_delete_options
from gateway.handlers.computed import ComputedObjects, Source
from gateway.handlers.deadline import Deadline
from gateway.handlers.forms import Form, Forms
from gateway.handlers.methods import PROXY, check_method
from gateway.handlers.patches import Patches
from gateway.handlers.reviews import ReviewHandler
from gateway.handlers.submissions import Submissions
from gateway.handlers.watches import WatchOpener
from gateway.requests import render
from gateway.requests.call import Call
from gateway.requests.errors import NoSuchPath
from gateway.requests.request import Response
from gateway.requests.route import Route
from gateway.wire.documents import list_metadata
from gateway.wire.negotiate import NotAcceptable, streamed_media
from journal.log import Journal

NAMESPACES = Resource("", "namespaces")


class Dispatch:
    def __init__(
        self,
        names: Names,
        registry: Registry,
        journal: Journal,
        directory: Directory,
        reads: Reads,
        stamps: Stamps,
        authorizer: Authorizer,
        reviews: Reviews,
        watches: WatchOpener,
        computed: Mapping[str, Source],
        *,
        chunking: bool = True,
    ) -> None:
        self._names = names
        self._registry = registry
        self._directory = directory
        self._reads = reads
        self._stamps = stamps
        self._patches = Patches(names, stamps, reads, self._may_create)
        self._authorizer = authorizer
        self._watches = watches
        self._computed = ComputedObjects(computed)
        self._forms = Forms(names, stamps.now)
        self._chunking = chunking  # lists may be asked for in pages
        evictions = Evictions(registry.current, journal, directory)
        self._reviews = ReviewHandler(names, reviews)
        self._submissions = Submissions(names, directory, reads, evictions)
        self._verbs: dict[str, Callable[[Call, Definition], Awaitable[Response]]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._replace,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
            "watch": self._watch,
        }

    @property
    def verbs(self) -> frozenset[str]:
        """What this server serves of the verbs a kind declares."""
        return frozenset(self._verbs)

    def __call__(self, call: Call) -> Awaitable[Response]:
        """Refuses at once what cannot be; a coroutine of its own would be one more on every request's way."""
        route = call.route
        definition = self.find(route)
        check_method(definition, route, call.request.method)
        if definition.deprecation_warning:
            call.warnings.append(definition.deprecation_warning)
        if route.subresource:
            subresource = definition.subresource(route.subresource)
            if subresource is not None and subresource.served_by_node:
                return self._submissions.refuse(call, definition, subresource)
        if definition.storage.computed:
            return self._read_computed(call, definition)
        return self._verbs[route.verb](call, definition)

    def check(self, call: Call) -> None:
        """Refuses what this would refuse whatever else the request says."""
        check_method(self.find(call.route), call.route, call.request.method)

    def creates_review(self, route: Route) -> bool:
        """Whether what a POST to this route creates is returned and never stored."""
        definition = self._registry.current.find(route.group, route.version, route.resource)
        return definition is not None and definition.storage.ephemeral

    def find(self, route: Route) -> Definition:
        catalog = self._registry.current
        definition = catalog.find(route.group, route.version, route.resource)
        if definition is None:
            if route.group and not catalog.group_exists(route.group):
                raise NoSuchPath
            raise NoSuchResource
        if (route.surplus and route.subresource != PROXY) or not _in_scope(definition, route):
            raise NoSuchResource
        if route.name and not route.subresource and not definition.has_items:
            raise NoSuchResource
        if route.subresource and definition.subresource(route.subresource) is None:
            raise NoSuchResource
        return definition

    async def _get(self, call: Call, definition: Definition) -> Response:
        route = call.route
        if call.parameters:
            if call.parameters.boolean("export"):
                raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
            await self._reads.reach(call.parameters.first("resourceVersion") or "")
        shown = definition
        if route.subresource:
            shown, body = self._below(definition, route)
        else:
            body = self._reads.get(definition, _namespace(definition, route), route.name)
        document = self._forms.of(call, shown).document(body)
        return render.at_once(call, document) or await render.answer(call, document)

    async def _read_computed(self, call: Call, definition: Definition) -> Response:
        form = self._forms.of(call, definition)
        if call.route.verb == "get":
            document = form.document(self._computed.get(definition, call.route.name))
        else:
            document = form.listing(self._computed.listing(definition, self._list_options(call, definition)))
        return await render.answer(call, document)

    def _below(self, definition: Definition, route: Route) -> tuple[Definition, bytes]:
        """How an object is seen through a subresource, and the object."""
        subresource = definition.subresource(route.subresource)
        try:
            body = self._reads.get(definition, _namespace(definition, route), route.name)
        except NotFound:
            if subresource is None or subresource.not_found_resource is None:
                raise
            raise NotFound(subresource.not_found_resource, route.name) from None
        return definition.definition_at(route.subresource), body

    async def _list(self, call: Call, definition: Definition) -> Response:
        wanted = self._list_options(call, definition)
        try:
            with Deadline(call):
                listing = await self._reads.listing(definition, call.route.namespace or None, wanted)
        except TimedOut:
            self._reads.check_reached(wanted)
            raise
        return await render.answer(call, self._forms.of(call, definition).listing(listing))

    async def _watch(self, call: Call, definition: Definition) -> Response:
        wanted = self._list_options(call, definition)
        shown = call.representation
        if shown.media == "yaml":
            raise NotAcceptable(streamed_media(self._names)[-2:])
        warnings = [(b"warning", text) for text in render.warning_headers(call.warnings)]
        stream = self._watches.open(call, definition, wanted, self._forms.of(call, definition))
        return Response(200, b"", shown.content_type, warnings, stream)

    async def _create(self, call: Call, definition: Definition) -> Response:
        form = self._forms.of(call, definition)
        write = self._write_options(call, "CreateOptions")
        if call.route.subresource or definition.storage.submits_to[0]:
            return await self._submit(call, definition, write)
        if definition.storage.ephemeral:
            return await self._reviews.create(
                call, definition, write, self._stamps.make(call.user, call.manager)
            )
        body = await decode_body(call, definition, self._names, write.field_validation)
        settle_namespace(_namespace(definition, call.route), body.object)
        metadata = body.object["metadata"]
        generates = bool(metadata.get("generateName")) and not metadata.get("name")
        stamp = self._stamps.make(call.user, call.manager, suffix=generates)
        command = Create(
            definition.api_version, _namespace(definition, call.route), body.object, stamp, write.dry_run
        )
        return await self._write(call, definition, form, command, body.problems)

    async def _submit(self, call: Call, definition: Definition, write: options.WriteOptions) -> Response:
        plural, name = definition.storage.submits_to
        if plural:
            definition = self._registry.current.storage(str(Resource(definition.group, plural)))
        subresource = definition.subresource(name or call.route.subresource)
        assert subresource is not None
        stamp = self._stamps.make(call.user, call.manager)
        return await self._submissions.submit(call, definition, subresource, write, stamp)

    async def _replace(self, call: Call, definition: Definition) -> Response:
        write = self._write_options(call, "UpdateOptions")
        shown = definition.definition_at(call.route.subresource)
        form = self._forms.of(call, shown)
        body = await decode_body(call, shown, self._names, write.field_validation)
        settle_namespace(_namespace(definition, call.route), body.object)
        check_name(call.route.name, body.object)
        command = Replace(
            definition.api_version,
            _namespace(definition, call.route),
            call.route.name,
            body.object,
            self._stamps.make(call.user, call.manager),
            call.route.subresource,
            write.dry_run,
            may_create=definition.strategy.allow_create_on_update and await self._may_create(call),
        )
        return await self._write(call, definition, form, command, body.problems)

    async def _patch(self, call: Call, definition: Definition) -> Response:
        form = self._forms.of(call, definition.definition_at(call.route.subresource))
        asked = await self._patches.read(call, definition, _namespace(definition, call.route))
        return await self._write(call, definition, form, asked.command, asked.problems)

    async def _may_create(self, call: Call) -> bool:
        """Whether the caller may also create: asked of an apply, and of a PUT to kinds that it creates."""
        route = call.route
        decision = self._authorizer.authorize(
            Attributes(
                call.user,
                "create",
                route.group,
                route.version,
                route.resource,
                "",
                route.namespace,
                route.name,
                route.path,
            )
        )
        if not isinstance(decision, Decision):
            decision = await decision
        return decision.allowed

    async def _write(
        self,
        call: Call,
        definition: Definition,
        form: Form,
        command: Create | Replace | Patch,
        problems: tuple[str, ...] = (),
    ) -> Response:
        try:
            outcome = await self._directory.ask_served(definition, command)
        except Invalid as error:
            if problems:
                raise BadRequest(f"{error}; besides: {', '.join(problems)}") from None
            raise
        assert isinstance(outcome, Written)
        call.warnings.extend(outcome.warnings)
        return await render.answer(call, form.document(outcome.body), 201 if outcome.created else 200)

    async def _delete(self, call: Call, definition: Definition) -> Response:
        form = self._forms.of(call, definition)
        chosen, orphaned = await self._delete_options(call, definition)
        stamp = self._stamps.make(call.user, call.manager)
        command = Delete(
            definition.api_version, _namespace(definition, call.route), call.route.name, stamp, chosen
        )
        outcome = await self._directory.ask_served(definition, command)
        assert isinstance(outcome, Deleted)
        status = 202 if orphaned is False and not outcome.gone else 200
        if definition.deletion.returns_object:
            return await render.answer(call, form.document(outcome.body), status)
        return await render.document(call, _deleted(definition, outcome), status)

    async def _delete_collection(self, call: Call, definition: Definition) -> Response:
        self._forms.of(call, definition)  # the response is a Status, but what cannot be shown is refused
        listed = self._list_options(call, definition)
        chosen, _ = await self._delete_options(call, definition)
        stamp = self._stamps.make(call.user, call.manager)
        try:
            with Deadline(call):
                listing = await delete_collection(
                    self._reads,
                    self._directory,
                    definition,
                    call.route.namespace or None,
                    listed,
                    chosen,
                    stamp,
                )
        except TimedOut:
            self._reads.check_reached(listed)
            raise
        details = {"group": definition.group} if definition.group else {}
        status = _success({**details, "kind": definition.plural})
        if listing.token:
            status["metadata"] = list_metadata(listing)
        return await render.document(call, status)

    def _list_options(self, call: Call, definition: Definition) -> ListOptions:
        parameters = call.parameters
        version = parameters.first("resourceVersion") or ""
        match = parameters.first("resourceVersionMatch") or ""
        limit = max(parameters.integer("limit") or 0, 0) if self._chunking else 0
        token = (parameters.first("continue") or "") if self._chunking else ""
        if parameters:
            options.list_options(self._names, version, match, limit, token, watch=call.route.verb == "watch")
        labels, fields = self._selectors(call, definition)
        return ListOptions(version, match, limit, token, labels, fields)

    def _selectors(
        self, call: Call, definition: Definition
    ) -> tuple[LabelSelector | None, FieldSelector | None]:
        label_text = call.parameters.first("labelSelector")
        field_text = call.parameters.first("fieldSelector")
        labels = LabelSelector.parse(label_text) if label_text else None
        if not field_text:
            return labels, None
        fields = FieldSelector.parse(field_text)
        return labels, _known_fields(definition, fields)

    def _write_options(self, call: Call, kind: str) -> options.WriteOptions:
        parameters = call.parameters
        if not parameters:
            return options.PLAIN_WRITE
        return options.write_options(
            self._names,
            kind,
            parameters.all("dryRun"),
            parameters.first("fieldValidation") or "",
            parameters.first("fieldManager") or "",
        )

    async def _delete_options(self, call: Call, definition: Definition) -> tuple[DeleteOptions, bool | None]:
        """The options, and orphanDependents as the client sent it."""
        body = await decode_delete_options(call, self._names)
        many = not call.route.name
        chosen = options.delete_options(self._names, body, call.parameters.values(), many=many)
        if definition.deletion.default_policy_warning and not chosen.propagation_policy:
            call.warnings.append(definition.deletion.default_policy_warning)
        return chosen, options.orphan_dependents(body, call.parameters.values())


def _in_scope(definition: Definition, route: Route) -> bool:
    """Namespaced items live below a namespace, cluster-scoped ones do not. All namespaces together can be listed."""
    if definition.namespaced:
        return bool(route.namespace) or ("list" in definition.verbs and not route.name)
    # A namespace counts as inside itself, and inside no other: rights there must not reach this one.
    return not route.namespace or (definition.resource == NAMESPACES and route.name == route.namespace)


def _namespace(definition: Definition, route: Route) -> str:
    return route.namespace if definition.namespaced else ""


def _known_fields(definition: Definition, fields: FieldSelector) -> FieldSelector:
    for label, _, _ in fields.requirements:
        if not definition.selects(label):
            raise BadRequest(definition.unsupported_field_text(label))
    return fields.renamed(definition.stored_field)


def _deleted(definition: Definition, outcome: Deleted) -> dict[str, Any]:
    details: dict[str, Any] = {"name": outcome.name}
    if definition.group:
        details["group"] = definition.group
    return _success({**details, "kind": definition.plural, "uid": outcome.uid})


def _success(details: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
