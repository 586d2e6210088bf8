"""For every list and map of every kind, the cost of creating, updating and printing an object is linear in their
length.

All lists and maps of the document are long, so that rules that combine two of them count too. Costs are numbers of
operations, not times, and linear parts of them cancel out exactly (`operations.excess`): a single rule that compares
elements with each other shows, whatever the others cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from rewound.actors import errors
from rewound.actors.golang import format as go_format
from rewound.actors.golang import quoting
from rewound.actors.kinds import validation
from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.declaration import meta
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.messages import Object
from rewound.actors.names import CLUSTER
from rewound.actors.runtime.time_limit import run_limited
from rewound.actors.versions.features import GATES, Release
from tests.actors.kinds.definitions import create, replace
from tests.actors.kinds.growing import STYLES, Growing, Path, paths_of
from tests.actors.kinds.operations import counted, excess, operations

ALL_FEATURES = Release(features=GATES)
KINDS = [
    definition
    for definition in built_in(CLUSTER, ALL_FEATURES).definitions
    if any(paths_of(definition.fields))
]
# Comparing each element with those before it gives 3, see `excess`; sorting gives the rest, and a list of which more
# than eight elements are refused gives 2.
LINEAR = 2.5
# Lists with an error about each pair of equal elements, as in Kubernetes: validation stops at a thousand errors.
ERRORS_IN_PAIRS: dict[str, Path] = {
    "PodSecurityPolicy": ("spec", "forbiddenSysctls"),
    "StorageClass": ("allowedTopologies",),
}


@pytest.fixture(autouse=True)
def no_early_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents of this size are below bounds at which costs stop growing; this moves the bounds far away."""
    for module in (quoting, go_format):
        monkeypatch.setattr(module, "LONGEST", 16)
    monkeypatch.setattr(validation, "MOST", 10**9)
    monkeypatch.setattr(errors, "MAX_CAUSES", 10**9)
    monkeypatch.setattr(errors, "MAX_CAUSE_BYTES", 10**12)


def costs_of(definition: Definition, style: str, paths: list[Path], count: int) -> dict[str, int]:
    document = Growing(style, tuple(paths), count).document(definition.fields)
    sent = definition.schema.decode_object(document).object
    sent["metadata"].pop("resourceVersion", None)
    conversion = definition.storage.conversion
    return dict(_steps(definition, counted(sent if conversion is None else conversion.to_storage(sent))))


def _steps(definition: Definition, sent: Object) -> Iterator[tuple[str, int]]:
    """The cost of each step: a create, a row of a table, updates of the object and of its parts."""
    created: list[Object] = []
    yield "create", _cost(lambda: created.append(create(definition, sent)[0]))
    (stored,) = created
    if (warnings := definition.strategy.warnings) is not None:
        yield "warnings", _cost(lambda: warnings(stored, None))
    yield "row", _cost(lambda: [column.cell(stored, 10**15) for column in definition.table.columns])
    again = counted(sent)
    yield "update", _cost(lambda: replace(definition, again, stored))
    for name in (one.name for one in definition.subresources if one.view is None and not one.forwarded):
        yield name, _cost(lambda name=name: replace(definition, again, stored, name))  # type: ignore[misc]


def _cost(work: Any) -> int:
    meta._known_labels.clear()
    return operations(lambda: run_limited(work, seconds=math.inf))  # as in the thread for large objects


def superlinear_steps(
    definition: Definition, style: str, paths: list[Path], count: int
) -> dict[str, tuple[float, list[int]]]:
    costs_of(definition, style, paths, count)  # fills caches
    costs = [costs_of(definition, style, paths, factor * count) for factor in (1, 2, 4)]
    found = {step: [one[step] for one in costs] for step in costs[0]}
    parts = {step: (excess(*three, count), three) for step, three in found.items()}
    return {step: part for step, part in parts.items() if part[0] >= LINEAR}


def assert_linear(definition: Definition, style: str, paths: list[Path], count: int) -> None:
    if not superlinear_steps(definition, style, paths, count):
        return
    alone = {".".join(path): superlinear_steps(definition, style, [path], count) for path in paths}
    culprits = {path: steps for path, steps in alone.items() if steps}
    pytest.fail(f"{definition.kind} is not linear: {culprits or 'in two of its lists together'}")


def paths_to_grow(definition: Definition) -> list[Path]:
    """All kinds share metadata, and workloads share their template with pods."""
    return [
        path
        for path in paths_of(definition.fields)
        if (path[0] != "metadata" or definition.kind == "ConfigMap") and "template" not in path
    ]


@pytest.mark.parametrize("definition", KINDS, ids=repr)
def test_costs_of_all_lists_and_maps_are_linear(definition: Definition) -> None:
    assert_linear(definition, "enumerated", paths_to_grow(definition), 8)


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("definition", KINDS, ids=repr)
def test_costs_of_all_lists_and_maps_are_linear_in_every_style(definition: Definition, style: str) -> None:
    in_pairs = ERRORS_IN_PAIRS.get(definition.kind) if style in ("empty", "alike") else None
    assert_linear(definition, style, [path for path in paths_of(definition.fields) if path != in_pairs], 24)


@pytest.mark.slow
@pytest.mark.parametrize("style", ["empty", "alike"])
@pytest.mark.parametrize("kind", ERRORS_IN_PAIRS)
def test_cost_of_errors_about_pairs_is_bounded(
    kind: str, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty equal elements have more than a thousand errors; more elements then cost no more than different ones."""
    monkeypatch.setattr(validation, "MOST", errors.MAX_COUNTED)
    definition = next(one for one in KINDS if one.kind == kind)
    paths = [path for path in paths_of(definition.fields) if path[0] != "metadata"]
    assert_linear(definition, style, paths, 60)
