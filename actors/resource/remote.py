"""Commands whose actors run in another process: `RemoteDirectory` sends them, `answer` handles them there.

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


async def answer(directory: Directory, registry: Registry, message: bytes) -> bytes:
    """Handle a message of a `RemoteDirectory`; the bytes of the reply. BadMessage."""
    try:
        type_name, served, encoded = msgpack.unpackb(message)
    except ValueError as error:
        raise BadMessage(f"no message: {error}") from None
    command = decode_command(encoded, trio.current_time())
    result: Outcome | Exception
    try:
        found = registry.current.stored_type(type_name)
        if found is None:
            raise NoSuchResource
        ask = directory.ask_served if served else directory.ask
        result = await ask(found.storage, command)
    except Exception as error:
        if not isinstance(error, RequestError | JournalError):
            logger.exception("a command of another process failed")
        result = error
    return encode_reply(result, command.context)
