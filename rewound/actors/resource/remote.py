"""Commands whose actors run in another process: `RemoteDirectory` sends them, `begin` handles them there.

A message is msgpack of a type name, whether the type must be served, the user, and the bytes of
`actors.message_encoding`. Threads encode and decode large commands.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import msgpack
import trio

from rewound.actors.errors import NoSuchResource, RequestError
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.registry import Registry
from rewound.actors.message_encoding import (
    BadMessage,
    decode_command,
    decode_reply,
    encode_command,
    encode_reply,
)
from rewound.actors.messages import Command, Outcome, WriteContext
from rewound.actors.resource.decide import ActorContext
from rewound.actors.resource.directory import Directory
from rewound.actors.resource.write import CallbackWrite
from rewound.actors.runtime.large_work import LARGE_BYTES
from rewound.actors.runtime.supervisor import Supervisor
from rewound.journal.errors import JournalError

logger = logging.getLogger(__name__)

Send = Callable[[bytes], Awaitable[bytes]]  # a message; returns the bytes of its reply


class RemoteDirectory(Directory):
    """Has no actors. Admission of what no actor stores, such as a TokenRequest, runs here."""

    def __init__(
        self,
        registry: Registry,
        supervisor: Supervisor,
        nursery: trio.Nursery,
        context: ActorContext,
        send: Send,
    ) -> None:
        super().__init__(registry, supervisor, nursery, context)
        self._send = send

    def ask_served(self, definition: Definition, command: Command) -> Coroutine[Any, Any, Outcome]:
        return self._ask(definition, command, served=True)

    def ask(self, definition: Definition, command: Command) -> Coroutine[Any, Any, Outcome]:
        return self._ask(definition, command, served=False)

    async def _ask(self, definition: Definition, command: Command, *, served: bool) -> Outcome:
        user, now = command.context.user, trio.current_time()
        if command.context.large:
            encoded = await self.large_work.run(user, encode_command, command, now)
        else:
            encoded = encode_command(command, now)
        reply = await self._send(msgpack.packb((definition.type_name, served, user, encoded)))
        result = decode_reply(reply, command.context)
        if isinstance(result, Exception):
            raise result
        return result


def begin(
    directory: Directory, registry: Registry, message: bytes, reply: Callable[[bytes], None]
) -> Callable[[], None]:
    """Start to handle a message of a `RemoteDirectory`; `reply` gets the bytes of its reply. Raises BadMessage.

    Returns a function to call when nobody waits for the reply any more. It starts a task only for a large message,
    because every write would pay for one.
    """
    try:
        type_name, served, user, encoded = msgpack.unpackb(message)
    except ValueError as error:
        raise BadMessage(f"not a message: {error}") from None
    now = trio.current_time()
    received = Received(directory, registry, type_name, served, reply)
    if len(encoded) > LARGE_BYTES:
        directory.start_soon(received.decode_in_thread, user, encoded, now)
    else:
        received.tell(decode_command(encoded, now))
    return received.abandon


class Received:
    """One command of another process."""

    __slots__ = ("_directory", "_registry", "_reply", "_scope", "_served", "_type_name", "_write")

    def __init__(
        self,
        directory: Directory,
        registry: Registry,
        type_name: str,
        served: bool,
        reply: Callable[[bytes], None],
    ) -> None:
        self._directory, self._registry = directory, registry
        self._type_name, self._served = type_name, served
        self._reply = reply
        self._write: CallbackWrite | None = None  # when an actor has it
        self._scope: trio.CancelScope | None = None  # while a thread decodes it

    async def decode_in_thread(self, user: str, encoded: bytes, now: float) -> None:
        """Decode a large command in the worker thread, in the turn of its user."""
        with trio.CancelScope() as self._scope:
            try:
                command = await self._directory.large_work.run(user, decode_command, encoded, now)
            except Exception as error:
                self._done(WriteContext(0, user, "", "", ""), error)
            else:
                self.tell(command)
        self._scope = None

    def tell(self, command: Command) -> None:
        """Send the command to its actor."""
        done = partial(self._done, command.context)
        try:
            found = self._registry.current.stored_type(self._type_name)
            if found is None:
                raise NoSuchResource
            find = self._directory
            actor = find.served_actor(self._type_name) if self._served else find.actor(found.storage)
            self._write = actor.tell(command, done)
        except Exception as error:
            done(error)

    def _done(self, context: WriteContext, result: Outcome | BaseException) -> None:
        if isinstance(result, BaseException) and not isinstance(result, RequestError | JournalError):
            logger.error("a command of another process failed", exc_info=result)
        self._reply(encode_reply(result, context))

    def abandon(self) -> None:
        if self._write is not None:
            self._write.abandon()
        elif self._scope is not None:
            self._scope.cancel()
