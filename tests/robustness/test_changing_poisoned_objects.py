"""Every way to change an object works on one whose metadata no server would store, or is refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from rewound.actors.names import KUBERNETES
from tests.gateway.api import served
from tests.robustness.poison import Path_, Poison, made, storage_of, write
from tests.robustness.test_poisoned_objects import MERGE, SETTINGS, path_of

KINDS = {"flowschemas.flowcontrol.apiserver.k8s.io", "configmaps", "deployments.apps", "namespaces"}
CHANGES: tuple[tuple[Path_, Any], ...] = (
    (("metadata", "ownerReferences"), [7]),
    (("metadata", "ownerReferences"), 7),
    (("metadata", "ownerReferences"), [{"uid": 7}]),
    (("metadata", "managedFields"), [7]),
    (("metadata", "finalizers"), [7]),
    (("metadata", "labels"), [7]),
)
LABELS = {"metadata": {"labels": {"x": "y"}}}
JSON_PATCH = [{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]


async def test_apply_patches_and_updates(tmp_path: Path) -> None:
    healthy: dict[str, dict[str, Any]] = {}
    found: list[Poison] = []
    async with served(tmp_path, **SETTINGS) as api:
        assert api.store is not None
        for stored, specimen in storage_of(api.store.registry.current, KUBERNETES):
            definition = stored.storage
            if definition.type_name in KINDS:
                healthy[definition.type_name] = specimen
                for path, value in CHANGES:
                    case = f"{definition.type_name} {path[-1]} = {value}"
                    found.append(made(definition, specimen, case, len(found), path, value))
    write(tmp_path / "data" / "journal", found, "kubernetes")
    failures = []
    async with served(tmp_path, **SETTINGS) as api:
        assert api.store is not None
        for one in found:
            stored_type = api.store.registry.current.stored_type(one.type_name)
            assert stored_type is not None
            definition = stored_type.served[0]
            path_ = path_of(definition, one.namespace, one.name)
            identity = {"apiVersion": definition.api_version, "kind": definition.kind}
            metadata = {"name": one.name, "labels": {"x": "y"}}
            whole = {**healthy[one.type_name], **identity, "metadata": {"name": one.name}}
            applied = {**identity, "metadata": metadata}
            for verb, body, form in (
                ("PATCH", applied, "application/apply-patch+yaml"),
                ("PATCH", LABELS, MERGE["content-type"]),
                ("PATCH", LABELS, "application/strategic-merge-patch+json"),
                ("PATCH", orjson.dumps(JSON_PATCH), "application/json-patch+json"),
                ("PUT", whole, "application/json"),
            ):
                query = {
                    "dryRun": "All",
                    **({"fieldManager": "me", "force": "true"} if "apply" in form else {}),
                }
                response = await api.ask(verb, path_, body, headers={"content-type": form}, **query)
                if response.status not in (200, 422):
                    failures.append((one.case, verb, form, response.status, response.text[:200]))
            response = await api.ask("PATCH", path_, applied, fieldManager="me", force="true", headers=APPLY)
            # What is left of an owner without most of its fields is refused, with the names of these.
            if response.status != 200 and not (response.status == 422 and "uid" in one.case):
                failures.append((one.case, "PATCH", "apply", response.status, response.text[:200]))
    assert not failures


APPLY = {"content-type": "application/apply-patch+yaml"}
