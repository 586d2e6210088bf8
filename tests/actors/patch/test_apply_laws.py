"""Properties of every apply, whatever is applied."""

import json

from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.kinds.schema.fields import zero_struct
from rewound.actors.patch.managed_fields.apply import applied_fields, extract
from rewound.actors.patch.managed_fields.comparison import NewObjects, compare
from rewound.actors.patch.managed_fields.field_set import intersection
from rewound.actors.patch.managed_fields.topology import Shapes
from tests.examples import examples

from .managed_object import THING, ManagedObject

WORDS = st.sampled_from("abc")
PORTS = st.lists(
    st.fixed_dictionaries(
        {"port": st.integers(1, 2)}, optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": WORDS}
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda port: (port["port"], port.get("protocol", "TCP")),
)
BOXES = st.lists(
    st.fixed_dictionaries(
        {"name": WORDS},
        optional={
            "note": WORDS,
            "ports": PORTS,
            "pair": st.fixed_dictionaries({"left": WORDS}, optional={"right": WORDS}),
            "args": st.lists(WORDS, min_size=1, max_size=2),
        },
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda box: box["name"],
)
MAPS = st.dictionaries(WORDS, WORDS, min_size=1, max_size=3)
LOOSE = st.fixed_dictionaries({"left": WORDS}, optional={"right": WORDS})
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "text": WORDS,
        "on": st.booleans(),
        "kept": WORDS,
        "map": MAPS,
        "block": MAPS,
        "loose": LOOSE,
        "pair": LOOSE,
        "set": st.lists(WORDS, min_size=1, max_size=3, unique=True),
        "plain": st.lists(WORDS, min_size=1, max_size=3),
        "boxes": BOXES,
        "deep": st.dictionaries(WORDS, LOOSE, min_size=1, max_size=2),
    },
)
CONFIGS = SPECS.filter(bool).map(lambda spec: {"spec": spec})
MODEST = examples(20)
SHAPE = Shapes().root(THING, {"metadata": None})


def claims(config):
    return applied_fields(SHAPE, config)


@MODEST
@given(CONFIGS, CONFIGS)
def test_applying_twice_equals_applying_once(before, config):
    obj = ManagedObject()
    obj.update("u1", before)
    obj.apply("m1", config, force=True)
    once = obj.object
    assert not obj.apply("m1", config)
    assert obj.object == once


@MODEST
@given(CONFIGS)
def test_applier_owns_exactly_what_it_applied(config):
    obj = ManagedObject()
    obj.apply("m1", config)
    assert obj.owned("m1") == claims(config)
    assert extract(SHAPE, obj.object, claims(config)) == config


@MODEST
@given(CONFIGS, CONFIGS)
def test_forced_apply_leaves_no_other_owner_of_other_values(one, other):
    obj = ManagedObject()
    obj.apply("a", one)
    obj.apply("b", other, force=True)
    assert obj.owned("b") == claims(other)
    assert unordered(extract(SHAPE, obj.object, claims(other))) == unordered(other)
    # What `a` still owns is shared: it could apply the current values without a conflict.
    shared = intersection(claims(one), claims(other))
    left = intersection(obj.owned("a") or {}, shared)
    assert unordered(extract(SHAPE, obj.object, left)) == unordered(extract(SHAPE, one, left))


@MODEST
@given(CONFIGS, CONFIGS)
def test_field_without_owner_is_removed(one, other):
    obj, fresh = ManagedObject(), ManagedObject()
    obj.apply("a", one)
    obj.apply("a", other)
    fresh.apply("a", other)
    assert unordered(obj.spec) == unordered(fresh.spec)
    assert obj.owned("a") == fresh.owned("a")


@MODEST
@given(CONFIGS, CONFIGS)
def test_empty_apply_keeps_fields_of_other_managers(one, other):
    obj = ManagedObject()
    obj.apply("a", one)
    obj.apply("b", other, force=True)
    obj.apply("a", {})
    alone = ManagedObject()
    alone.apply("b", other)
    assert unordered(obj.spec) == unordered(alone.spec)
    assert obj.managers == alone.managers


@MODEST
@given(CONFIGS, CONFIGS)
def test_updater_owns_changed_fields_and_removed_fields_have_no_owner(before, after):
    obj = ManagedObject()
    obj.apply("a", before)
    obj.update("u", after)
    all_fields = ManagedObject()
    all_fields.update("x", after)
    present = all_fields.owned("x") or {}
    for manager in obj.managers:
        fields = obj.owned(manager)
        assert extract(SHAPE, obj.object, fields) is not None
        assert intersection(fields, present) == fields


NOTHING = zero_struct(THING, defaults=False)


@MODEST
@given(CONFIGS)
def test_fields_of_new_object_equal_comparison_with_empty_object(config):
    for spec in (NOTHING, {**NOTHING, "spec": {"boxes": None, "map": {}, "text": "", "set": ["a"]}}):
        found = NewObjects(SHAPE, spec).fields(config) or {}
        assert json.dumps(found) == json.dumps(compare(SHAPE, spec, config).changed)


def unordered(value):
    """Compare without the order of lists, where an apply does not have to keep it."""
    if isinstance(value, dict):
        return {name: unordered(part) for name, part in value.items()}
    if isinstance(value, list):
        return sorted((unordered(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value
