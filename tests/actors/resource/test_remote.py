"""Commands whose actors run in another process return the actor's outcome or error."""

from __future__ import annotations

import msgpack
import pytest
import trio

from rewound.actors.admission.chain import Admission
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import CREATE, AdmissionRequest
from rewound.actors.errors import AlreadyExists, NoSuchResource, NotFound, Resource
from rewound.actors.identity import User
from rewound.actors.message_encoding import BadMessage, Crashed, decode_reply, encode_command
from rewound.actors.messages import Create, Delete, Deleted, DeleteOptions, Written
from rewound.actors.resource.decide import ActorContext
from rewound.actors.resource.directory import Directory
from rewound.actors.resource.remote import RemoteDirectory, begin
from rewound.actors.runtime.large_work import LARGE_BYTES
from tests.actors.object_store import Store, open_store


def remote(store: Store) -> RemoteDirectory:
    """A directory without actors, which sends commands as bytes to the actors of the store."""
    large = store.directory.large_work
    context = ActorContext(store.journal, store.committer, Admission([]), store.calls, large, store.nursery)

    async def send(message: bytes) -> bytes:
        assert isinstance(message, bytes)
        return await answered(store, message)

    return RemoteDirectory(store.registry, store.supervisor, store.nursery, context, send)


async def answered(store: Store, message: bytes, directory: Directory | None = None) -> bytes:
    replies: list[bytes] = []
    replied = trio.Event()

    def reply(result: bytes) -> None:
        replies.append(result)
        replied.set()

    begin(directory or store.directory, store.registry, message, reply)
    with trio.fail_after(30):
        await replied.wait()
    [only] = replies
    return only


def create(store: Store, name: str, size: int = 1) -> Create:
    body = {"metadata": {"name": name}, "data": {"a": "b" * size}}
    context = store.write_contexts.new(User("u"), "m", large=size > LARGE_BYTES)
    return Create("v1", "default", body, context)


async def test_commands_are_carried_out_by_the_actors_of_the_other_process() -> None:
    async with open_store() as store:
        kind = store.registry.current.storage("configmaps")
        directory = remote(store)
        written = await directory.ask_served(kind, create(store, "a"))
        assert isinstance(written, Written)
        assert written.created
        assert (await store.get("configmaps", "a"))["data"] == {"a": "b"}
        options = DeleteOptions()
        context = store.write_contexts.new("u", "m")
        deleted = await directory.ask(kind, Delete("v1", "default", "a", context, options))
        assert isinstance(deleted, Deleted)
        assert directory.statistics() == {}


async def test_large_commands_are_encoded_and_decoded_in_threads() -> None:
    async with open_store() as store:
        kind = store.registry.current.storage("configmaps")
        written = await remote(store).ask_served(kind, create(store, "a", 2 * LARGE_BYTES))
        assert isinstance(written, Written)
        assert len((await store.get("configmaps", "a"))["data"]["a"]) == 2 * LARGE_BYTES
        assert store.directory.large_work.statistics().started >= 3  # both, and the decision


async def test_errors_of_the_actor_are_raised() -> None:
    async with open_store() as store:
        kind = store.registry.current.storage("configmaps")
        directory = remote(store)
        await directory.ask_served(kind, create(store, "a"))
        with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
            await directory.ask_served(kind, create(store, "a"))
        context = store.write_contexts.new("u", "m")
        with pytest.raises(NotFound):
            await directory.ask_served(kind, Delete("v1", "default", "b", context, DeleteOptions()))


async def test_a_type_that_the_other_process_does_not_have_is_refused() -> None:
    async with open_store() as store:
        message = msgpack.packb(("crontabs.example.io", True, "u", _encoded(create(store, "a"))))
        with pytest.raises(NoSuchResource):
            raise _result(await answered(store, message), store)


async def test_a_bug_is_logged_where_it_happened(caplog: pytest.LogCaptureFixture) -> None:
    async with open_store() as store:
        message = msgpack.packb(("configmaps", True, "u", _encoded(create(store, "a"))))
        broken = remote(store)
        broken.served_actor = None  # type: ignore[method-assign,assignment]
        reply = await answered(store, message, broken)
        assert isinstance(_result(reply, store), Crashed)
    assert "a command of another process failed" in caplog.text


async def test_bytes_that_are_no_message_are_refused() -> None:
    async with open_store() as store:
        with pytest.raises(BadMessage):
            await answered(store, b"\xc1")


def _encoded(command: Create) -> bytes:
    return encode_command(command, 0.0)


def _result(reply: bytes, store: Store) -> Exception:
    result = decode_reply(reply, store.write_contexts.new("u", "m"))
    assert isinstance(result, Exception)
    return result


class Waiting(AsyncPlugin):
    """Waits for ever, as for a webhook that does not respond."""

    name = "Waiting"
    validates = (rule(CREATE, of=(Resource("", "configmaps"),)),)

    def __init__(self) -> None:
        self.began, self.ended = trio.Event(), trio.Event()

    async def admit(self, request: AdmissionRequest) -> Admitted:
        self.began.set()
        try:
            await trio.sleep_forever()
        finally:
            self.ended.set()


async def test_write_whose_caller_disconnected_cancels_what_it_waits_for() -> None:
    async with open_store(waiting := Waiting()) as store:
        message = msgpack.packb(("configmaps", True, "u", _encoded(create(store, "a"))))
        replied = trio.Event()
        abandon = begin(store.directory, store.registry, message, lambda _: replied.set())
        with trio.fail_after(30):
            await waiting.began.wait()
            abandon()
            await waiting.ended.wait()
            await replied.wait()


async def test_write_that_waits_for_nothing_completes_although_its_caller_disconnected() -> None:
    async with open_store() as store:
        message = msgpack.packb(("configmaps", True, "u", _encoded(create(store, "a"))))
        replied = trio.Event()
        begin(store.directory, store.registry, message, lambda _: replied.set())()
        with trio.fail_after(30):
            await replied.wait()
        assert (await store.get("configmaps", "a"))["data"] == {"a": "b"}


async def test_large_write_whose_caller_disconnected_is_not_started() -> None:
    async with open_store() as store:
        encoded = _encoded(create(store, "a", 2 * LARGE_BYTES))
        message = msgpack.packb(("configmaps", True, "u", encoded))
        replies: list[bytes] = []
        begin(store.directory, store.registry, message, replies.append)()
        await store.create("configmaps", {"metadata": {"name": "b"}})
        assert replies == []
