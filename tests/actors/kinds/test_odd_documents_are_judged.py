"""Documents nobody would write: rules, preparations, warnings and cells answer them, and never break."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from actors.kinds.built_in import built_in
from actors.kinds.declaration.definition import Definition
from actors.kinds.schema.decoder import NotDecodable
from actors.kinds.validation.field_errors import collect
from actors.names import CLUSTER
from tests.actors.kinds.declared import SYSTEM
from tests.actors.kinds.documents import Documents

DOCUMENTS = 40
GROUPS = {
    CLUSTER.group(name)
    for name in (
        *("admissionregistration", "apiregistration", "certificates", "discovery", "flowcontrol.apiserver"),
        *("networking", "node", "rbac.authorization", "storage"),
    )
}
CORE = {"limitranges", "persistentvolumeclaims", "persistentvolumes", "resourcequotas", "services"}
KINDS = [
    one
    for one in built_in(CLUSTER).definitions
    if one.group in GROUPS or (not one.group and one.plural in CORE)
]


def objects(definition: Definition) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for seed in range(DOCUMENTS):
        document = Documents(seed, luck=400).of(definition.fields)
        try:
            made = definition.schema.decode_object(document).object
        except NotDecodable:
            continue
        made["metadata"] = {"name": "x", **made["metadata"], **SYSTEM}
        if definition.namespaced:
            made["metadata"]["namespace"] = "ns"
        found.append(made)
    return found


@pytest.mark.parametrize("definition", KINDS, ids=repr)
def test_odd_documents(definition: Definition) -> None:
    made = objects(definition)
    assert made
    for new, old in zip(made, made[1:] + made[:1], strict=True):
        first, stored = copy.deepcopy(new), copy.deepcopy(old)
        definition.strategy.prepare_for_create(first)
        definition.strategy.prepare_for_create(stored)
        collect(definition.strategy.validate_create, first)
        definition.strategy.warnings(first, None)
        for column in definition.table.columns:
            column.cell(first, 10**15)
        change = copy.deepcopy(new)
        definition.strategy.prepare_for_update(change, stored)
        collect(definition.strategy.validate_update, change, stored)
        for subresource in definition.subresources:
            change = copy.deepcopy(new)
            definition.prepare_subresource(subresource.name, change, stored)
            collect(definition.validate_subresource, subresource.name, change, stored)
