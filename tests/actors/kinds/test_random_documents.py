"""Random documents: rules, preparations, warnings and cells of every kind handle them without a crash."""

from __future__ import annotations

import copy
from typing import Any

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.names import CLUSTER
from tests.actors.kinds.definitions import create, replace
from tests.actors.kinds.documents import RandomDocuments
from tests.cases import cases

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
        document = RandomDocuments(seed, junk_one_in=400).of(definition.fields)
        try:
            decoded = definition.schema.decode_object(document).object
        except NotDecodable:
            continue
        metadata = {"name": "x", **decoded["metadata"]}
        decoded["metadata"] = {key: value for key, value in metadata.items() if key != "resourceVersion"}
        found.append(decoded)
    return found


@cases("definition", KINDS, ids=repr)
def test_random_documents_cause_no_crash(definition: Definition) -> None:
    decoded = objects(definition)
    assert decoded
    for new, old in zip(decoded, decoded[1:] + decoded[:1], strict=True):
        first, _ = create(definition, copy.deepcopy(new))
        stored, _ = create(definition, copy.deepcopy(old))
        if definition.strategy.warnings is not None:
            definition.strategy.warnings(first, None)
        for column in definition.table.columns:
            column.cell(first, 10**15)
        replace(definition, copy.deepcopy(new), stored)
        for subresource in definition.subresources:
            if subresource.view is None:
                replace(definition, copy.deepcopy(new), stored, subresource.name)
