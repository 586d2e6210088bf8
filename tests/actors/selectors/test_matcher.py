"""The matcher gives the same results as a naive evaluation of the same selectors."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from rewound.actors.selectors import FieldSelector, LabelSelector, matcher
from rewound.actors.selectors.facts import pack_facts

# Few letters, so that one string is often a part of another and a field often looks like a label.
KEYS = ["a", "b", "ab", "x.io/a"]
VALUES = ["", "a", "b", "ab", "1", "12"]
FIELDS = ["metadata.name", "type", "a"]

Requirement = tuple[str, str, list[str]]
labels_of_objects = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
fields_of_objects = st.dictionaries(st.sampled_from(FIELDS), st.sampled_from([*VALUES, "a,b=c\\", "ä"]))
label_requirements = st.one_of(
    st.tuples(
        st.sampled_from(KEYS),
        st.sampled_from(["=", "==", "!="]),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=1),
    ),
    st.tuples(
        st.sampled_from(KEYS),
        st.sampled_from([">", "<"]),
        st.lists(st.sampled_from(["1", "5"]), min_size=1, max_size=1),
    ),
    st.tuples(
        st.sampled_from(KEYS), st.sampled_from(["in", "notin"]), st.lists(st.sampled_from(VALUES), max_size=3)
    ),
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["exists", "!"]), st.just([])),
)
field_requirements = st.tuples(
    st.sampled_from(FIELDS), st.sampled_from(["=", "==", "!="]), st.sampled_from([*VALUES, "a,b=c\\", "ä"])
)
blanks = st.sampled_from(["", " ", "\t "])


def naive_label(requirement: Requirement, labels: dict[str, str]) -> bool:
    key, operator, values = requirement
    value = labels.get(key)
    match operator:
        case "=" | "==":
            return value == values[0]
        case "!=":
            return value != values[0]
        case "in":
            return value in (values or [""])
        case "notin":
            return value not in (values or [""])
        case "exists":
            return value is not None
        case "!":
            return value is None
        case ">":
            return value is not None and value.isdigit() and int(value) > int(values[0])
    return value is not None and value.isdigit() and int(value) < int(values[0])


def naive_field(requirement: tuple[str, str, str], fields: dict[str, str]) -> bool:
    field, operator, value = requirement
    return (fields.get(field, "") == value) == (operator != "!=")


def written(requirement: Requirement, blank: str) -> str:
    key, operator, values = requirement
    match operator:
        case "exists":
            return f"{blank}{key}{blank}"
        case "!":
            return f"{blank}!{blank}{key}{blank}"
        case "in" | "notin":
            inner = f"{blank},{blank}".join(values)
            return f"{blank}{key} {operator}{blank}({blank}{inner}{blank}){blank}"
    return f"{blank}{key}{blank}{operator}{blank}{values[0]}{blank}"


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


@given(st.lists(label_requirements, max_size=4), labels_of_objects, blanks)
def test_label_selector_equals_naive_evaluation(
    requirements: list[Requirement], labels: dict[str, str], blank: str
) -> None:
    selector = LabelSelector.parse(",".join(written(requirement, blank) for requirement in requirements))
    assert selector.matches(labels) == all(naive_label(requirement, labels) for requirement in requirements)
    assert LabelSelector.parse(str(selector)) == selector


@given(
    st.lists(label_requirements, max_size=3),
    st.lists(field_requirements, max_size=3),
    labels_of_objects,
    fields_of_objects,
    st.sampled_from([*KEYS, "u"]),
    st.lists(st.sampled_from(VALUES), max_size=2),
)
@example([("a", "=", ["b"])], [], {"b": "a"}, {"a": "b"}, "u", [])
@example([("a", "!", [])], [], {"b": "a"}, {}, "a", ["a"])
def test_matcher_equals_naive_evaluation(
    of_labels: list[Requirement],
    of_fields: list[tuple[str, str, str]],
    labels: dict[str, str],
    fields: dict[str, str],
    uid: str,
    owners: list[str],
) -> None:
    label_selector = LabelSelector.parse(",".join(written(requirement, "") for requirement in of_labels))
    field_selector = FieldSelector.parse(",".join(f"{f}{op}{escaped(v)}" for f, op, v in of_fields))
    match = matcher(label_selector, field_selector)
    expected = all(naive_label(requirement, labels) for requirement in of_labels) and all(
        naive_field(requirement, fields) for requirement in of_fields
    )
    assert (match is None or match(pack_facts(labels, fields, uid, owners))) == expected


def test_empty_selectors_need_no_matcher() -> None:
    assert matcher(None, None) is None
    assert matcher(LabelSelector.parse(""), FieldSelector.parse("")) is None


def test_contradicting_requirements_match_nothing() -> None:
    match = matcher(LabelSelector.parse("a=1,a=2"), None)
    assert match is not None
    assert not any(match(pack_facts({"a": value}, {}, "u", [])) for value in ("1", "2", ""))
