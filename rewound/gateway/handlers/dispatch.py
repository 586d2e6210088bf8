"""Serves requests for resources: each verb is one method, which reads or sends one command to an actor.

This module decodes the request and encodes the response; the actor decides whether a change is allowed and what the
object becomes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from rewound.actors.access.reviews import Reviews
from rewound.actors.errors import (
    BadRequest,
    Forbidden,
    Invalid,
    NoJson,
    NotFound,
    Resource,
    TimedOut,
    TooLarge,
    VersionTooLarge,
)
from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.kinds.declaration.meta import check_address
from rewound.actors.kinds.validation import invalid
from rewound.actors.messages import Create, Delete, Deleted, DeleteOptions, Patch, Replace, Written
from rewound.actors.patch.managed_fields.apply import USUAL_MANAGER
from rewound.actors.resource.collection import Warned, delete_collection
from rewound.actors.store.reads import Listing, ListOptions
from rewound.actors.versions.features import CBOR, LIST_BLUEPRINTS, UNSAFE_DELETES
from rewound.gateway.handlers.bodies import Bodies, keep_patch_for_audit, patch_format
from rewound.gateway.handlers.computed_kinds import ComputedObjects, Source
from rewound.gateway.handlers.lists import Deadline, ListHandler, parse_selectors
from rewound.gateway.handlers.methods import authorize_also, check_method, find_definition, may_create
from rewound.gateway.handlers.reviews import ReviewHandler
from rewound.gateway.handlers.subresources import SubresourceHandler, checked_view, not_found_at
from rewound.gateway.handlers.watches import WatchOpener
from rewound.gateway.message import Response
from rewound.gateway.pipeline import options, render
from rewound.gateway.pipeline.context import RequestContext, Rewind, new_write_context
from rewound.gateway.pipeline.parameters import EMPTY
from rewound.gateway.pipeline.render import Encoder, encode_document
from rewound.gateway.pipeline.route import Route
from rewound.gateway.store import Store
from rewound.gateway.wire.encoders import list_metadata
from rewound.gateway.wire.negotiate import NotAcceptable, served_media, watched_media

UNSAFE_VERB: Final = "unsafe-delete-ignore-read-errors"

Serve = Callable[[RequestContext, Definition], Awaitable[Response]]
Connect = Callable[[RequestContext, Definition, Subresource], Awaitable[Response]]


class Dispatch:
    def __init__(
        self,
        store: Store,
        watches: WatchOpener,
        lists: ListHandler,
        rewind: Rewind,
        computed: Mapping[str, Source],
        connect: Connect,
    ) -> None:
        access, directory = store.access, store.directory
        self._names, self._rules = store.names, store.rules
        self._registry = store.registry
        self._directory = directory
        self._reads = store.reads
        self._write_contexts = store.write_contexts
        self._cbor = CBOR in store.release.features
        self._bodies = bodies = Bodies(
            store.names, store.rules, store.registry, directory.large_work, store.memory, cbor=self._cbor
        )
        self._authorizer = access.authorizer
        self._may_create = partial(may_create, access.authorizer)
        self._last_applied = store.names.key("last-applied-configuration", "kubectl")
        self._watches = watches
        self._connect = connect
        self._computed = ComputedObjects(computed, store.memory)
        self._encoders = lists.encoders
        self._lists = lists
        self._rewind = rewind
        self._features = store.release.features
        reviews = Reviews(access.authenticator, access.authorizer, access.audiences, self._features)
        self._reviews = ReviewHandler(bodies, reviews, directory.admission_chain)
        self._subresources = SubresourceHandler(store, bodies)
        # Definition and handler by shape of path, for shapes that need no further check; of one version of the catalog.
        self._version = store.registry.version
        self._served: dict[str, tuple[Definition, Serve]] = {}
        self._verbs: dict[str, Serve] = {
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
        """The verbs that this server implements; kinds may declare others."""
        return frozenset(self._verbs)

    def __call__(self, context: RequestContext) -> Awaitable[Response]:
        if self._version != self._registry.version:
            self._version = self._registry.version
            self._served.clear()
        served = self._served.get(context.route.shape)
        if served is None or context.parameters.at is not None:
            return self._serve_checked(context)
        definition, serve = served
        return serve(context, definition)

    async def _serve_checked(self, context: RequestContext) -> Response:
        """Find the definition and handler of a request; cache them by its shape if nothing else decides."""
        route = context.route
        if route.rewinds:
            return await self._rewind(context)
        definition = self.find(route)
        check_method(definition, route, context.request.method)
        if not definition.is_loaded:
            await self._bodies.load(context, definition)
            return await self(context)  # definitions may have changed meanwhile
        if definition.deprecation_warning:
            context.warn_of_deprecation(definition.deprecation_warning, self._names)
        # The query of a proxied request is for its target, which may have its own parameter `at`.
        if context.parameters.at is not None and route.subresource != "proxy":
            return await self._rewind.read_at(context, definition)
        if route.subresource:
            subresource = definition.subresource(route.subresource)
            if subresource is not None and subresource.forwarded:
                return await self._connect(context, definition, subresource)
        serve = self._handler(definition, route)
        # Whether a Namespace is in scope depends on its name; everything else follows from the shape of the path.
        if (
            route.shape
            and not definition.deprecation_warning
            and (definition.namespaced or not route.namespace)
        ):
            self._served[route.shape] = definition, serve
        return await serve(context, definition)

    def _handler(self, definition: Definition, route: Route) -> Serve:
        if definition.storage.computed:
            return self._read_computed
        return self._verbs[route.verb]

    def check(self, context: RequestContext) -> None:
        """Raise if the resource or the method is not served."""
        if context.route.rewinds:
            self._rewind.check(context)
            return
        check_method(self.find(context.route), context.route, context.request.method)

    def creates_review(self, route: Route) -> bool:
        """Whether a POST to this route creates an ephemeral object, such as a SubjectAccessReview."""
        definition = self._registry.current.find(route.group, route.version, route.resource)
        return definition is not None and definition.storage.ephemeral

    def has_protobuf(self, route: Route) -> bool | None:
        """Whether objects of this route have protobuf messages: custom kinds have none. None: unknown resource."""
        definition = self._registry.current.find(route.group, route.version, route.resource)
        return None if definition is None else not definition.definition_at(route.subresource).is_custom

    def find(self, route: Route) -> Definition:
        return find_definition(self._registry, route)

    async def _get(self, context: RequestContext, definition: Definition) -> Response:
        route, parameters = context.route, context.parameters
        if parameters is not EMPTY:
            if parameters.boolean("export"):
                raise BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
            if (version := parameters.first("resourceVersion")) and version != "0":
                await self._reads.wait_for_version(version)
        view = definition.definition_at(route.subresource) if route.subresource else definition
        try:
            namespace = route.namespace if definition.namespaced else ""
            body = self._reads.get(definition, namespace, route.name)
        except NotFound as error:
            raise not_found_at(definition, route, error) from None
        if definition.converts_by_webhook:
            body = await self._encoders.converted.one(definition, body)
        if view is not definition:
            body = checked_view(definition, route.subresource, body)
        encoder = self._encoders.of(context, view)
        if len(body) > encoder.in_thread:
            return await self._lists.respond_object(context, encoder, body)
        return await render.respond(context, encoder.document(body))

    async def _read_computed(self, context: RequestContext, definition: Definition) -> Response:
        encoder, namespace = self._encoders.of(context, definition), context.route.namespace
        if context.route.verb == "get":
            document = encoder.document(await self._computed.get(definition, namespace, context.route.name))
            return await render.respond(context, document)
        with Deadline(context):
            options = await self._list_options(context, definition)
            listing = await self._computed.listing(context.request, definition, namespace, options)
        return await self._lists.respond_whole(context, definition, listing)

    async def _list(self, context: RequestContext, definition: Definition) -> Response:
        list_options = await self._list_options(context, definition)
        return await self._lists.respond(context, definition, list_options)

    async def _watch(self, context: RequestContext, definition: Definition) -> Response:
        list_options = await self._list_options(context, definition)
        representation = context.representation
        if representation.media == "yaml":
            raise NotAcceptable(watched_media(self._names, cbor=self._cbor))
        sends_initial = self._watches.sends_initial_events(context)
        if (
            sends_initial
            and representation.as_kind == "Table"
            and context.parameters.boolean("allowWatchBookmarks")
            and LIST_BLUEPRINTS in self._features
        ):
            raise NotAcceptable(tuple(served_media(self._names, cbor=self._cbor)))
        warnings = [(b"warning", text) for text in render.warning_headers(context.warnings)]
        if context.request.method == "HEAD":  # of a custom kind: no client would read the events
            return Response(200, b"", representation.content_type, warnings)
        failure: VersionTooLarge | None = None
        if sends_initial:
            try:
                await self._reads.wait_for_version(list_options.resource_version)
            except VersionTooLarge as error:
                failure = error
        stream = self._watches.open(context, definition, list_options, self._encoders.maker(context))
        if failure is not None:
            stream.fail(failure)
        return Response(200, b"", representation.content_type, warnings, stream)

    async def _create(self, context: RequestContext, definition: Definition) -> Response:
        encoder = self._encoders.of(context, definition)
        write = self._write_options(context, "CreateOptions")
        if context.route.subresource or definition.storage.submits_to[0]:
            return await self._submit(context, definition, write)
        if definition.storage.ephemeral:
            write_context = new_write_context(self._write_contexts, context)
            return await self._reviews.create(context, definition, write, write_context)
        body = await self._bodies.decode(context, definition, write.field_validation)
        namespace = _namespace(definition, context.route)
        check_address(body.object, namespace)
        metadata = body.object["metadata"]
        generates = bool(metadata.get("generateName")) and not metadata.get("name")
        write_context = new_write_context(self._write_contexts, context, suffix=generates, large=body.large)
        command = Create(definition.api_version, namespace, body.object, write_context, write.dry_run)
        return await self._write(context, definition, encoder, command, body.problems)

    async def _submit(
        self, context: RequestContext, definition: Definition, write: options.WriteOptions
    ) -> Response:
        plural, name = definition.storage.submits_to
        if plural:
            definition = self._registry.current.storage(str(Resource(definition.group, plural)))
        subresource = definition.subresource(name or context.route.subresource)
        assert subresource is not None
        write_context = new_write_context(self._write_contexts, context)
        return await self._subresources.create(context, definition, subresource, write, write_context)

    async def _replace(self, context: RequestContext, definition: Definition) -> Response:
        write = self._write_options(context, "UpdateOptions")
        view = definition.definition_at(context.route.subresource)
        encoder = self._encoders.of(context, view)
        body = await self._bodies.decode(context, view, write.field_validation)
        namespace, name = _namespace(definition, context.route), context.route.name
        check_address(body.object, namespace, name)
        command = Replace(
            definition.api_version,
            namespace,
            name,
            body.object,
            new_write_context(self._write_contexts, context, large=body.large),
            context.route.subresource,
            write.dry_run,
            may_create=definition.strategy.allow_create_on_update and await self._may_create(context),
        )
        return await self._write(context, definition, encoder, command, body.problems)

    async def _patch(self, context: RequestContext, definition: Definition) -> Response:
        """A subresource such as scale has no managed fields of its own: an apply is merged into it."""
        route = context.route
        view = definition.definition_at(route.subresource)
        encoder = self._encoders.of(context, view)
        content_type = context.request.headers.get(b"content-type", b"")
        format_ = patch_format(content_type, definition, cbor=self._cbor)
        write = self._patch_options(context, applies=format_ == "apply")
        keep_patch_for_audit(context)
        if format_ == "apply" and view is definition:
            return await self._apply(context, definition, encoder, write)
        namespace = _namespace(definition, route)
        try:
            if format_ == "apply":
                sent = await self._bodies.applied_view(context, view)
            else:
                sent = await self._bodies.patch(context, format_)
        except (BadRequest, TooLarge):
            # A missing object is a 404, even if the patch is invalid.
            self._reads.get(definition, namespace, route.name)
            raise
        command = Patch(
            definition.api_version,
            namespace,
            route.name,
            "merge" if format_ == "apply" else format_,
            sent.value,
            new_write_context(self._write_contexts, context, large=sent.large),
            route.subresource,
            write.dry_run,
            write.field_validation,
            sent.problems,  # the actor reports them, with those that it finds when it applies the patch
            force=write.force,
            merges_apply=format_ == "apply",
        )
        return await self._write(context, definition, encoder, command)

    async def _apply(
        self,
        context: RequestContext,
        definition: Definition,
        encoder: Encoder,
        write: options.WriteOptions,
    ) -> Response:
        """The body is a partial object, which is decoded here to report its problems."""
        body = await self._bodies.applied(context, definition, write.field_validation)
        command = Patch(
            definition.api_version,
            _namespace(definition, context.route),
            context.route.name,
            "apply",
            body.object,
            new_write_context(self._write_contexts, context, large=body.large),
            context.route.subresource,
            write.dry_run,
            write.field_validation,
            force=write.force,
            may_create=await self._may_create(context),
            annotation=self._last_applied if context.manager == USUAL_MANAGER else "",
        )
        return await self._write(context, definition, encoder, command, body.problems)

    async def _write(
        self,
        context: RequestContext,
        definition: Definition,
        encoder: Encoder,
        command: Create | Replace | Patch,
        problems: tuple[str, ...] = (),
    ) -> Response:
        try:
            outcome = await self._directory.ask_served(definition, command)
        except Invalid as error:
            if problems and not definition.is_custom and self._rules.unknown_and_invalid == "400":
                raise BadRequest(f"{error}; besides: {', '.join(problems)}") from None
            raise
        assert isinstance(outcome, Written)
        if outcome.warnings:
            context.warnings.extend(outcome.warnings)
        body, status = outcome.body, 201 if outcome.created else 200
        if definition.converts_by_webhook:
            body = await self._encoders.converted.one(definition, body)
        return await render.respond(context, await encode_document(encoder, body), status)

    async def _delete(self, context: RequestContext, definition: Definition) -> Response:
        encoder = self._encoders.of(context, definition)
        chosen, orphaned = await self._delete_options(context, definition)
        if UNSAFE_DELETES in self._features:
            await self._check_unsafe_delete(context, definition)
        write_context = new_write_context(self._write_contexts, context)
        command = Delete(
            definition.api_version,
            _namespace(definition, context.route),
            context.route.name,
            write_context,
            chosen,
        )
        outcome = await self._directory.ask_served(definition, command)
        assert isinstance(outcome, Deleted)
        context.warnings.extend(outcome.warnings)
        status = 202 if orphaned is False and not outcome.removed else 200
        held = not outcome.removed and self._rules.held_delete == "object"
        if definition.deletion.returns_object or held:
            return await render.respond(context, await encode_document(encoder, outcome.body), status)
        return await render.document(context, render.deleted_status(definition, outcome), status)

    async def _check_unsafe_delete(self, context: RequestContext, definition: Definition) -> None:
        """Refuse to ignore read errors of an object that can be read, or for a user who may not.

        Bytes that are no JSON are deleted. What the journal itself cannot read stays: only its repair removes it.
        """
        body = await self._bodies.delete_options(context)
        if not options.ignores_read_errors(body, context.parameters.values(), self._features):
            return
        if context.exchange is not None:
            context.exchange.annotate(
                f"apiserver.{self._names.group_domain}/unsafe-delete-ignore-read-error", ""
            )
        name = context.route.name
        decision = await authorize_also(self._authorizer, context, UNSAFE_VERB)
        if not decision.allowed:
            text = f'not permitted to do "{UNSAFE_VERB}", reason: {decision.reason}'
            raise Forbidden(definition.resource, name, text)
        try:
            self._reads.get(definition, _namespace(definition, context.route), name)
        except NoJson:
            return
        except NotFound:
            pass
        text = "is exclusively used to delete corrupt object(s), try again by removing this option"
        raise Invalid(
            definition.group, definition.plural, name, [invalid(options.UNSAFE, True, text).cause()]
        )

    async def _delete_collection(self, context: RequestContext, definition: Definition) -> Response:
        self._encoders.of(context, definition)  # refuses an unknown includeObject
        listed = await self._list_options(context, definition)
        chosen, _ = await self._delete_options(context, definition)
        write_context = new_write_context(self._write_contexts, context)
        before: Listing | None = None
        warned = Warned()
        try:
            with Deadline(context):
                if self._rules.collection_delete == "list":
                    before = await self._reads.listing(definition, context.route.namespace or None, listed)
                    if not listed.token:  # the token has its version
                        listed = replace(listed, resource_version=str(before.version), match="Exact")
                listing = await delete_collection(
                    self._reads,
                    self._directory,
                    definition,
                    context.route.namespace or None,
                    listed,
                    chosen,
                    write_context,
                    warned,
                )
        except TimedOut:
            self._reads.check_reached(listed)
            raise
        finally:
            context.warnings.extend(warned.texts)
        if before is not None:
            return await self._lists.respond_whole(context, definition, before)
        details = {"group": definition.group} if definition.group else {}
        status = render.success({**details, "kind": definition.plural})
        if listing.token:
            status["metadata"] = list_metadata(listing)
        return await render.document(context, status)

    async def _list_options(self, context: RequestContext, definition: Definition) -> ListOptions:
        parameters = context.parameters
        version = parameters.first("resourceVersion") or ""
        match = parameters.first("resourceVersionMatch") or ""
        limit, token = self._lists.page(context)
        if parameters:
            options.list_options(
                self._names,
                version,
                match,
                token,
                watch=context.route.verb == "watch",
                initial_events=parameters.optional_boolean("sendInitialEvents"),
                features=self._features,
            )
        if version == "0" and not token and self._rules.zero_version_limit == "whole":
            # v1.25 has no watch cache for Events.
            limit = limit if definition.plural == "events" else 0
        labels, fields = await parse_selectors(context, definition)
        return ListOptions(version, match, limit, token, labels, fields)

    def _write_options(self, context: RequestContext, kind: str) -> options.WriteOptions:
        parameters = context.parameters
        if parameters is EMPTY or not parameters:
            return options.PLAIN_WRITE
        return options.write_options(
            self._names,
            kind,
            parameters.all("dryRun"),
            parameters.first("fieldValidation") or "",
            parameters.first("fieldManager") or "",
            self._rules,
            self._features,
        )

    def _patch_options(self, context: RequestContext, *, applies: bool) -> options.WriteOptions:
        """An apply needs a field manager and may be forced."""
        parameters = context.parameters
        return options.patch_options(
            self._names,
            parameters.all("dryRun"),
            parameters.first("fieldValidation") or "",
            parameters.first("fieldManager") or "",
            parameters.first("force"),
            applies=applies,
            rules=self._rules,
            features=self._features,
        )

    async def _delete_options(
        self, context: RequestContext, definition: Definition
    ) -> tuple[DeleteOptions, bool | None]:
        """The options, and orphanDependents as the client sent it."""
        body = await self._bodies.delete_options(context)
        many = not context.route.name
        chosen = options.delete_options(
            self._names,
            body,
            context.parameters.values(),
            many=many,
            rules=self._rules,
            features=self._features,
        )
        if definition.deletion.default_policy_warning and not chosen.propagation_policy:
            context.warnings.append(definition.deletion.default_policy_warning)
        return chosen, options.orphan_dependents(body, context.parameters.values())


def _namespace(definition: Definition, route: Route) -> str:
    return route.namespace if definition.namespaced else ""
