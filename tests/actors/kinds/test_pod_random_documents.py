"""Random pods are validated without a crash, and both decoders agree on them."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.kinds.built_in import built_in
from rewound.actors.kinds.core.pod_spec import POD_SPEC
from rewound.actors.kinds.declaration.definition import Definition
from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.kinds.validation import collect
from rewound.actors.names import CLUSTER
from tests.actors.kinds.definitions import create, replace
from tests.actors.kinds.documents import RandomDocuments
from tests.examples import examples

KINDS = {d.plural: d for d in built_in(CLUSTER).definitions if not d.group and not d.storage.stored_as}
WORKLOADS = ["pods", "podtemplates", "replicationcontrollers"]
FEW_EXAMPLES = examples(20)
SEEDS = st.integers(0, 2**32)
SYSTEM = {"name": "a", "namespace": "ns", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z"}


def decoded(definition: Definition, seed: int) -> dict[str, Any] | None:
    """A well-formed object with random contents; None if they do not decode."""
    documents = RandomDocuments(seed, junk_one_in=100_000, valid=True)
    document = documents.of(definition.fields)
    if definition.plural == "pods":
        document["spec"] = documents.of(POD_SPEC)
    else:
        template = {"metadata": {}, "spec": documents.of(POD_SPEC)}
        holder = document if definition.plural == "podtemplates" else document.setdefault("spec", {})
        holder["template"] = template
    document["metadata"] = dict(SYSTEM)
    try:
        return definition.schema.decode_object(document).object
    except NotDecodable:
        return None


@pytest.mark.parametrize("plural", WORKLOADS)
@FEW_EXAMPLES
@given(SEEDS)
def test_validation_of_create_never_crashes_or_changes_the_object(plural: str, seed: int) -> None:
    definition = KINDS[plural]
    new = decoded(definition, seed)
    if new is not None:
        definition.strategy.prepare_for_create(new)
        before = copy.deepcopy(new)
        collect(definition.strategy.validate_create, new)
        definition.strategy.warnings(new, None)
        assert new == before


@pytest.mark.parametrize("plural", WORKLOADS)
@FEW_EXAMPLES
@given(SEEDS, SEEDS)
def test_validation_of_update_never_crashes(plural: str, seed: int, other: int) -> None:
    definition = KINDS[plural]
    old, new = decoded(definition, seed), decoded(definition, other)
    if old is None or new is None:
        return
    stored, _ = create(definition, old)
    changed = [one.name for one in definition.subresources if one.view is None and not one.forwarded]
    for subresource in ("", *changed):
        replace(definition, copy.deepcopy(new), stored, subresource)


@pytest.mark.parametrize("plural", WORKLOADS)
@FEW_EXAMPLES
@given(SEEDS)
def test_both_decoders_agree_on_valid_documents(plural: str, seed: int) -> None:
    definition = KINDS[plural]
    new = decoded(definition, seed)
    if new is not None:
        raw = orjson.dumps(new)
        fast, exact = definition.schema.decode_json(raw), definition.schema.decode_exactly(raw)
        assert orjson.dumps(fast.object) == orjson.dumps(exact.object) and fast.problems == exact.problems


def test_common_pods_take_the_fast_path() -> None:
    container = {
        "name": "c",
        "image": "i",
        "ports": [{"containerPort": 1}],
        "env": [{"name": "A", "value": "1"}],
    }
    document = {"metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {"containers": [container]}}
    for raw in (orjson.dumps(document), orjson.dumps(document, option=orjson.OPT_INDENT_2)):
        assert KINDS["pods"].schema._pydantic.from_json(raw) is not None
