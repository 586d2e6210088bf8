"""Random documents of the kinds and fields of later versions: rules, preparations, warnings and cells handle them
without a crash.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.enablement import Enablement
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.names import KUBERNETES
from rewound.actors.runtime.time_limit import run_limited
from rewound.actors.versions.features import choose_release
from tests.actors.kinds.definitions import create, replace
from tests.actors.kinds.documents import RandomDocuments

DOCUMENTS = 8  # of each kind, others in each version
ALL_GATES = "AllAlpha=true,AllBeta=true"


def kinds(version: str) -> list[Definition]:
    release = choose_release(version, ALL_GATES)
    catalog = built_in(KUBERNETES, release, Enablement(every=True))
    return [one for one in catalog.definitions if not one.storage.computed and "create" in one.verbs]


def objects(definition: Definition, seeds: range) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for seed in seeds:
        document = RandomDocuments(seed, junk_one_in=4000, valid=True).of(definition.fields)
        try:
            decoded = definition.schema.decode_object(document).object
        except NotDecodable:
            continue
        if definition.storage.conversion is not None:
            decoded = definition.storage.conversion.to_storage(decoded)
        metadata = {"name": "x", **decoded["metadata"]}
        decoded["metadata"] = {key: value for key, value in metadata.items() if key != "resourceVersion"}
        found.append(decoded)
    return found


def write(definition: Definition, seeds: range) -> int:
    """Create, replace and show random objects; return how many were decoded."""
    decoded = objects(definition, seeds)
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
    return len(decoded)


@pytest.mark.parametrize(("version", "first"), [("1.27", 0), ("1.30", 8), ("1.33", 16), ("1.36", 24)])
def test_random_documents_cause_no_crash(version: str, first: int) -> None:
    seeds = range(first, first + DOCUMENTS)
    written = sum(run_limited(partial(write, definition, seeds), seconds=60) for definition in kinds(version))
    assert written > 100
