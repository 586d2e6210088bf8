"""From a PATCH to the message that asks for it: format, options, and a decoded patch.

An apply says who applies and may be forced; its body is a partial object, which is decoded once here to find out
what is wrong with it. The other three formats are judged when they meet the object they change.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from actors.errors import BadRequest, TooLarge
from actors.kinds.declaration.definition import Definition
from actors.messages import Patch
from actors.names import Names
from actors.patch.managed_fields.last_applied import USUAL_MANAGER
from actors.resource import options
from actors.stamps import Stamps
from actors.store.reads import Reads
from gateway.handlers.bodies import decode_applied, decode_patch, patch_format
from gateway.requests.call import Call


class Asked(NamedTuple):
    command: Patch
    problems: tuple[str, ...] = ()  # of a body that the client has been told of, or not, as it wanted


class Patches:
    def __init__(
        self, names: Names, stamps: Stamps, reads: Reads, may_create: Callable[[Call], Awaitable[bool]]
    ) -> None:
        self._names = names
        self._stamps = stamps
        self._reads = reads
        self._may_create = may_create
        self._annotation = names.key("last-applied-configuration", "kubectl")

    async def read(self, call: Call, definition: Definition, namespace: str) -> Asked:
        format_ = patch_format(call.request.headers.get(b"content-type", b""), definition)
        write = self._options(call, format_)
        whole = definition.definition_at(call.route.subresource) is definition
        if format_ == "apply" and whole:
            return await self._apply(call, definition, namespace, write)
        if format_ == "apply":
            format_ = "merge"  # nobody owns anything of what is only a view of something else
        try:
            value, problems = await decode_patch(call, format_)
        except (BadRequest, TooLarge):
            # That there is nothing to patch is told before what is wrong with the patch.
            self._reads.get(definition, namespace, call.route.name)
            raise
        return Asked(
            Patch(
                definition.api_version,
                namespace,
                call.route.name,
                format_,
                value,
                self._stamps.make(call.user, call.manager),
                call.route.subresource,
                write.dry_run,
                write.field_validation,
                problems,
            )
        )

    async def _apply(
        self, call: Call, definition: Definition, namespace: str, write: options.WriteOptions
    ) -> Asked:
        body = await decode_applied(call, definition, write.field_validation)
        command = Patch(
            definition.api_version,
            namespace,
            call.route.name,
            "apply",
            body.object,
            self._stamps.make(call.user, call.manager),
            call.route.subresource,
            write.dry_run,
            write.field_validation,
            force=write.force,
            may_create=await self._may_create(call),
            annotation=self._annotation if call.manager == USUAL_MANAGER else "",
        )
        return Asked(command, body.problems)

    def _options(self, call: Call, format_: str) -> options.WriteOptions:
        parameters = call.parameters
        return options.patch_options(
            self._names,
            parameters.all("dryRun"),
            parameters.first("fieldValidation") or "",
            parameters.first("fieldManager") or "",
            parameters.first("force"),
            applies=format_ == "apply",
        )
