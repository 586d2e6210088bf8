"""Fields have the same owners whether a version is parsed as a whole or only where versions differ."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.rewind import blame as owner_walk
from rewound.actors.rewind.blame import OwnerWalk, body_template, owners_after
from rewound.journal import Event
from tests.examples import examples

SCALARS: list[Any] = [0, 1, 2.5, True, None, "", "x", '},"b":{"', "\0placeholder 0", "\u00e9"]


def value(chance: Random, depth: int = 0) -> Any:
    """Any JSON value with few distinct keys, so that versions have some in common."""
    shape = chance.randrange(8) + depth
    if shape < 3:
        return {
            key: value(chance, depth + 2) for key in chance.sample(["a", "b", "name"], chance.randrange(4))
        }
    if shape == 3:
        return [chance.choice(SCALARS) for _ in range(chance.randrange(4))]
    if shape == 4:
        names = chance.sample("pqr", chance.randrange(4))
        return [{"name": name, "v": value(chance, depth + 2)} for name in names]
    return chance.choice(SCALARS)


def history(chance: Random) -> list[dict[str, Any]]:
    """Versions of an object: each shares parts with the previous or an earlier one."""
    parts = {
        name: [{"name": "one"}] if name == "metadata" else [value(chance)]
        for name in ("metadata", "spec", "status")
    }
    versions = []
    for _ in range(12):
        if chance.randrange(2):
            names = chance.sample(["labels", "managedFields", "zone"], chance.randrange(4))
            parts["metadata"].append({"name": "one", **{name: value(chance) for name in names}})
        parts[chance.choice(["spec", "status"])].append(value(chance))
        shown = ["metadata", *chance.choice([["spec", "status"], ["spec", "status"], ["status"]])]
        versions.append({name: chance.choice(parts[name][-2:]) for name in shown})
    return versions


def body_of(document: dict[str, Any], version: int) -> bytes:
    return orjson.dumps(
        {**document, "metadata": {**document["metadata"], "resourceVersion": str(version), "uid": "u"}}
    )


def event(version: int, body: bytes) -> Event:
    return Event(version, 1, "update", "", "one", version - 1, False, version, "u", "m", b"", body)


def parsed_as_a_whole(bodies: list[bytes]) -> tuple[Any, Any]:
    before: Any = None
    owners: Any = 0
    for version, body in enumerate(bodies, 1):
        document = orjson.loads(body)
        for name in ("managedFields", "resourceVersion"):
            document["metadata"].pop(name, None)
        owners = version if before is None else owners_after(before, owners, document, version)
        before = document
    return before, owners


def expanded(value: Any, owners: Any) -> Any:
    """Owners down to the leaves: a number may stand for all that is below it."""
    whole = isinstance(owners, int)
    if isinstance(value, dict) and value:
        return {key: expanded(one, owners if whole else owners[key]) for key, one in value.items()}
    if isinstance(value, list) and value:
        return [expanded(one, owners if whole else owners[at]) for at, one in enumerate(value)]
    assert whole
    return owners


@examples(100)
@given(st.integers(0, 1 << 32))
def test_owners_are_those_of_whole_documents(seed: int) -> None:
    bodies = [body_of(document, version) for version, document in enumerate(history(Random(seed)), 1)]
    walk = OwnerWalk()
    walk.add(event(version, body) for version, body in enumerate(bodies, 1))
    document, owners = parsed_as_a_whole(bodies)
    assert orjson.dumps(walk.object) == orjson.dumps(document)
    assert expanded(walk.object, walk.owners) == expanded(document, owners)


def test_fields_that_changed_before_are_all_that_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand versions with one changing field need only two full comparisons."""
    whole: list[int] = []
    compare = OwnerWalk._compare

    def counted(self: OwnerWalk, event: Event) -> None:
        whole.append(event.offset)
        compare(self, event)

    monkeypatch.setattr(OwnerWalk, "_compare", counted)
    walk = OwnerWalk()
    for version in range(1, 1001):
        document = {"metadata": {"name": "one"}, "spec": {"list": [1, 2]}, "status": {"n": version, "m": 1}}
        walk.add([event(version, body_of(document, version))])
    assert whole == [1, 2]
    assert walk.owners["status"] == {"n": 1000, "m": 1}


def test_objects_whose_fields_change_everywhere_have_few_placeholders() -> None:
    walk = OwnerWalk()
    bodies = [
        body_of({"metadata": {"name": "one"}, "data": {f"k{at}": at == version for at in range(60)}}, version)
        for version in range(1, 61)
    ]
    for version, body in enumerate(bodies, 1):
        walk.add([event(version, body)])
        assert len(walk._placeholders) <= 2 * owner_walk.MAX_PLACEHOLDERS + 2
    document, owners = parsed_as_a_whole(bodies)
    assert expanded(walk.object, walk.owners) == expanded(document, owners)


def test_a_value_like_that_of_a_placeholder_gives_no_template() -> None:
    assert body_template(b'{"a":1,"b":"\\u0000placeholder 0"}', [("a",)]) is None
    template = body_template(b'{"a":1,"b":2}', [("a",)])
    assert template is not None
    assert template.texts(b'{"a":[3,4],"b":2}') == [b"[3,4]"]
    assert template.texts(b'{"a":1,"b":3}') is None
    assert template.texts(b'{"c":1,"b":2}') is None
