"""The client that controllers and bootstrap write with: it sends commands to the actors as its own user.

It has no direct access to the journal, so validation, admission and optimistic concurrency apply to controllers too,
and the journal records which controller wrote what.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import TypeVar

import trio

from rewound.actors.access.authorize import Attributes, Authorizer, Decision, refusal
from rewound.actors.admission.chain import Chain, admit_ephemeral, validate_ephemeral
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.controllers.namespace_slots import NamespaceSlots
from rewound.actors.errors import RequestError
from rewound.actors.identity import AUTHENTICATED, User
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import (
    Command,
    Create,
    Delete,
    DeleteOptions,
    Object,
    Patch,
    Replace,
    Submit,
    WriteContext,
)
from rewound.actors.names import Names
from rewound.actors.resource.directory import Directory
from rewound.actors.runtime.large_work import is_large_object
from rewound.actors.runtime.write_context import WriteContexts

MANAGER = "controller-manager"
_PATCHED = ("uid", "resourceVersion", "ownerReferences", "finalizers")


class Client:
    def __init__(
        self,
        directory: Directory,
        write_contexts: WriteContexts,
        user: User | str,
        manager: str = MANAGER,
        authorizer: Authorizer | None = None,
        check_room: Callable[[Definition, str], None] | None = None,
        slots: NamespaceSlots | None = None,
    ) -> None:
        """`authorizer` decides what the user may do; None: everything, as for parts of the server.

        `check_room` raises if there is no room for an object, `slots` limit the concurrent writes.
        """
        self._authorizer = authorizer
        self._check_room, self._slots = check_room, slots
        self._directory = directory
        self._write_contexts = write_contexts
        self.identity = user
        self.user = user if isinstance(user, str) else user.name
        self._manager = manager
        self._chains: dict[tuple[Definition, str], Chain] = {}  # the admission of subresources

    @classmethod
    def of_controller(
        cls, directory: Directory, write_contexts: WriteContexts, names: Names, name: str
    ) -> Client:
        """A client whose user is a service account of the system namespace."""
        return cls(directory, write_contexts, f"system:serviceaccount:{names.system_namespace}:{name}")

    @classmethod
    def of_account(
        cls,
        directory: Directory,
        write_contexts: WriteContexts,
        names: Names,
        name: str,
        check_room: Callable[[Definition, str], None] | None = None,
        slots: NamespaceSlots | None = None,
    ) -> Client:
        """Like `of_controller`, but with the groups of the account, which webhooks see."""
        accounts, namespace = "system:serviceaccounts", names.system_namespace
        groups = (accounts, f"{accounts}:{namespace}", AUTHENTICATED)
        user = User(f"system:serviceaccount:{namespace}:{name}", groups=groups)
        return cls(directory, write_contexts, user, check_room=check_room, slots=slots)

    def now(self) -> int:
        return self._write_contexts.now()

    def _context(self, written: object = None, *, suffix: bool = False) -> WriteContext:
        """`written`: a worker thread decides the command if this is large."""
        large = is_large_object(written)
        return self._write_contexts.new(self.identity, self._manager, suffix=suffix, large=large, warns=False)

    async def create(self, definition: Definition, namespace: str, new: Object) -> bytes:
        """Store a new object, which is already decoded and defaulted (`definition.schema.decode_object`)."""
        if self._check_room is not None:
            self._check_room(definition, namespace)
        context = self._context(new, suffix="generateName" in new["metadata"])
        command = Create(definition.api_version, namespace, new, context)
        return await self._ask("create", definition, command, namespace, new["metadata"].get("name", ""))

    async def replace(self, definition: Definition, new: Object, subresource: str = "") -> bytes:
        """Store a changed object; raises Conflict if its resourceVersion is not the current one.

        For custom kinds only owners and finalizers change, because the stored object may be in another version.
        """
        metadata = new["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        version = definition.api_version
        if definition.storage.versions is not None:
            patch = {"metadata": {part: metadata.get(part) for part in _PATCHED}}
            return await self.patch(definition, namespace, name, patch)
        context = self._context(new)
        command = Replace(version, namespace, name, new, context, subresource)
        return await self._ask("update", definition, command, namespace, name, subresource)

    async def patch(
        self,
        definition: Definition,
        namespace: str,
        name: str,
        patch: object,
        patch_format: str = "merge",
        subresource: str = "",
    ) -> bytes:
        """Change fields of an object; `patch_format` is json, merge or strategic."""
        context = self._context(patch)
        version = definition.api_version
        command = Patch(version, namespace, name, patch_format, patch, context, subresource)
        return await self._ask("patch", definition, command, namespace, name, subresource)

    async def submit(
        self, definition: Definition, namespace: str, name: str, subresource: str, sent: Object
    ) -> bytes:
        """Send an object to a subresource that accepts one, such as a Binding or an Eviction."""
        context = self._context(sent)
        admitted = await self._admitted(definition, namespace, name, subresource, sent, context)
        command = Submit(definition.api_version, namespace, name, subresource, admitted, context)
        return await self._ask("create", definition, command, namespace, name, subresource)

    async def _admitted(
        self,
        definition: Definition,
        namespace: str,
        name: str,
        subresource: str,
        sent: Object,
        context: WriteContext,
    ) -> Object:
        """What admission makes of the sent object: an actor admits only what it stores."""
        chain = self._chains.get((definition, subresource))
        if chain is None:
            chain = self._directory.admission_chain(definition, CREATE, subresource)
            self._chains[definition, subresource] = chain
        if chain.admits_all(namespace):
            chain.count_validated()
            return sent
        view = definition.definition_at(subresource)
        typed = {"apiVersion": view.api_version, "kind": view.kind, **sent}
        request = AdmissionRequest(
            CREATE, definition, namespace, name, subresource, typed, None, context.user, False, context
        )
        try:
            await admit_ephemeral(chain, request)
            await validate_ephemeral(chain, request)
        finally:
            request.complete(False)
        assert request.object is not None
        return request.object

    async def apply(
        self,
        definition: Definition,
        namespace: str,
        name: str,
        applied: Object,
        subresource: str = "",
        *,
        may_create: bool = False,
    ) -> bytes:
        """Apply fields to an object, forcing conflicts; raises NotFound if it does not exist, unless `may_create`."""
        context, version = self._context(applied), definition.api_version
        if may_create:
            if self._check_room is not None:
                self._check_room(definition, namespace)
            if self._authorizer is not None:
                await self._authorize(self._authorizer, "create", definition, subresource, namespace, name)
        command = Patch(
            version,
            namespace,
            name,
            "apply",
            applied,
            context,
            subresource,
            force=True,
            may_create=may_create,
        )
        return await self._ask("patch", definition, command, namespace, name, subresource)

    async def delete(
        self,
        definition: Definition,
        namespace: str,
        name: str,
        options: DeleteOptions,
        verb: str = "delete",
    ) -> None:
        context = self._context()
        command = Delete(definition.api_version, namespace, name, context, options, verb)
        await self._ask(verb, definition, command, namespace, name)

    async def _ask(
        self,
        verb: str,
        definition: Definition,
        command: Command,
        namespace: str,
        name: str,
        subresource: str = "",
    ) -> bytes:
        if self._authorizer is not None:
            await self._authorize(self._authorizer, verb, definition, subresource, namespace, name)
        if self._slots is None:
            return (await self._directory.ask(definition, command)).body
        async with self._slots.of(namespace):
            return (await self._directory.ask(definition, command)).body

    async def _authorize(
        self,
        authorizer: Authorizer,
        verb: str,
        definition: Definition,
        subresource: str,
        namespace: str,
        name: str,
    ) -> None:
        user = self.identity if isinstance(self.identity, User) else User(self.identity)
        resource = definition.resource
        asked = Attributes(
            user, verb, resource.group, definition.version, resource.plural, subresource, namespace, name
        )
        decision = authorizer.authorize(asked)
        if not isinstance(decision, Decision):
            decision = await decision
        if not decision.allowed:
            raise refusal(asked, decision)


# As many as one commit should carry, far below the capacity of a mailbox.
BATCH = 64
BATCH_BYTES = 256 << 10  # what one commit should carry: every follower of writes reads it in one step

T = TypeVar("T")


def batch_of(size: int) -> int:
    """How many objects of this size are written together."""
    return max(1, min(BATCH, BATCH_BYTES // max(size, 1)))


async def run_concurrently(
    work: Callable[[T], Awaitable[None]], items: Sequence[T], at_once: int = BATCH
) -> list[RequestError]:
    """Call `work` for every item, concurrently, so that one commit carries many small writes; returns the errors.

    A write that fails does not stop the others. `at_once`: how many at a time (`batch_of`).
    """
    errors: list[RequestError] = []

    async def attempt(item: T) -> None:
        try:
            await work(item)
        except RequestError as error:
            errors.append(error)

    remaining = iter(items)
    while batch := list(islice(remaining, at_once)):
        async with trio.open_nursery() as nursery:
            for item in batch:
                nursery.start_soon(attempt, item)
    return errors
