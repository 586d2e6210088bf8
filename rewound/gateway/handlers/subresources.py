"""Serves POST to the subresources binding, eviction and token, and checks gets of others.

The response to a binding or eviction is a Status, not the object; to a token, the TokenRequest with its token.
"""

from __future__ import annotations

from typing import Any

from rewound.actors.admission.chain import Chain, admit_ephemeral, validate_ephemeral
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import BadRequest, Invalid, NotFound
from rewound.actors.kinds.declaration.definition import Definition, Subresource
from rewound.actors.kinds.declaration.meta import check_address
from rewound.actors.kinds.validation import collect_with, invalid, refuse_name
from rewound.actors.kinds.values.times import seconds_text
from rewound.actors.messages import Object, Submit, WriteContext
from rewound.actors.patch.managed_fields.ownership import creator_entries
from rewound.actors.resource.evictions import Evictions
from rewound.actors.resource.token_requests import TokenRequests
from rewound.actors.store.document import decode
from rewound.gateway.handlers.bodies import Bodies, check_short
from rewound.gateway.message import Response
from rewound.gateway.pipeline import options, render
from rewound.gateway.pipeline.context import RequestContext
from rewound.gateway.pipeline.route import Route
from rewound.gateway.store import Store
from rewound.gateway.wire.encoders import object_encoder


def not_found_at(definition: Definition, route: Route, error: NotFound) -> NotFound:
    """The error of a get of a missing object; for some subresources it names another resource."""
    found = definition.subresource(route.subresource) if route.subresource else None
    if found is None or found.not_found_resource is None:
        return error
    return NotFound(found.not_found_resource, route.name)


def checked_view(definition: Definition, subresource: str, body: bytes) -> bytes:
    """Check that the object has this subresource (such as a scale), and return it in its current schema."""
    found = definition.subresource(subresource)
    if found is not None and found.check_read is not None:
        body = object_encoder(definition).converted(body)
        found.check_read(decode(body))
    return body


class SubresourceHandler:
    def __init__(self, store: Store, bodies: Bodies) -> None:
        self._names, self._rules = store.names, store.rules
        self._bodies = bodies
        self._directory = directory = store.directory
        catalog, issuer = store.registry.current, store.access.accounts.issuer
        self._evictions = Evictions(self._names, catalog, store.journal, directory, store.release.features)
        self._token_requests = TokenRequests(catalog, store.journal, directory, issuer)

    async def create(
        self,
        context: RequestContext,
        definition: Definition,
        subresource: Subresource,
        write: options.WriteOptions,
        write_context: WriteContext,
    ) -> Response:
        view = definition.definition_at(subresource.name)
        body = await self._bodies.decode(context, view, write.field_validation)
        if body.large:
            write_context = write_context._replace(large=True)
        namespace, sent = context.route.namespace, body.object
        check_address(sent, namespace)
        if subresource.evicts or subresource.submit is None:
            check_short(context.request.body, view.kind)
        if subresource.issues_token:
            return await self._issue_token(context, definition, view, sent, write_context, write.dry_run)
        # Admission sees a POST to `bindings` as that, not as a subresource of a pod.
        is_own = context.route.resource == definition.plural
        reviewed, part = (definition, subresource.name) if is_own else (view, "")
        request = AdmissionRequest(
            *(CREATE, reviewed, namespace, context.route.name or sent["metadata"].get("name", ""), part),
            *(sent, None, write_context.user, write.dry_run, write_context),
        )
        chain = self._directory.admission_chain(reviewed, CREATE, part)
        if chain.may_pause(request):
            sent["metadata"] = await self._bodies.run(
                context, _owned_metadata, view, part, sent, write_context, in_thread=body.large
            )
        admitted = await self._admitted(context, view, chain, request)
        if subresource.evicts:
            await self._evict(request, admitted, write_context)
        else:
            command = Submit(
                *(definition.api_version, namespace, request.name, subresource.name),
                *(admitted, write_context, write.dry_run),
            )
            await self._directory.ask_served(definition, command)
        return await render.document(context, SUCCESS, 201)

    async def _admitted(
        self, context: RequestContext, view: Definition, chain: Chain, request: AdmissionRequest
    ) -> Object:
        """Admit and validate the sent object, before anything is read from the store."""
        try:
            await admit_ephemeral(chain, request)
            assert request.object is not None
            _check_name(context, view, request.object)
            if errors := collect_with(view.features, view.strategy.validate_create, request.object):
                raise Invalid(view.group, view.kind, request.name, [error.cause() for error in errors])
            _complete_dry_run(request)
            await validate_ephemeral(chain, request)
            return request.object
        finally:
            context.warnings.extend(request.warnings)
            request.complete(False)

    async def _issue_token(
        self,
        context: RequestContext,
        accounts: Definition,
        view: Definition,
        sent: Object,
        write_context: WriteContext,
        dry_run: bool,
    ) -> Response:
        route = context.route
        issued = await self._token_requests.create(
            accounts, view, route.namespace, route.name, sent, write_context, dry_run
        )
        context.warnings.extend(issued.warnings)
        return await render.respond(context, object_encoder(view).document(issued.body), 201)

    async def _evict(self, request: AdmissionRequest, admitted: Object, write_context: WriteContext) -> None:
        requested: dict[str, Any] = dict(admitted.get("deleteOptions", {}))
        if requested.get(options.UNSAFE):
            text = "can not be set for pod eviction, try after removing the option"
            cause = invalid(f"deleteOptions.{options.UNSAFE}", True, text).cause()
            raise Invalid("policy", "Eviction", request.name, [cause])
        query = {"dryRun": ["All"]} if request.dry_run else {}
        chosen = options.delete_options(self._names, requested, query, rules=self._rules)
        await self._evictions.evict(
            request.definition, request.namespace, request.name, chosen, write_context
        )


def _check_name(context: RequestContext, view: Definition, sent: Object) -> None:
    """Raise if the name in the body differs from the name in the path."""
    name: str = sent["metadata"].get("name", "")
    if context.route.name and name != context.route.name:
        raise BadRequest(f"name in URL does not match name in {view.kind} object")
    if not name:
        raise BadRequest("Name parameter required.")
    refuse_name(name)


def _owned_metadata(view: Definition, subresource: str, sent: Object, write_context: WriteContext) -> Object:
    """The metadata that webhooks get, with managedFields of the fields in the request."""
    metadata = {key: value for key, value in sent["metadata"].items() if key != "managedFields"}
    bare, time = {**sent, "metadata": metadata}, seconds_text(write_context.time)
    owners = creator_entries(view, subresource, bare, write_context.manager, time)
    return {**metadata, "managedFields": owners} if owners else metadata


def _complete_dry_run(request: AdmissionRequest) -> None:
    """Set dryRun in the Eviction that validating webhooks get, if the query has it."""
    wanted = request.object
    if request.dry_run and wanted is not None and "deleteOptions" in wanted:
        chosen = wanted["deleteOptions"]
        if not chosen.get("dryRun"):
            request.object = {**wanted, "deleteOptions": {**chosen, "dryRun": ["All"]}}


SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
