"""What is posted to an object that is there, and what only the agent of its node could answer.

A binding gives a pod its node, an eviction asks it to go; the answer is that it was done, not what was made.
Containers are run by nobody here: their logs, commands and ports are asked of agents that do not exist.
"""

from __future__ import annotations

from typing import Any

from actors.errors import BadRequest, Invalid
from actors.kinds.declaration.definition import Definition, Subresource
from actors.kinds.validation.field_errors import collect, invalid
from actors.messages import Object, Stamp, Submit
from actors.names import Names
from actors.resource import options
from actors.resource.directory import Directory
from actors.resource.evictions import Evictions
from actors.store.addressing import impossible, settle_namespace
from actors.store.document import decode
from actors.store.reads import Reads
from gateway.handlers.bodies import decode_body
from gateway.requests import render
from gateway.requests.call import Call
from gateway.requests.errors import NoAgent, NoEndpoints, NotYet
from gateway.requests.request import Response


class Submissions:
    def __init__(self, names: Names, directory: Directory, reads: Reads, evictions: Evictions) -> None:
        self._names = names
        self._directory = directory
        self._reads = reads
        self._evictions = evictions

    async def submit(
        self,
        call: Call,
        definition: Definition,
        subresource: Subresource,
        write: options.WriteOptions,
        stamp: Stamp,
    ) -> Response:
        view = definition.definition_at(subresource.name)
        body = await decode_body(call, view, self._names, write.field_validation)
        namespace, sent = call.route.namespace, body.object
        settle_namespace(namespace, sent)
        if subresource.unimplemented_message:
            await self._judge(call, definition, view, sent)
            raise NotYet(subresource.unimplemented_message)
        name = _addressed(call, view, sent)
        if subresource.submit is None:
            await self._evict(definition, namespace, name, sent, stamp, write.dry_run)
        else:
            command = Submit(
                definition.api_version, namespace, name, subresource.name, sent, stamp, write.dry_run
            )
            await self._directory.ask_served(definition, command)
        return await render.document(call, DONE, 201)

    async def _judge(self, call: Call, definition: Definition, view: Definition, sent: Object) -> None:
        """Whether what is sent could ever be done."""
        name = call.route.name
        self._reads.get(definition, call.route.namespace, name)
        errors = collect(view.strategy.validate_create, sent)
        if sent["metadata"].get("name", name) != name:
            wrong = "must match the service account name if specified"
            errors = [invalid("metadata.name", sent["metadata"]["name"], wrong)]
        if errors:
            raise Invalid(view.group, view.kind, name, [error.cause() for error in errors])

    async def _evict(
        self, pods: Definition, namespace: str, name: str, sent: Object, stamp: Stamp, dry_run: bool
    ) -> None:
        asked: dict[str, Any] = dict(sent.get("deleteOptions", {}))
        query = {"dryRun": ["All"]} if dry_run else {}
        chosen = options.delete_options(self._names, asked, query)
        await self._evictions.evict(pods, namespace, name, chosen, stamp)

    async def refuse(self, call: Call, definition: Definition, subresource: Subresource) -> Response:
        """For what an agent would answer: as good an answer as there is without one."""
        route = call.route
        stored = decode(self._reads.get(definition, route.namespace, route.name))
        if definition.kind == "Service":
            raise NoEndpoints(route.name)
        node = route.name if definition.kind == "Node" else stored["spec"].get("nodeName")
        if node:
            raise NoAgent(node)
        if subresource.name == "log":
            return render.text("")
        raise BadRequest(f"pod {route.name} does not have a host assigned")


def _addressed(call: Call, view: Definition, sent: Object) -> str:
    """The object meant: by the path, which what is sent must agree with, or by what is sent alone."""
    name: str = sent["metadata"].get("name", "")
    if call.route.name and name != call.route.name:
        raise BadRequest(f"name in URL does not match name in {view.kind} object")
    if not name:
        raise BadRequest("Name parameter required.")
    if refusal := impossible(name):
        raise refusal
    return name


DONE = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
