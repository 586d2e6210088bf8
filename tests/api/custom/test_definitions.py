"""A CustomResourceDefinition from its creation to its deletion."""

from __future__ import annotations

from tests.api.custom.kinds import (
    DEFINITIONS,
    GROUP,
    MERGE,
    NAME,
    WIDGETS,
    conditions,
    define,
    definition,
    gone,
    until,
    version,
    widget,
)
from tests.gateway.api import Api, served


async def test_established_kind_is_served_and_described() -> None:
    async with served() as api:
        declared = definition(shortNames=["wd"], categories=["all"])
        created = (await api.ask("POST", DEFINITIONS, declared)).expect(201)
        assert created["status"] == {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": ["v1"],
        }
        stored = await until(api, lambda: _established(api))
        assert stored["status"]["acceptedNames"] == {
            "plural": "widgets",
            "singular": "widget",
            "shortNames": ["wd"],
            "kind": "Widget",
            "listKind": "WidgetList",
            "categories": ["all"],
        }
        [resource] = (await api.ask("GET", f"/apis/{GROUP}/v1")).expect(200)["resources"]
        assert (resource["name"], resource["shortNames"]) == ("widgets", ["wd"])
        document = (await api.ask("GET", f"/openapi/v3/apis/{GROUP}/v1")).expect(200)
        schema = document["components"]["schemas"]["com.example.v1.Widget"]
        assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer"}
        assert schema["x-cluster-group-version-kind"] == [{"group": GROUP, "version": "v1", "kind": "Widget"}]
        # kubectl apply chooses its patch type by what it finds here.
        patch = document["paths"][f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets/{{name}}"]["patch"]
        assert list(patch["requestBody"]["content"]) == [
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/apply-patch+yaml",
        ]
        older = (await api.ask("GET", "/openapi/v2")).expect(200)
        assert "com.example.v1.WidgetList" in older["definitions"]


async def _established(api: Api) -> object:
    stored = (await api.ask("GET", f"{DEFINITIONS}/{NAME}")).expect(200)
    return stored if conditions(stored).get("Established") == "True" else None


async def test_deletion_deletes_all_objects_and_recreation_finds_none() -> None:
    async with served() as api:
        await define(api, definition())
        for name in ("a", "b"):
            (await api.ask("POST", WIDGETS, widget(name))).expect(201)
        deleted = (await api.ask("DELETE", f"{DEFINITIONS}/{NAME}")).expect(200)
        assert conditions(deleted)["Terminating"] == "True"
        assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.cluster.io"]
        await gone(api, f"{DEFINITIONS}/{NAME}")
        assert (await api.ask("GET", WIDGETS)).text == "404 page not found\n"
        assert GROUP not in (await api.ask("GET", "/apis")).text
        await define(api, definition())
        assert (await api.ask("GET", WIDGETS)).expect(200)["items"] == []


async def test_definition_waits_for_objects_with_finalizers() -> None:
    async with served() as api:
        await define(api, definition())
        held = widget("a")
        held["metadata"]["finalizers"] = ["example.com/held"]
        (await api.ask("POST", WIDGETS, held)).expect(201)
        (await api.ask("DELETE", f"{DEFINITIONS}/{NAME}")).expect(200)

        async def is_marked() -> bool:
            found = (await api.ask("GET", f"{WIDGETS}/a")).expect(200)
            return "deletionTimestamp" in found["metadata"]

        await until(api, is_marked)
        refused = (await api.ask("POST", WIDGETS, widget("b"))).expect(405)
        assert refused["message"] == "create not allowed while custom resource definition is terminating"
        applied = await api.ask(
            "PATCH",
            f"{WIDGETS}/c",
            widget("c"),
            headers={"content-type": "application/apply-patch+yaml"},
            fieldManager="me",
        )
        assert applied.status == 403
        [resource] = (await api.ask("GET", f"/apis/{GROUP}/v1")).expect(200)["resources"]
        assert "create" not in resource["verbs"]
        (await api.ask("PATCH", f"{WIDGETS}/a", {"metadata": {"finalizers": None}}, headers=MERGE)).expect(
            200
        )
        await gone(api, f"{DEFINITIONS}/{NAME}")


async def test_conflicting_names_are_accepted_when_they_are_free() -> None:
    async with served() as api:
        await define(api, definition(shortNames=["w"]))
        rival = definition(plural="windows", kind="Window", shortNames=["w"])
        (await api.ask("POST", DEFINITIONS, rival)).expect(201)
        path = f"{DEFINITIONS}/windows.{GROUP}"

        async def decided() -> object:
            stored = (await api.ask("GET", path)).expect(200)
            return stored if stored["status"]["conditions"] else None

        found = await until(api, decided)
        assert conditions(found) == {"NamesAccepted": "False", "Established": "False"}
        [accepted, _] = found["status"]["conditions"]
        assert (accepted["reason"], accepted["message"]) == ("ShortNamesConflict", '"w" is already in use')
        assert (await api.ask("GET", f"/apis/{GROUP}/v1/windows")).status == 404
        (await api.ask("DELETE", f"{DEFINITIONS}/{NAME}")).expect(200)

        async def is_served() -> bool:
            return (await api.ask("GET", f"/apis/{GROUP}/v1/windows")).status == 200

        await until(api, is_served)


async def test_kinds_are_served_again_after_a_restart() -> None:
    async with served() as api:
        await define(api, definition(version("v1", served=False), version("v2", storage=False)))
        path = WIDGETS.replace("/v1/", "/v2/")
        created = widget("a")
        created["apiVersion"] = f"{GROUP}/v2"
        before = (await api.ask("POST", path, created)).expect(201)
        await api.restart()
        assert (await api.ask("GET", f"{path}/a")).expect(200) == before
        assert (await api.ask("GET", f"{WIDGETS}/a")).status == 404


async def test_protected_group_needs_an_approval_and_shows_it() -> None:
    async with served() as api:
        declared = definition()
        declared["metadata"]["name"] = "widgets.new.cluster.io"
        declared["spec"]["group"] = "new.cluster.io"
        refused = (await api.ask("POST", DEFINITIONS, declared)).expect(422)
        assert refused["details"]["causes"][0]["field"] == "metadata.annotations[api-approved.cluster.io]"
        declared["metadata"]["annotations"] = {"api-approved.cluster.io": "unapproved, an experiment"}
        stored = await define(api, declared)
        [found] = [one for one in stored["status"]["conditions"] if one["type"].endswith("Conformant")]
        assert (found["status"], found["reason"]) == ("False", "UnapprovedAnnotation")
        assert found["message"] == 'not approved: "unapproved, an experiment"'


async def test_definition_named_like_a_built_in_kind_is_harmless() -> None:
    async with served() as api:
        storage_classes = "/apis/storage.cluster.io/v1/storageclasses"
        created = {"metadata": {"name": "fast"}, "provisioner": "example.com/disk"}
        (await api.ask("POST", storage_classes, created)).expect(201)
        declared = definition(plural="storageclasses", kind="StorageClass", scope="Cluster")
        declared["metadata"] = {
            "name": "storageclasses.storage.cluster.io",
            "annotations": {"api-approved.cluster.io": "unapproved"},
        }
        declared["spec"]["group"] = "storage.cluster.io"
        await define(api, declared)
        assert (await api.ask("GET", f"{storage_classes}/fast")).expect(200)[
            "provisioner"
        ] == "example.com/disk"
        (await api.ask("DELETE", f"{DEFINITIONS}/storageclasses.storage.cluster.io")).expect(200)
        await gone(api, f"{DEFINITIONS}/storageclasses.storage.cluster.io")
        assert (await api.ask("GET", f"{storage_classes}/fast")).expect(200)["kind"] == "StorageClass"


async def test_version_stays_while_objects_may_be_stored_in_it() -> None:
    async with served() as api:
        await define(api, definition(version("v1"), version("v2", storage=False)))
        path = f"{DEFINITIONS}/{NAME}"
        switched = {"spec": {"versions": [version("v1", storage=False), version("v2")]}}
        stored = (await api.ask("PATCH", path, switched, headers=MERGE)).expect(200)
        assert stored["status"]["storedVersions"] == ["v1", "v2"]
        alone = {"spec": {"versions": [version("v2")]}}
        refused = (await api.ask("PATCH", path, alone, headers=MERGE)).expect(422)
        assert "status.storedVersions[0]" in refused["message"]
        (
            await api.ask("PATCH", f"{path}/status", {"status": {"storedVersions": ["v2"]}}, headers=MERGE)
        ).expect(200)
        (await api.ask("PATCH", path, alone, headers=MERGE)).expect(200)
        assert (await api.ask("GET", WIDGETS)).status == 404


async def test_decoding_errors_name_the_types_of_schemas() -> None:
    names = {
        "x-cluster-validations": "v1.ValidationRules",
        "definitions": "v1.JSONSchemaDefinitions",
        "dependencies": "v1.JSONSchemaDependencies",
        "properties": "map[string]v1.JSONSchemaProps",
    }
    async with served() as api:
        for keyword, name in names.items():
            declared = definition(version(spec={"type": "object", keyword: "text"}))
            refused = await api.ask("POST", DEFINITIONS, declared)
            assert refused.status == 400
            assert f"{keyword} of type {name}" in refused.text


async def test_unknown_fields_of_an_invalid_object_are_warnings() -> None:
    async with served() as api:
        await define(api, definition())
        refused = await api.ask("POST", WIDGETS, widget("a", spec={"size": "x", "more": 1}))
        assert refused.status == 422
        assert "more" not in refused.text
