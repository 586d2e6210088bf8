"""Strategic merge patch: lists merge as declared, and directives work as documented."""

from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.kinds.schema.fields import (
    ANY_JSON,
    INT32,
    STRING,
    STRING_MAP,
    STRINGS,
    Field,
    ListOf,
    Struct,
)
from rewound.actors.patch.errors import MalformedPatch, PatchDoesNotFit, PatchError
from rewound.actors.patch.strategic import apply_strategic_patch, left_of_patch
from tests.cases import cases

PORT = Struct("x.v1.Port", Field("port", INT32, 1), Field("name", STRING, 2))
BOX = Struct(
    "x.v1.Box",
    Field("name", STRING, 1),
    Field("image", STRING, 2),
    Field("args", STRINGS, 3),
    Field("ports", ListOf(PORT), 4, patch="merge", merge_key="port"),
    Field("source", Struct("x.v1.Source", Field("a", STRING, 1), Field("b", STRING, 2)), 5),
)
THING = Struct(
    "x.v1.Thing",
    Field("labels", STRING_MAP, 1),
    Field("boxes", ListOf(BOX), 2, patch="merge,retainKeys", merge_key="name"),
    Field("finalizers", STRINGS, 3, patch="merge"),
    Field("plain", ListOf(BOX), 4),
)


def patched(document, patch):
    return apply_strategic_patch(deepcopy(document), patch, THING)


def boxes(*names):
    return {"boxes": [{"name": name, "image": "old"} for name in names]}


def test_maps_merge_and_null_deletes():
    assert patched({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": None, "c": "3"}}) == {
        "labels": {"a": "1", "c": "3"}
    }


def test_a_keyed_list_merges_by_its_key():
    result = patched(boxes("a", "b"), {"boxes": [{"name": "b", "image": "new"}, {"name": "c"}]})
    assert result["boxes"] == [{"name": "a", "image": "old"}, {"name": "b", "image": "new"}, {"name": "c"}]


def test_lists_inside_entries_merge_too():
    document = {"boxes": [{"name": "a", "ports": [{"port": 1, "name": "x"}, {"port": 2}]}]}
    result = patched(document, {"boxes": [{"name": "a", "ports": [{"port": 2, "name": "y"}]}]})
    assert result["boxes"][0]["ports"] == [{"port": 1, "name": "x"}, {"port": 2, "name": "y"}]


def test_a_list_without_strategy_is_replaced():
    assert patched({"plain": [{"name": "a"}]}, {"plain": [{"name": "b"}]}) == {"plain": [{"name": "b"}]}
    assert patched(
        {"boxes": [{"name": "a", "args": ["x", "y"]}]}, {"boxes": [{"name": "a", "args": ["z"]}]}
    ) == {"boxes": [{"name": "a", "args": ["z"]}]}


def test_scalars_merge_as_a_set():
    assert patched({"finalizers": ["a", "b"]}, {"finalizers": ["b", "c", "c"]}) == {
        "finalizers": ["a", "b", "c"]
    }
    assert patched({"finalizers": ["a"]}, {"finalizers": ["c", "b"]}) == {"finalizers": ["c", "b", "a"]}


def test_field_with_replace_strategy_is_not_merged():
    source = Struct("x.v1.Source", Field("a", STRING, 1), Field("b", STRING, 2))
    holder = Struct("x.v1.Holder", Field("source", source, 1, patch="replace"))
    result = apply_strategic_patch({"source": {"a": "1"}}, {"source": {"b": "2", "a": None}}, holder)
    assert result == {"source": {"b": "2", "a": None}}


def test_replacing_values_keep_nulls_and_new_values_do_not():
    patch = {"plain": [{"source": {"a": None}}], "boxes": [{"name": "x", "source": {"a": None}}]}
    assert patched({"plain": [{"name": "old"}], **boxes("a")}, patch) == {
        "plain": [{"source": {"a": None}}],
        "boxes": [{"name": "x", "source": {"a": None}}, {"name": "a", "image": "old"}],
    }
    assert patched({}, patch) == {"plain": [{"source": {}}], "boxes": [{"name": "x", "source": {}}]}


def test_values_are_deleted_from_a_list_of_scalars():
    patch = {"$deleteFromPrimitiveList/finalizers": ["a", "none"], "finalizers": ["c"]}
    assert patched({"finalizers": ["a", "b"]}, patch) == {"finalizers": ["c", "b"]}


def test_entries_are_deleted_by_key_and_missing_ones_are_no_error():
    result = patched(
        boxes("a", "b"), {"boxes": [{"$patch": "delete", "name": "a"}, {"$patch": "delete", "name": "z"}]}
    )
    assert [box["name"] for box in result["boxes"]] == ["b"]


def test_replace_stands_alone_in_a_map_and_a_list():
    assert patched({"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "b": "2"}}) == {
        "labels": {"b": "2"}
    }
    result = patched(boxes("a", "b"), {"boxes": [{"name": "c"}, {"$patch": "replace"}]})
    assert result == {"boxes": [{"name": "c"}]}


def test_replace_in_an_entry_is_about_its_list_and_not_about_it():
    patch = {"boxes": [{"name": "a", "$patch": "replace", "args": ["x"]}, {"name": "b", "args": ["y"]}]}
    assert patched(boxes("a", "b"), patch) == {"boxes": [{"name": "b", "args": ["y"]}]}


def test_delete_directives_apply_first():
    patch = {"boxes": [{"name": "a", "args": ["x"]}, {"name": "a", "$patch": "delete"}]}
    assert patched(boxes("a", "b"), patch)["boxes"][0] == {"name": "a", "args": ["x"]}


def test_delete_of_a_map():
    assert patched({"labels": {"a": "1"}, "finalizers": ["x"]}, {"labels": {"$patch": "delete"}}) == {
        "labels": {},
        "finalizers": ["x"],
    }


@cases(
    "part",
    [
        {"labels": {"$patch": "replace", "a": "1"}},
        {"boxes": [{"name": "a", "$patch": "delete"}]},
        {"boxes": [{"name": "a", "$retainKeys": ["name"], "image": "x"}]},
        {"boxes": [{"name": "a", "source": {"$patch": "delete"}}]},
    ],
)
def test_directive_without_existing_value_is_a_plain_field(part):
    assert patched({}, part) == part


def test_null_without_existing_value_sets_nothing():
    part = {"labels": {"a": None, "b": "1"}, "boxes": [{"name": "a", "image": None}]}
    assert patched({}, part) == {"labels": {"b": "1"}, "boxes": [{"name": "a"}]}


def test_value_of_another_type_is_replaced():
    assert patched({"labels": ["x"]}, {"labels": {"a": "1"}}) == {"labels": {"a": "1"}}


def test_retain_keys_drops_the_rest():
    document = {"boxes": [{"name": "a", "image": "i", "source": {"a": "1"}}]}
    patch = {"boxes": [{"name": "a", "$retainKeys": ["name", "args"], "args": ["x"]}]}
    assert patched(document, patch) == {"boxes": [{"name": "a", "args": ["x"]}]}


def test_retain_keys_must_cover_the_patch():
    with pytest.raises(MalformedPatch, match="retainKeys"):
        patched(boxes("a"), {"boxes": [{"name": "a", "$retainKeys": ["name"], "image": "x"}]})


def test_retain_keys_need_not_name_deleted_members():
    document = {"boxes": [{"name": "a", "source": {"a": "1"}, "image": "i"}]}
    patch = {"boxes": [{"name": "a", "$retainKeys": ["name", "image"], "source": None, "image": "x"}]}
    assert patched(document, patch) == {"boxes": [{"name": "a", "image": "x"}]}


def names(result):
    return "".join(box["name"] for box in result["boxes"])


@cases(
    ("server", "patch", "result"),
    [
        ("ab", "x", "xab"),
        ("ab", "xb", "xab"),
        ("ab", "bx", "abx"),
        ("abc", "bx", "abxc"),
        ("abc", "ca", "bca"),
        ("abc", "cba", "cba"),
        ("", "ba", "ba"),
    ],
)
def test_without_order_directive_entries_follow_the_patch(server, patch, result):
    assert names(patched(boxes(*server), {"boxes": [{"name": name} for name in patch]})) == result


def test_deleted_entries_do_not_affect_the_order():
    patch = {"boxes": [{"$patch": "delete", "name": "b"}, {"name": "x"}]}
    assert names(patched(boxes("a", "b", "c"), patch)) == "xac"


@cases(("server", "order", "result"), [("asc", "ca", "sca"), ("sac", "ac", "sac"), ("acs", "ca", "cas")])
def test_order_directive_arranges_named_entries_only(server, order, result):
    patch = {
        "$setElementOrder/boxes": [{"name": name} for name in order],
        "boxes": [{"name": "c", "image": "new"}],
    }
    found = patched(boxes(*server), patch)
    assert names(found) == result
    assert {"name": "c", "image": "new"} in found["boxes"]


def test_order_directive_alone_arranges_existing_entries():
    assert names(patched(boxes("a", "b"), {"$setElementOrder/boxes": [{"name": "b"}, {"name": "a"}]})) == "ba"
    patch = {"$setElementOrder/finalizers": ["b", "a"]}
    assert patched({"finalizers": ["a", "b"]}, patch) == {"finalizers": ["b", "a"]}


def test_the_order_must_name_what_the_patch_sets():
    with pytest.raises(MalformedPatch, match="order"):
        patched(boxes("a"), {"$setElementOrder/boxes": [{"name": "a"}], "boxes": [{"name": "b"}]})


@cases(
    "order",
    [{"$setElementOrder/boxes": ["a"]}, {"$setElementOrder/boxes": "a"}, {"$setElementOrder/crates": []}],
)
def test_an_order_is_a_list_of_the_keys_of_a_known_list(order):
    with pytest.raises(MalformedPatch, match=r"list|an order|no field"):
        patched(boxes("a"), order)


@cases("patch", [[], "x", 1, None])
def test_a_patch_is_an_object(patch):
    with pytest.raises(MalformedPatch):
        patched({}, patch)


def test_error_texts():
    with pytest.raises(PatchDoesNotFit, match="merge key: name"):
        patched(boxes("a"), {"boxes": [{"image": "x"}]})
    with pytest.raises(PatchDoesNotFit, match="not identical"):
        patched(boxes("a"), {"boxes": ["a"]})
    with pytest.raises(MalformedPatch, match="directive"):
        patched({"labels": {}}, {"labels": {"$patch": "explode"}})
    with pytest.raises(MalformedPatch, match="directive"):
        patched(boxes("a"), {"boxes": [{"name": "a", "$patch": "explode"}]})
    with pytest.raises(MalformedPatch, match="directive"):
        patched(boxes("a"), {"boxes": [{"name": "a", "$patch": "merge"}]})
    with pytest.raises(MalformedPatch, match="directive"):
        patched({"labels": {}}, {"labels": {"$patch": "merge", "a": "b"}})
    with pytest.raises(MalformedPatch, match=r"write \$deleteFromPrimitiveList/LIST"):
        patched({}, {"$deleteFromPrimitiveList": ["a"]})


A_BOX = {"boxes": [{"name": "a", "image": "i"}]}


@cases(
    ("document", "patch", "code", "text"),
    [
        (
            A_BOX,
            {"boxes": [{"image": "x"}]},
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            A_BOX,
            {"boxes": [{"$patch": "delete"}]},
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            {"boxes": [{"image": "old"}]},
            {"boxes": [{"name": "x"}]},
            500,
            "map: map[image:old] does not contain declared merge key: name",
        ),
        (
            {"boxes": [{"image": "old"}, {"name": "a"}]},
            {"$setElementOrder/boxes": [{"name": "a"}]},
            500,
            "map: map[image:old] does not contain declared merge key: name",
        ),
        (A_BOX, {"$patch": "x"}, 500, "unknown patch type: x in map: map[$patch:x]"),
        (
            A_BOX,
            {"boxes": [{"name": "a", "$patch": 1}]},
            500,
            "unknown patch type: %!s(int64=1) in map: map[$patch:1 name:a]",
        ),
        (A_BOX, {"$patch": None}, 500, "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]"),
        (
            A_BOX,
            {"boxes": [{"name": "a", "$patch": "merge"}]},
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            A_BOX,
            {"boxes": [{"name": "b"}, "c"]},
            500,
            "list element types are not identical: [[map[image:i name:a]] [map[name:b] c]]",
        ),
        (A_BOX, {"$setElementOrder/boxes": "a"}, 500, "expected a []interface {}, but received a string"),
        (
            A_BOX,
            {"$setElementOrder/boxes": None},
            500,
            "expected a []interface {}, but received a %!s(<nil>)",
        ),
        (
            A_BOX,
            {"$setElementOrder/boxes": [], "boxes": {}},
            500,
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (
            A_BOX,
            {"$setElementOrder/crates": []},
            500,
            'unable to find api field in struct Thing for the json field "crates"',
        ),
        (A_BOX, {"$setElementOrder/labels": []}, 500, "expected slice or array type, but got: struct"),
        (
            A_BOX,
            {
                "$setElementOrder/boxes": [{"name": "a"}, {"name": "b"}],
                "boxes": [{"name": "b"}, {"name": "a"}],
            },
            500,
            "The order in patch list:\n[map[name:b] map[name:a]]\n"
            " doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n",
        ),
        (A_BOX, {"$setElementOrder/boxes": ["x"]}, 500, "value for key 0 is not a map"),
        (
            A_BOX,
            {"$setElementOrder/boxes": ["x"], "boxes": [{}]},
            500,
            "expected a map[string]interface {}, but received a string",
        ),
        (
            {"plain": [{"name": "a"}]},
            {"$setElementOrder/plain": [], "plain": []},
            500,
            "map: map[name:a] does not contain declared merge key: ",
        ),
        (
            A_BOX,
            {
                "$setElementOrder/boxes": [{"name": "a"}],
                "boxes": [{"name": "a"}, {"name": "a", "$patch": "replace"}],
            },
            500,
            "The order in patch list:\n[map[name:a] map[$patch:replace name:a]]\n"
            " doesn't match $setElementOrder list:\n[map[name:a]]\n",
        ),
        (
            {"boxes": []},
            {"$setElementOrder/boxes": [], "boxes": []},
            500,
            "no elements in any of the given slices",
        ),
        (A_BOX, {"$retainKeys": "x"}, 400, "invalid patch format of retainKeys"),
        (A_BOX, {"$retainKeys": ["labels"], "finalizers": []}, 400, "invalid patch format of retainKeys"),
        (A_BOX, {"$deleteFromPrimitiveList": []}, 400, "invalid patch format of primitive list"),
        (A_BOX, {"$setElementOrderX/boxes": []}, 400, "invalid patch format of setElementOrder list"),
    ],
)
def test_how_kubernetes_refuses_a_patch(document, patch, code, text):
    with pytest.raises(PatchError) as raised:
        patched(document, patch)
    assert raised.value.kubernetes == (code, text)


def test_lists_of_lists_are_refused_without_a_text_of_kubernetes():
    with pytest.raises(PatchDoesNotFit, match="lists of lists") as raised:
        patched({"finalizers": [["a"]]}, {"finalizers": ["b"]})
    assert raised.value.kubernetes is None


@cases(
    ("document", "patch", "before", "since"),
    [
        ({}, {"labels": {"$patch": "replace", "a": "1"}}, {"labels": {"$patch": "replace", "a": "1"}}, {}),
        (
            {},
            {"boxes": [{"name": "a", "$patch": "delete"}, {"name": "b"}]},
            {"boxes": [{"name": "a", "$patch": "delete"}, {"name": "b"}]},
            {"boxes": [{"name": "b"}]},
        ),
        (
            {},
            {
                "$setElementOrder/boxes": [{"name": "b"}],
                "boxes": [{"name": "a", "$patch": "delete"}, {"name": "b"}],
            },
            {"boxes": [{"name": "b"}, {"name": "a", "$patch": "delete"}]},
            {"boxes": [{"name": "b"}]},
        ),
        (
            {"labels": ["x"]},
            {"labels": {"$patch": "delete"}},
            {"labels": {"$patch": "delete"}},
            {},
        ),
        (
            {"boxes": [{"name": "a", "args": ["x", "y"]}]},
            {"boxes": [{"name": "a", "$deleteFromPrimitiveList/args": ["x"]}]},
            {"boxes": [{"name": "a", "args": ["x"]}]},
            {"boxes": [{"name": "a", "args": ["y"]}]},
        ),
    ],
)
def test_directives_where_they_had_no_effect_before_1_28(document, patch, before, since):
    assert patched(document, patch) == before
    assert apply_strategic_patch(deepcopy(document), patch, THING, directives_everywhere=True) == since


def test_members_to_retain_may_be_named_by_what_is_no_name():
    assert patched({"labels": {"a": "1"}}, {"labels": {"$retainKeys": [1]}}) == {"labels": {}}


def test_what_is_left_of_a_patch_has_no_directives_of_what_was_merged():
    patch = {
        "$retainKeys": ["boxes", "labels", "source"],
        "$setElementOrder/boxes": [{"name": "a"}],
        "boxes": [{"name": "a"}],
        "labels": {"$patch": "replace", "a": None},
        "source": {"a": None, "b": "1"},
    }
    unchanged = deepcopy(patch)
    document = {"boxes": [{"name": "a"}], "labels": {}}
    assert left_of_patch(document, patch, THING) == {"labels": {"a": None}, "source": {"b": "1"}}
    assert patch == unchanged


def test_json_without_a_declaration_merges_maps_and_replaces_lists():
    holder = Struct("x.v1.Holder", Field("data", ANY_JSON, 1))
    document = {"data": {"a": {"b": 1}, "l": [{"name": "x"}]}}
    result = apply_strategic_patch(document, {"data": {"a": {"c": 2}, "l": [1]}}, holder)
    assert result == {"data": {"a": {"b": 1, "c": 2}, "l": [1]}}


@cases("values", ["a", {"a": None}, None, ["a"]])
def test_values_deleted_from_what_is_no_list_change_nothing(values):
    assert patched({"labels": {}}, {"$deleteFromPrimitiveList/finalizers": values}) == {"labels": {}}


def test_depth_is_bounded():
    patch: dict = {}
    for _ in range(5000):
        patch = {"a": patch}
    with pytest.raises(MalformedPatch, match="deep"):
        patched({}, patch)


NAMES = st.sampled_from(["a", "b", "c"])
BOXES = st.lists(
    st.fixed_dictionaries({"name": NAMES, "image": st.text("xy", max_size=2)}),
    max_size=3,
    unique_by=lambda b: b["name"],
)


@given(BOXES, BOXES)
def test_patching_twice_equals_patching_once(document, patch):
    once = patched({"boxes": document}, {"boxes": patch})
    assert patched(once, {"boxes": patch}) == once
    assert {box["name"] for box in once["boxes"]} == {box["name"] for box in [*document, *patch]}


@given(BOXES, BOXES)
def test_both_orders_are_kept(document, patch):
    merged = [box["name"] for box in patched({"boxes": document}, {"boxes": patch})["boxes"]]
    named = [box["name"] for box in patch]
    others = [box["name"] for box in document if box["name"] not in named]
    assert [name for name in merged if name in named] == named
    assert [name for name in merged if name not in named] == others
