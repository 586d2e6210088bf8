"""`--stop-when` with a field that nothing in the recording has is refused: it would play to the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rewound.actors.kinds.apiextensions import definition_type
from rewound.actors.names import NAMES
from rewound.journal.recording import Recording
from rewound.recording.replay.until import BadExpression, check_fields
from tests.gateway.journal_commands import Step, put, write_history

NAMES_HERE = NAMES["cluster"]


def definition(plural: str, kind: str, *schemas: dict[str, object] | None) -> Step:
    versions = [
        {"name": f"v{number}", **({"schema": {"openAPIV3Schema": schema}} if schema else {})}
        for number, schema in enumerate(schemas, 1)
    ]
    spec = {"group": "shop.io", "names": {"plural": plural, "kind": kind}, "versions": versions}
    return Step(f"{plural}.shop.io", {"spec": spec}, "", definition_type(NAMES_HERE))


def object_with(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties}


SIZE = {"type": "integer"}
LOTS = {"type": "array", "items": object_with(size=SIZE)}
FIRST = object_with(spec=object_with(size=SIZE, lots=LOTS))
SECOND = object_with(spec=object_with(color={"type": "string"}))
OPEN = object_with(spec={"type": "object", "x-kubernetes-preserve-unknown-fields": True})


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recording]:
    folder = tmp_path_factory.mktemp("recorded")
    steps = [
        put("web"),
        put("web", type_name="deployments.apps"),
        put("web", type_name="pods"),
        definition("boxes", "Box", FIRST, SECOND),
        put("one", type_name="boxes.shop.io"),
    ]
    write_history(folder, steps)
    opened = Recording.open_folder(folder / "journal")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("event.knd == 'Pod'", "event has no field 'knd'; did you mean kind?"),
        ("event.user.name == 'a'", "event.user has no fields, so it has no 'name'"),
        ("event.kind == 'Deplyment'", "no event of the recording has the kind 'Deplyment'; did you mean Deployment?"),
        ("event.resource == 'jobs'", "no event of the recording has the resource 'jobs'"),
        ("object.spec.replcas > 3", "object.spec has no field 'replcas'; did you mean replicas?"),
        ("has(object.status.phse)", "object.status has no field 'phse'; did you mean phase?"),
        ("old.metadata.label.app == 'x'", "old.metadata has no field 'label'; did you mean labels?"),
        ("event.kind == 'Pod' && object.spec.replicas > 3", "object.spec has no field 'replicas'"),
        ("object.kind == 'Pod' && (event.removed || object.spec.replicas > 3)", "has no field 'replicas'"),
        ("event.kind == 'Pod' && object.spec.containers[0].imge == 'a'", "containers[] has no field 'imge'"),
        ("object.spec.containers.exists(c, c.imge == 'a')", "c has no field 'imge'; did you mean image?"),
        ("object['spec']['replcas'] > 3", "did you mean replicas?"),
        ("event.kind == 'Box' && object.spec.sze > 3", "object.spec has no field 'sze'; did you mean size?"),
        ("event.kind == 'Box' && object.spec.lots.all(one, one.colour == '')", "one has no field 'colour'"),
        ("object.metadata.name.first == 'a'", "object.metadata.name has no fields"),
    ],
)  # fmt: skip
def test_field_that_nothing_has(recording: Recording, expression: str, says: str) -> None:
    with pytest.raises(BadExpression) as refused:
        check_fields(expression, recording)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "expression",
    [
        "event.kind == 'Deployment' && object.spec.replicas > old.spec.replicas",
        "event.kind == 'Pod' && object.spec.containers.exists(c, c.image.startsWith('web:'))",
        "event.kind == 'Pod' && object.status.phase == 'Failed' || object.spec.replicas == 0",
        "object.metadata.labels['app'] == 'web' && object.metadata.annotations.load == '4'",
        "has(object.metadata.deletionTimestamp) && !has(old.metadata.deletionTimestamp)",
        "object.spec.template.spec.containers[0].resources.limits.cpu == '1'",
        "object.metadata.managedFields.exists(one, one.fieldsV1['f:spec']['f:replicas'] == {})",
        "event.kind == 'Box' && (object.spec.size > 3 || object.spec.color == 'red')",
        "event.kind == 'Box' && object.metadata.name == 'one' && object.kind == event.kind",
        "event.kind in ['Pod', 'Job'] && object.spec.nodeName != ''",
        "object.data.anything == 'x'",
    ],
)
def test_field_that_something_has(recording: Recording, expression: str) -> None:
    check_fields(expression, recording)


def test_objects_without_a_schema_may_have_any_field(tmp_path: Path) -> None:
    """Fields of a definition that allows unknown fields, of one without a schema, and of one that was deleted."""
    steps = [
        definition("boxes", "Box", OPEN),
        put("one", type_name="boxes.shop.io"),
        definition("bags", "Bag", None),
        put("one", type_name="bags.shop.io"),
        put("one", type_name="gone.shop.io"),
    ]
    write_history(tmp_path, steps)
    recording = Recording.open_folder(tmp_path / "journal")
    check_fields("event.kind == 'Box' && object.spec.any.field > 3", recording)
    check_fields("event.kind == 'Bag' && object.any > 3", recording)
    check_fields("event.kind == 'Gone' && object.any > 3", recording)
    with pytest.raises(BadExpression, match="no field 'any'"):
        check_fields("event.kind == 'Box' && event.resource == 'boxes' && object.any.field > 3", recording)
    recording.close()
