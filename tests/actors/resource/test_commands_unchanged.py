"""A command is never modified: not when it is stored, refused, a dry run, a patch or an apply."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from rewound.actors.errors import RequestError
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.messages import Command, Create, Delete, DeleteOptions, Patch, Replace, Submit
from tests.actors.kinds.documents import RandomDocuments
from tests.actors.object_store import Store, open_store
from tests.cases import cases

SEEDS = range(12)
SPEC: dict[str, Any] = {
    "hostUsers": False,
    "containers": [{"name": "c", "image": "i", "securityContext": {"procMount": "Unmasked"}}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "k",
            "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": 2,
            "labelSelector": {},
        }
    ],
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "annotations": {"seccomp.security.alpha.cluster.io/pod": "runtime/default"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}] * 2,
    },
    "spec": SPEC,
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
JOB_TEMPLATE = {**TEMPLATE, "spec": {**SPEC, "restartPolicy": "Never"}}
SERVICE = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80, "name": "x"}]}}
DEPLOYMENT = {
    "metadata": {"name": "d"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
}
JOB = {"metadata": {"name": "j"}, "spec": {"template": JOB_TEMPLATE}}
SLICE = {
    "metadata": {"name": "e"},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.1.1.1"], "deprecatedTopology": {"x": "y"}}],
}
VALID: dict[str, dict[str, Any]] = {
    "pods": POD,
    "services": SERVICE,
    "deployments": DEPLOYMENT,
    "jobs": JOB,
    "endpointslices": SLICE,
    "secrets": {"metadata": {"name": "s"}, "stringData": {"a": "b"}},
    "namespaces": {
        "metadata": {"name": "n", "labels": {"a": "b"}},
        "spec": {"finalizers": ["example.com/x"]},
    },
}


async def run(store: Store, definition: Definition, command: Command) -> Any:
    """The outcome or the error; asserts that the command is unchanged."""
    before = copy.deepcopy(command)
    try:
        result: Any = await store.directory.ask(definition, command)
    except RequestError as error:
        result = error
    assert command == before
    return result


def creates(store: Store, definition: Definition, new: dict[str, Any]) -> list[Create]:
    namespace = "default" if definition.namespaced else ""
    command = Create(definition.api_version, namespace, new, store.write_contexts.new("u", "m", suffix=True))
    return [command._replace(dry_run=True), command, command]


@cases("plural", VALID)
async def test_create_is_unchanged_when_dry_run_stored_and_refused(plural: str) -> None:
    async with open_store() as store:
        definition = store.definition(plural)
        new = definition.schema.decode_object(VALID[plural]).object
        results = [await run(store, definition, command) for command in creates(store, definition, new)]
        assert [type(result).__name__ for result in results] == ["Written", "Written", "AlreadyExists"]


async def test_commands_with_random_objects_of_every_kind_are_unchanged() -> None:
    """Random documents, most of them invalid: neither validation nor preparation changes the command."""
    async with open_store() as store:
        for definition in store.catalog.definitions:
            if not definition.is_stored or not definition.has_items or definition.is_view:
                continue
            for seed in SEEDS:
                document = RandomDocuments(seed, junk_one_in=400).of(definition.fields)
                try:
                    new = definition.schema.decode_object(document).object
                except NotDecodable:
                    continue
                if definition.storage.conversion is not None:
                    new = definition.storage.conversion.to_storage(new)
                new["metadata"].update(name=f"x{seed}", namespace="default")
                for command in creates(store, definition, new):
                    await run(store, definition, command)
                    update = Replace(command.version, command.namespace, f"x{seed}", new, command.context)
                    await run(store, definition, update)
                    for subresource in definition.subresources:
                        if subresource.view is None and "update" in subresource.verbs:
                            await run(
                                store,
                                definition,
                                replace(update, subresource=subresource.name),
                            )


@pytest.mark.parametrize("plural", VALID)
async def test_replaces_and_patches_are_unchanged(plural: str) -> None:
    async with open_store() as store:
        definition = store.definition(plural)
        new = definition.schema.decode_object(VALID[plural]).object
        new["metadata"]["name"] = "x"
        namespace = "default" if definition.namespaced else ""
        address = definition.api_version, namespace, "x"
        context = store.write_contexts.new("u", "m")
        await run(store, definition, creates(store, definition, new)[1])
        changed = {**new, "metadata": {**new["metadata"], "labels": {"x": "y"}}}
        await run(store, definition, Replace(*address, changed, context))
        stale = {**new, "metadata": {**new["metadata"], "resourceVersion": "1"}}
        assert isinstance(await run(store, definition, Replace(*address, stale, context)), RequestError)
        config = {**VALID[plural], "kind": definition.kind, "apiVersion": definition.api_version}
        config["metadata"] = {"name": "x", "annotations": {"a": "b"}, "finalizers": []}
        operations = [
            {"op": "add", "path": "/metadata/annotations", "value": {"k": "v"}},
            {"op": "add", "path": "/metadata/annotations/l", "value": "w"},
            {"op": "copy", "from": "/metadata/annotations", "path": "/metadata/labels"},
        ]
        for format_, patch in (
            ("json", operations),
            ("merge", VALID[plural]),
            ("strategic", VALID[plural]),
            ("apply", config),
        ):
            for dry_run in (True, False):
                command = Patch(*address, format_, patch, context, dry_run=dry_run, force=True)
                await run(store, definition, command)


async def test_subresource_posts_and_deletes_are_unchanged() -> None:
    async with open_store() as store:
        definition = store.definition("pods")
        new = definition.schema.decode_object(POD).object
        await run(store, definition, creates(store, definition, new)[1])
        context = store.write_contexts.new("u", "m")
        sent = {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": {"kind": "Node", "name": "n"}}
        for dry_run in (True, False, False):
            await run(store, definition, Submit("v1", "default", "p", "binding", sent, context, dry_run))
        for options in (DeleteOptions(dry_run=True), DeleteOptions(uid="other"), DeleteOptions()):
            await run(store, definition, Delete("v1", "default", "p", context, options))


async def test_command_decided_again_gives_the_same_object() -> None:
    async with open_store() as store:
        definition = store.definition("pods")
        new = definition.schema.decode_object(POD).object
        command = creates(store, definition, new)[0]._replace(dry_run=True)
        first, second = [await run(store, definition, command) for _ in range(2)]
        assert first == second
