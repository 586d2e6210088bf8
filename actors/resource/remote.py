"""Commands whose actors run in another process: `RemoteDirectory` sends them, `begin` handles them there.

A message is msgpack of a type name, whether the type must be served, and the bytes of `actors.message_encoding`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgpack
import trio

from actors.errors import NoSuchResource, RequestError
from actors.kinds.declaration.definition import Definition
from actors.kinds.registry import Registry
from actors.message_encoding import BadMessage, decode_command, decode_reply, encode_command, encode_reply
from actors.messages import Command, Outcome
from actors.resource.actor import ActorContext
from actors.resource.directory import Directory
from actors.runtime.supervisor import Supervisor
from journal.errors import JournalError

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
        encoded = encode_command(command, trio.current_time())
        reply = await self._send(msgpack.packb((definition.type_name, served, encoded)))
        result = decode_reply(reply, command.context)
        if isinstance(result, Exception):
            raise result
        return result


def begin(
    directory: Directory, registry: Registry, message: bytes, reply: Callable[[bytes], None]
) -> Callable[[], None]:
    """Begin with a message of a `RemoteDirectory`; `reply` gets the bytes for it. BadMessage.

    Returns what to call when nobody waits for the reply any more. Without a task, because every write would pay for it.
    """
    try:
        type_name, served, encoded = msgpack.unpackb(message)
    except ValueError as error:
        raise BadMessage(f"no message: {error}") from None
    command = decode_command(encoded, trio.current_time())

    def done(result: Outcome | BaseException) -> None:
        if isinstance(result, BaseException) and not isinstance(result, RequestError | JournalError):
            logger.error("a command of another process failed", exc_info=result)
        reply(encode_reply(result, command.context))

    try:
        found = registry.current.stored_type(type_name)
        if found is None:
            raise NoSuchResource
        actor = directory.served_actor(type_name) if served else directory.actor(found.storage)
        return actor.tell(command, done).abandon
    except Exception as error:
        done(error)
        return lambda: None
