"""Asynchronous plugins: a write waits outside its actor, and delays no other write."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rewound.actors.admission import calls
from rewound.actors.admission.chain import Admission
from rewound.actors.admission.plugin import Admitted, AsyncPlugin, rule
from rewound.actors.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from rewound.actors.errors import Forbidden, NotFound, RequestError, Resource, ShuttingDown
from rewound.actors.messages import Create, Delete, DeleteOptions, Patch, Replace
from rewound.actors.resource import write as resource_write
from rewound.actors.resource.actor import ResourceActor
from rewound.actors.resource.write import Write
from rewound.actors.runtime.large_work import LARGE_BYTES
from tests.actors.object_store import Refused, Store, open_store

CONFIG_MAPS, SERVICES = Resource("", "configmaps"), Resource("", "services")
SECONDS = 10.0


async def nothing(_: AdmissionRequest) -> None:
    pass


class Outside(AsyncPlugin):
    """Waits ten seconds for objects with the label slow, and runs `meanwhile` during that time."""

    name = "Outside"

    def __init__(self, meanwhile: Callable[[AdmissionRequest], Awaitable[Any]] = nothing) -> None:
        self.requests: list[AdmissionRequest] = []
        self.meanwhile = meanwhile

    def is_slow(self, request: AdmissionRequest) -> bool:
        subject = request.object or request.old or {"metadata": {}}
        return "slow" in subject["metadata"].get("labels", {})

    async def admit(self, request: AdmissionRequest) -> Admitted:
        if not self.is_slow(request):
            return Admitted()
        self.requests.append(request)
        await trio.sleep(SECONDS)
        await self.meanwhile(request)
        return self.outcome(request)

    def outcome(self, request: AdmissionRequest) -> Admitted:
        return Admitted(warnings=("asked",))


class Mutating(Outside):
    mutates = (rule(CREATE, UPDATE, DELETE, of=(CONFIG_MAPS, SERVICES)),)

    def outcome(self, request: AdmissionRequest) -> Admitted:
        if request.object is None:
            return Admitted()
        metadata = request.object["metadata"]
        annotations = {**metadata.get("annotations", {}), "asked": str(len(self.requests))}
        return Admitted({**request.object, "metadata": {**metadata, "annotations": annotations}})


class Validating(Outside):
    validates = (rule(CREATE, UPDATE, DELETE, of=(CONFIG_MAPS, SERVICES)),)


def slow(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"slow": ""}}, **more}


def quick(name: str = "a", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


@pytest.mark.parametrize("plugin", [Mutating, Validating])
async def test_thousand_slow_writes_do_not_delay_a_fast_one(
    plugin: type[Outside], autojump_clock: MockClock
) -> None:
    async with open_store(plugin()) as store, trio.open_nursery() as nursery:
        for number in range(1000):
            nursery.start_soon(store.create, "configmaps", slow(f"slow-{number}"))
        await wait_all_tasks_blocked()
        began = trio.current_time()
        await store.create("configmaps", quick())
        assert trio.current_time() == began
        assert store.directory.admission_statistics().running == 1000
        await trio.sleep(SECONDS + 1)
        assert len((await store.list("configmaps"))["items"]) == 1001
        assert store.directory.admission_statistics().running == 0


async def test_changes_of_an_asynchronous_plugin_are_stored(autojump_clock: MockClock) -> None:
    async with open_store(Mutating()) as store:
        made = await store.create("configmaps", slow(data={"x": "y"}))
        assert made["metadata"]["annotations"] == {"asked": "1"}
        assert (await store.get("configmaps", "a"))["data"] == {"x": "y"}


async def test_mutating_plugin_runs_before_validating_plugin(autojump_clock: MockClock) -> None:
    mutating, validating = Mutating(), Validating()
    async with open_store(mutating, validating) as store:
        definition = store.definition("configmaps")
        new = definition.schema.decode_object(slow()).object
        command = Create("v1", "default", new, store.write_contexts.new("u", "m"))
        began = trio.current_time()
        outcome = await store.directory.ask(definition, command)
        assert trio.current_time() == began + 2 * SECONDS
        (seen,) = validating.requests
        assert seen.object is not None and seen.object["metadata"]["annotations"] == {"asked": "1"}
        assert seen.object["metadata"]["uid"] == command.context.uid
        assert getattr(outcome, "warnings", None) == ("asked",)


@pytest.mark.parametrize("plugin", [Mutating, Validating])
async def test_write_is_prepared_again_if_the_object_changed(
    plugin: type[Outside], autojump_clock: MockClock
) -> None:
    outside = plugin()
    async with open_store(outside) as store:
        await store.create("configmaps", quick())

        async def move(request: AdmissionRequest) -> None:
            if len(outside.requests) == 1:
                await store.replace("configmaps", quick(data={"moved": "y"}))

        outside.meanwhile = move
        context = store.write_contexts.new("u", "m")
        patch = Patch("v1", "default", "a", "merge", {"metadata": {"labels": {"slow": ""}}}, context)
        await store.directory.ask(store.definition("configmaps"), patch)
        found = await store.get("configmaps", "a")
        assert found["data"] == {"moved": "y"} and found["metadata"]["labels"] == {"slow": ""}
        first, second = outside.requests
        assert "data" not in (first.old or {}) and (second.old or {})["data"] == {"moved": "y"}


async def test_write_with_a_resource_version_is_not_retried(autojump_clock: MockClock) -> None:
    outside = Mutating()
    async with open_store(outside) as store:
        made = await store.create("configmaps", quick())

        async def move(request: AdmissionRequest) -> None:
            await store.replace("configmaps", quick(data={"moved": "y"}))

        outside.meanwhile = move
        named = slow()
        named["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
        with pytest.raises(Refused) as refused:
            await store.replace("configmaps", named)
        assert refused.value.reason == "Conflict" and len(outside.requests) == 1


async def test_commit_of_the_same_object_causes_no_retry(autojump_clock: MockClock) -> None:
    """The update is decided before the create is committed, and finishes long after."""
    outside = Mutating()
    outside.mutates = (rule(UPDATE, of=(CONFIG_MAPS,)),)
    async with open_store(outside) as store:
        definition, context = store.definition("configmaps"), store.write_contexts.new("u", "m")
        new = definition.schema.decode_object(slow()).object
        patch = Patch("v1", "default", "a", "merge", {"data": {"x": "y"}}, context)
        actor = store.directory.actor(definition)
        writes = [Write(one) for one in (Create("v1", "default", new, context), patch)]
        for write in writes:
            actor._mailbox.send_nowait(write)
        for write in writes:
            await write.wait()
        assert (await store.get("configmaps", "a"))["data"] == {"x": "y"}
        assert len(outside.requests) == 1


@pytest.mark.parametrize("format_", ["merge", "apply"])
@pytest.mark.parametrize("plugin", [Mutating, Validating])
async def test_commit_of_the_same_object_does_not_require_a_version(
    plugin: type[Outside], format_: str, autojump_clock: MockClock
) -> None:
    """A patch of a kind that cannot be replaced without a version, decided before the create is committed."""
    outside = plugin()
    async with open_store(outside) as store:
        leases = store.definition("leases")
        rules = (rule(UPDATE, of=(leases.resource,)),)
        outside.mutates, outside.validates = (rules, ()) if plugin is Mutating else ((), rules)
        context, version = store.write_contexts.new("u", "m"), leases.api_version
        new = leases.schema.decode_object(slow(spec={"holderIdentity": "x"})).object
        sent = {"apiVersion": version, "kind": "Lease", "spec": {"leaseTransitions": 3}, "metadata": {}}
        patch = Patch(version, "default", "a", format_, sent, context, force=True)
        actor = store.directory.actor(leases)
        writes = [Write(one) for one in (Create(version, "default", new, context), patch)]
        for write in writes:
            actor._mailbox.send_nowait(write)
        for write in writes:
            await write.wait()
        assert (await store.get("leases", "a"))["spec"]["leaseTransitions"] == 3
        assert len(outside.requests) == 1


@pytest.mark.parametrize("plugin", [Mutating, Validating])
async def test_delete_of_a_missing_object_calls_no_plugin(
    plugin: type[Outside], autojump_clock: MockClock
) -> None:
    async with open_store(plugin()) as store:
        with pytest.raises(Refused) as refused:
            await store.delete("configmaps", "a")
        assert refused.value.reason == "NotFound"
        assert store.directory.admission_statistics().started == 0


@pytest.mark.parametrize("plugin", [Mutating, Validating])
@pytest.mark.parametrize("verb", ["replace", "patch", "delete"])
async def test_object_deleted_meanwhile_is_not_found(
    plugin: type[Outside], verb: str, autojump_clock: MockClock
) -> None:
    outside = plugin()
    async with open_store(outside) as store:
        definition, context = store.definition("configmaps"), store.write_contexts.new("u", "m")

        async def remove(request: AdmissionRequest) -> None:
            outside.meanwhile = nothing
            await store.replace("configmaps", quick())
            await store.delete("configmaps", "a")

        await store.create("configmaps", slow())
        outside.requests.clear()
        outside.meanwhile = remove
        changed = definition.schema.decode_object(slow(data={"x": "y"})).object
        command = {
            "replace": Replace("v1", "default", "a", changed, context),
            "patch": Patch("v1", "default", "a", "merge", {"data": {"x": "y"}}, context),
            "delete": Delete("v1", "default", "a", context),
        }[verb]
        with pytest.raises(NotFound):
            await store.directory.ask(definition, command)
        assert store.directory.admission_statistics().running == 0


@pytest.mark.parametrize("plugin", [Mutating, Validating])
async def test_name_created_meanwhile_already_exists(
    plugin: type[Outside], autojump_clock: MockClock
) -> None:
    outside = plugin()
    async with open_store(outside) as store:

        async def take(request: AdmissionRequest) -> None:
            await store.create("configmaps", quick())

        outside.meanwhile = take
        with pytest.raises(Refused) as refused:
            await store.create("configmaps", slow())
        assert refused.value.reason == "AlreadyExists"


async def test_create_is_refused_if_the_namespace_is_deleted_meanwhile(autojump_clock: MockClock) -> None:
    outside = Validating()
    async with open_store(outside) as store:
        await store.create("namespaces", quick("gone"))

        async def remove(request: AdmissionRequest) -> None:
            await store.delete("namespaces", "gone")

        outside.meanwhile = remove
        with pytest.raises(Refused, match="because it is being terminated"):
            await store.create("configmaps", slow(), "gone")


@pytest.mark.parametrize("plugin", [Mutating, Validating])
@pytest.mark.parametrize("error", [Forbidden(CONFIG_MAPS, "a", "no"), RuntimeError("broken")])
async def test_plugin_that_raises_refuses_the_write(
    plugin: type[Outside], error: Exception, autojump_clock: MockClock
) -> None:
    async def refuse(request: AdmissionRequest) -> None:
        raise error

    async with open_store(plugin(refuse)) as store:
        with pytest.raises((Refused, RuntimeError)):
            await store.create("configmaps", slow())
        assert (await store.list("configmaps"))["items"] == []
        assert store.directory.admission_statistics().running == 0
        assert await store.create("configmaps", quick())


def service(name: str) -> dict[str, Any]:
    return slow(name, spec={"ports": [{"port": 80}], "clusterIP": "10.0.0.7"})


async def allocates(store: Store, name: str) -> str:
    """Whether an address is free."""
    try:
        spec = {"ports": [{"port": 80}], "clusterIP": "10.0.0.7"}
        await store.create("services", quick(name, spec=spec), dryRun="All")
    except Refused as refused:
        return refused.reason
    return "free"


async def test_allocated_address_stays_reserved_during_the_call(autojump_clock: MockClock) -> None:
    outside = Validating()
    async with open_store(outside) as store, trio.open_nursery() as nursery:
        nursery.start_soon(store.create, "services", service("a"))
        await wait_all_tasks_blocked()
        assert await allocates(store, "b") == "Invalid"
        await trio.sleep(SECONDS + 1)
        (seen,) = outside.requests
        found = await store.get("services", "a")
        assert seen.object is not None and seen.object["spec"]["clusterIP"] == found["spec"]["clusterIP"]


async def test_repeated_write_gets_the_port_that_its_first_attempt_reserved(
    autojump_clock: MockClock,
) -> None:
    outside = Validating()
    async with open_store(outside) as store:
        spec = {"ports": [{"port": 80}], "type": "NodePort"}
        await store.create("services", quick(spec=spec))

        async def move(request: AdmissionRequest) -> None:
            if len(outside.requests) == 1:
                status = {"loadBalancer": {"ingress": [{"ip": "10.1.1.1"}]}}
                await store.replace("services", quick(spec=spec, status=status), subresource="status")

        outside.meanwhile = move
        wanted = {"ports": [{"port": 80, "nodePort": 30123}], "type": "NodePort"}
        made = await store.replace("services", slow(spec=wanted))
        assert made["spec"]["ports"][0]["nodePort"] == 30123
        assert len(outside.requests) == 2


async def test_callback_that_raises_does_not_keep_the_reply(autojump_clock: MockClock) -> None:
    calls: list[bool] = []

    def broken(durable: bool) -> None:
        raise RuntimeError("a mistake in a plugin")

    async def register(request: AdmissionRequest) -> None:
        request.callbacks += (broken, calls.append)

    async with open_store(Validating(register)) as store:
        assert (await store.create("configmaps", slow()))["metadata"]["name"] == "a"
        assert calls == [True]


async def test_write_whose_batch_crashed_is_not_stored_after_its_call(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(Validating()) as store:
        definition, context = store.definition("configmaps"), store.write_contexts.new("u", "m")
        actor = store.directory.actor(definition)
        execute = ResourceActor._begin

        def broken(actor: ResourceActor, view: Any, write: Write, proposals: Any) -> Any:
            if "slow" not in write.command.object["metadata"].get("labels", {}):  # type: ignore[union-attr]
                raise RuntimeError("a mistake in an actor")
            return execute(actor, view, write, proposals)

        monkeypatch.setattr(ResourceActor, "_begin", broken)
        decoded = [definition.schema.decode_object(one).object for one in (slow("a"), quick("b"))]
        writes = [Write(Create("v1", "default", one, context)) for one in decoded]
        for write in writes:
            actor._mailbox.send_nowait(write)
        for write in writes:
            with pytest.raises(RuntimeError):
                await write.wait()
        monkeypatch.setattr(ResourceActor, "_begin", execute)
        await trio.sleep(SECONDS * 2)
        assert (await store.list("configmaps"))["items"] == []


async def test_cancelled_caller_releases_its_reservations(autojump_clock: MockClock) -> None:
    outside = Validating()
    async with open_store(outside) as store:
        with trio.move_on_after(SECONDS / 2):
            await store.create("services", service("a"))
        await wait_all_tasks_blocked()
        assert store.directory.admission_statistics().running == 0
        assert await allocates(store, "b") == "free"
        await trio.sleep(SECONDS * 2)
        assert (await store.list("services"))["items"] == []


async def test_refused_write_releases_its_reservations(autojump_clock: MockClock) -> None:
    async def refuse(request: AdmissionRequest) -> None:
        raise Forbidden(SERVICES, "a", "no")

    async with open_store(Validating(refuse)) as store:
        with pytest.raises(Refused):
            await store.create("services", service("a"))
        assert await allocates(store, "b") == "free"


async def test_dry_run_is_flagged_and_stores_nothing(autojump_clock: MockClock) -> None:
    outside = Mutating()
    async with open_store(outside) as store:
        made = await store.create("configmaps", slow(), dryRun="All")
        assert made["metadata"]["annotations"] == {"asked": "1"}
        assert [request.dry_run for request in outside.requests] == [True]
        assert (await store.list("configmaps"))["items"] == []


async def test_number_of_calls_is_bounded(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls.AdmissionCalls.__init__, "__defaults__", (3,))
    async with open_store(Mutating()) as store, trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(store.create, "configmaps", slow(f"slow-{number}"))
        await wait_all_tasks_blocked()
        with pytest.raises(Refused) as refused:
            await store.create("configmaps", slow())
        assert refused.value.reason == "TooManyRequests"
        assert await store.create("secrets", quick())
        await trio.sleep(SECONDS + 1)
        assert (await store.create("configmaps", slow()))["metadata"]["name"] == "a"


async def test_waiting_writes_get_an_error_when_the_server_stops(autojump_clock: MockClock) -> None:
    async with open_store(Mutating()) as store:
        errors: list[RequestError] = []
        definition = store.definition("configmaps")
        new = definition.schema.decode_object(slow()).object
        command = Create("v1", "default", new, store.write_contexts.new("u", "m"))

        async def ask() -> None:
            try:
                await store.directory.ask(definition, command)
            except RequestError as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            await store.restart()
        assert [type(error) for error in errors] == [ShuttingDown]
        assert (await store.list("configmaps"))["items"] == []


async def test_commands_are_unchanged_by_asynchronous_steps(autojump_clock: MockClock) -> None:
    """Deletes have no object, only an old one."""
    outside = Validating()
    async with open_store(outside) as store:
        await store.create("configmaps", slow())
        context = store.write_contexts.new("u", "m")
        command = Delete("v1", "default", "a", context, DeleteOptions())
        await store.directory.ask(store.definition("configmaps"), command)
        assert outside.requests[-1].operation == DELETE and outside.requests[-1].object is None
        assert (await store.list("configmaps"))["items"] == []


async def test_write_that_concerns_no_plugin_has_an_empty_chain() -> None:
    async with open_store(Mutating()) as store:
        secrets = store.definition("secrets")
        decider = store.directory.actor(secrets)._decider
        assert not Admission([Mutating()]).chain(secrets, UPDATE, "").changes
        assert decider.chain(secrets, CREATE, "") is decider.chain(secrets, CREATE, "")


@pytest.mark.parametrize("plugin", [Mutating, Validating])
async def test_small_create_of_a_name_with_a_large_object_is_refused_as_such(
    plugin: type[Outside], autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts in the event loop and needs a thread when it finds the large object: both call the plugin."""
    # The clock jumps to the next deadline while the thread works.
    monkeypatch.setattr(resource_write, "LONGEST_WRITE", math.inf)
    async with open_store(outside := plugin()) as store:
        await store.create("configmaps", quick(data={"x": "x" * (LARGE_BYTES + 1)}))
        with pytest.raises(Refused, match="AlreadyExists"):
            await store.create("configmaps", slow())
    assert len(outside.requests) <= 2
