"""Field selectors of custom kinds: the fields that a definition declares, in lists and watches, since 1.30."""

from __future__ import annotations

from typing import Any

from tests.api.custom.kinds import MERGE, NAME, SPEC, WIDGETS, definition, until, version, widget
from tests.gateway.api import Api, served
from tests.gateway.watch.watching import watching

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def selecting(*paths: str) -> dict[str, Any]:
    made = definition(version(selectableFields=[{"jsonPath": path} for path in paths]))
    return {**made, "apiVersion": "apiextensions.k8s.io/v1"}


async def define(api: Api, *paths: str) -> None:
    (await api.ask("POST", DEFINITIONS, selecting(*paths))).expect(201)

    async def is_served() -> bool:
        return (await api.ask("GET", WIDGETS)).status == 200

    await until(api, is_served)


async def names(api: Api, selector: str) -> list[str]:
    found = (await api.ask("GET", WIDGETS, fieldSelector=selector)).expect(200)
    return [one["metadata"]["name"] for one in found["items"]]


async def test_lists_select_by_declared_fields() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        await define(api, ".spec.size", ".spec.text")
        for name, spec in (("a", {"size": 1, "text": "red"}), ("b", {"size": 2, "text": "red"}), ("c", {})):
            (await api.ask("POST", WIDGETS, widget(name, spec=spec))).expect(201)
        assert await names(api, "spec.text=red") == ["a", "b"]
        assert await names(api, "spec.text=red,spec.size!=1") == ["b"]
        assert await names(api, "spec.size=") == ["c"]
        assert await names(api, "metadata.name=a") == ["a"]
        refused = (await api.ask("GET", WIDGETS, fieldSelector="spec.other=1")).expect(400)
        assert refused["message"] == "field label not supported: spec.other"


async def test_definition_with_unusable_fields_is_refused() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        paths = (".spec.missing", ".spec", "spec.size", ".metadata.name", ".spec.size", ".spec.size", "")
        refused = (await api.ask("POST", DEFINITIONS, selecting(*paths))).expect(422)
        causes = [(one["field"], one["message"]) for one in refused["details"]["causes"]]
        assert [field for field, _ in causes] == [
            f"spec.selectableFields[{index}].jsonPath" for index in (0, 1, 2, 3, 5, 6)
        ]
        assert causes[0][1] == (
            'Invalid value: ".spec.missing": is an invalid path: does not refer to a valid field'
        )


async def test_fields_cannot_be_selected_before_1_30() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.29") as api:
        await define(api, ".spec.size")
        refused = (await api.ask("GET", WIDGETS, fieldSelector="spec.size=1")).expect(400)
        assert refused["message"] == "field label not supported: spec.size"


async def test_finalizer_without_a_domain_is_stored_with_a_warning() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        await define(api)
        made = widget("a")
        made["metadata"]["finalizers"] = ["mine", "example.com/ours"]
        response = await api.ask("POST", WIDGETS, made)
        response.expect(201)
        (warning,) = response.warnings
        assert "prefer a domain-qualified finalizer name to avoid accidental conflicts" in warning


async def test_objects_match_by_fields_that_became_selectable_after_they_were_written() -> None:
    async with served(dialect="kubernetes", kubernetes_version="1.36") as api:
        await define(api)
        for name, spec in (("a", {"text": "red"}), ("b", {"text": "blue"}), ("c", {"size": 3})):
            (await api.ask("POST", WIDGETS, widget(name, spec=spec))).expect(201)
        before = await api.head()
        fields = [{"jsonPath": ".spec.text"}, {"jsonPath": ".spec.size"}]
        text = {"type": "string", "default": "green"}
        changed = definition(
            version(
                spec={"type": "object", "properties": {**SPEC["properties"], "text": text}},
                selectableFields=fields,
            )
        )
        path = f"{DEFINITIONS}/{NAME}"
        (await api.ask("PATCH", path, {"spec": changed["spec"]}, headers=MERGE)).expect(200)

        async def is_selectable() -> bool:
            return (await api.ask("GET", WIDGETS, fieldSelector="spec.text=red")).status == 200

        await until(api, is_selectable)
        assert await names(api, "spec.text=red") == ["a"]
        assert await names(api, "spec.text!=red") == ["b", "c"]
        assert await names(api, "spec.text=green") == ["c"]
        assert await names(api, "spec.size=") == ["a", "b"]
        async with watching(api, WIDGETS, fieldSelector="spec.text=red", resourceVersion=before) as watch:
            patch = {"spec": {"text": "blue"}}
            (await api.ask("PATCH", f"{WIDGETS}/a", patch, headers=MERGE)).expect(200)
            patch = {"spec": {"text": "red"}}
            (await api.ask("PATCH", f"{WIDGETS}/b", patch, headers=MERGE)).expect(200)
            seen = [(one["type"], one["object"]["metadata"]["name"]) for one in await watch.take(2)]
            assert seen == [("DELETED", "a"), ("ADDED", "b")]
        await api.restart()
        assert await names(api, "spec.text=green") == ["c"]
        exact = {"resourceVersion": before, "resourceVersionMatch": "Exact"}
        found = (await api.ask("GET", WIDGETS, fieldSelector="spec.text=red", **exact)).expect(200)
        assert [one["metadata"]["name"] for one in found["items"]] == ["a"]
