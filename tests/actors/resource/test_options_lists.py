"""Which combinations of resourceVersion, resourceVersionMatch and continue are valid, and the errors of the others."""

import pytest

from rewound.actors.errors import BadRequest, Invalid
from rewound.actors.names import CLUSTER, KUBERNETES
from rewound.actors.versions.features import INITIAL_EVENTS, WATCH_LIST
from rewound.gateway.pipeline.options import list_options
from tests.cases import cases

UNLESS = "resourceVersionMatch is forbidden unless resourceVersion is provided"
CONTINUE = "resourceVersionMatch is forbidden when continue is provided"
EXACT_ZERO = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
WATCH = "resourceVersionMatch is forbidden for watch"


def unsupported(word: str) -> str:
    return f'Unsupported value: "{word}": supported values: "Exact", "NotOlderThan", ""'


@cases(
    ("version", "match", "token"),
    [
        ("", "", ""),
        ("0", "", ""),
        ("5", "", ""),
        ("5", "Exact", ""),
        ("5", "NotOlderThan", ""),
        ("0", "NotOlderThan", ""),
        ("", "", "token"),
        ("0", "", "token"),
    ],
)
def test_valid_combination_is_accepted(version: str, match: str, token: str) -> None:
    list_options(CLUSTER, version, match, token)


@cases(
    ("version", "match", "token", "texts"),
    [
        ("", "Exact", "", [f"Forbidden: {UNLESS}"]),
        ("", "NotOlderThan", "", [f"Forbidden: {UNLESS}"]),
        ("0", "Exact", "", [f"Forbidden: {EXACT_ZERO}"]),
        ("0", "Any", "", [unsupported("Any")]),
        ("1", "Foo", "", [unsupported("Foo")]),
        ("", "exact", "", [f"Forbidden: {UNLESS}", unsupported("exact")]),
        ("5", "Exact", "token", [f"Forbidden: {CONTINUE}"]),
        ("", "NotOlderThan", "token", [f"Forbidden: {UNLESS}", f"Forbidden: {CONTINUE}"]),
        ("", "Never", "token", [f"Forbidden: {UNLESS}", f"Forbidden: {CONTINUE}", unsupported("Never")]),
    ],
)
def test_invalid_combination_is_refused(version: str, match: str, token: str, texts: list[str]) -> None:
    with pytest.raises(Invalid) as caught:
        list_options(CLUSTER, version, match, token)
    assert [cause.message for cause in caught.value.causes] == texts
    assert {cause.field for cause in caught.value.causes} == {"resourceVersionMatch"}


def test_message_names_the_group_of_the_dialect() -> None:
    with pytest.raises(Invalid) as caught:
        list_options(KUBERNETES, "", "Exact", "")
    assert str(caught.value) == (
        f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: {UNLESS}'
    )
    assert caught.value.causes[0].reason == "FieldValueForbidden"


def test_token_with_a_resource_version_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"^specifying resource version is not allowed when using continue$"):
        list_options(CLUSTER, "7", "", "token")


def test_watch_ignores_a_token() -> None:
    list_options(CLUSTER, "5", "", "token", watch=True)


def test_watch_with_a_version_match_is_refused() -> None:
    with pytest.raises(Invalid) as caught:
        list_options(CLUSTER, "0", "Exact", "", watch=True)
    assert [cause.message for cause in caught.value.causes] == [
        f"Forbidden: {WATCH}",
        f"Forbidden: {EXACT_ZERO}",
    ]


@cases(
    ("features", "match", "sent", "messages"),
    [
        (
            {INITIAL_EVENTS},
            "Exact",
            None,
            ["unless sendInitialEvents is provided", '"Exact": supported values'],
        ),
        ({INITIAL_EVENTS}, "NotOlderThan", True, ["unless the WatchList feature gate is enabled"]),
        ({INITIAL_EVENTS}, "", False, ["requires setting", "unless the WatchList feature gate is enabled"]),
        ({INITIAL_EVENTS, WATCH_LIST}, "NotOlderThan", True, []),
    ],
)
def test_initial_events_of_a_watch(
    features: set[str], match: str, sent: bool | None, messages: list[str]
) -> None:
    if not messages:
        list_options(CLUSTER, "", match, "", watch=True, initial_events=sent, features=frozenset(features))
        return
    with pytest.raises(Invalid) as caught:
        list_options(CLUSTER, "", match, "", watch=True, initial_events=sent, features=frozenset(features))
    assert len(caught.value.causes) == len(messages)
    for cause, message in zip(caught.value.causes, messages, strict=True):
        assert message in cause.message
