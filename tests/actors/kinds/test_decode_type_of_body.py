"""A body may omit apiVersion and kind; if it has them, they must be those of the path."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.schema.decoder import NotDecodable
from rewound.actors.names import Names
from tests.actors.kinds.definitions import Definitions
from tests.cases import cases


@cases("typed", [{}, {"kind": "ConfigMap"}, {"apiVersion": "v1"}, {"kind": "", "apiVersion": ""}])
def test_matching_types_are_accepted_and_not_stored(kinds: Definitions, typed: dict[str, str]) -> None:
    assert kinds.decode("configmaps", {**typed, "data": {"k": "v"}}) == {"metadata": {}, "data": {"k": "v"}}


@cases(
    ("typed", "text"),
    [
        ({"kind": "Secret", "apiVersion": "v1"}, 'Secret in version "v1" cannot be handled as a ConfigMap'),
        (
            {"kind": "Nothing", "apiVersion": "example.com/v2"},
            'Nothing in version "v2" cannot be handled as a ConfigMap',
        ),
        (
            {"kind": "ConfigMap", "apiVersion": "v2"},
            r"the API version in the data \(v2\) does not match the expected API version \(v1\)",
        ),
        ({"kind": 5}, "apiVersion and kind must be strings"),
    ],
)
def test_other_types_are_refused(kinds: Definitions, typed: dict[str, object], text: str) -> None:
    with pytest.raises(NotDecodable, match=text):
        kinds.decode("configmaps", typed)


def test_api_version_includes_the_group(kinds: Definitions, names: Names) -> None:
    kinds.decode("leases", {"kind": "Lease", "apiVersion": f"{names.group('coordination')}/v1"})
    with pytest.raises(NotDecodable, match="does not match the expected API version"):
        kinds.decode("leases", {"kind": "Lease", "apiVersion": "v1"})
