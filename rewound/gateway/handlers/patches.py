"""Turns a PATCH request into a `Patch` command: format, options, and the decoded patch.

An apply needs a field manager and may be forced; its body is a partial object, which is decoded here to report its
problems. Patches of the other three formats are validated when the actor applies them to the object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from rewound.actors.errors import BadRequest, TooLarge
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Patch
from rewound.actors.patch.managed_fields.apply import USUAL_MANAGER
from rewound.gateway.handlers.bodies import Bodies, keep_patch_for_audit, patch_format
from rewound.gateway.pipeline import options
from rewound.gateway.pipeline.context import RequestContext, new_write_context
from rewound.gateway.store import Store


class PatchCommand(NamedTuple):
    command: Patch
    # Unknown and duplicate fields of the body, already reported as fieldValidation requires.
    problems: tuple[str, ...] = ()


class PatchDecoder:
    def __init__(
        self, store: Store, bodies: Bodies, may_create: Callable[[RequestContext], Awaitable[bool]]
    ) -> None:
        self._names, self._rules = store.names, store.rules
        self._bodies = bodies
        self._write_contexts = store.write_contexts
        self._reads = store.reads
        self._may_create = may_create
        self._annotation = store.names.key("last-applied-configuration", "kubectl")

    async def decode(self, context: RequestContext, definition: Definition, namespace: str) -> PatchCommand:
        format_ = patch_format(context.request.headers.get(b"content-type", b""), definition)
        write = self._options(context, format_)
        keep_patch_for_audit(context)
        view = definition.definition_at(context.route.subresource)
        if format_ == "apply" and view is definition:
            return await self._apply(context, definition, namespace, write)
        merges_apply = format_ == "apply"
        try:
            if merges_apply:
                value, problems, large = await self._bodies.applied_view(context, view)
                format_ = "merge"  # subresources such as scale have no managed fields of their own
            else:
                value, problems, large = await self._bodies.patch(context, format_)
        except (BadRequest, TooLarge):
            # A missing object is a 404, even if the patch is invalid.
            self._reads.get(definition, namespace, context.route.name)
            raise
        return PatchCommand(
            Patch(
                definition.api_version,
                namespace,
                context.route.name,
                format_,
                value,
                new_write_context(self._write_contexts, context, large=large),
                context.route.subresource,
                write.dry_run,
                write.field_validation,
                problems,
                force=write.force,
                merges_apply=merges_apply,
            )
        )

    async def _apply(
        self, context: RequestContext, definition: Definition, namespace: str, write: options.WriteOptions
    ) -> PatchCommand:
        body = await self._bodies.applied(context, definition, write.field_validation)
        command = Patch(
            definition.api_version,
            namespace,
            context.route.name,
            "apply",
            body.object,
            new_write_context(self._write_contexts, context, large=body.large),
            context.route.subresource,
            write.dry_run,
            write.field_validation,
            force=write.force,
            may_create=await self._may_create(context),
            annotation=self._annotation if context.manager == USUAL_MANAGER else "",
        )
        return PatchCommand(command, body.problems)

    def _options(self, context: RequestContext, format_: str) -> options.WriteOptions:
        parameters = context.parameters
        return options.patch_options(
            self._names,
            parameters.all("dryRun"),
            parameters.first("fieldValidation") or "",
            parameters.first("fieldManager") or "",
            parameters.first("force"),
            applies=format_ == "apply",
            rules=self._rules,
        )
