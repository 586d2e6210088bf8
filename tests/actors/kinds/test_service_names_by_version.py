"""Names of Services must be DNS-1035 labels; since 1.36 labels of RFC 1123 are enough."""

from __future__ import annotations

import pytest

from rewound.actors.kinds.built_in import built_in
from rewound.actors.names import KUBERNETES
from rewound.actors.versions.features import choose_release


@pytest.mark.parametrize(
    ("version", "gates", "allowed"),
    [
        ("1.25", "", False),
        ("1.35", "", False),
        ("1.35", "RelaxedServiceNameValidation=true", True),
        ("1.36", "", True),
    ],
)
def test_name_may_begin_with_a_digit(version: str, gates: str, allowed: bool) -> None:
    service = built_in(KUBERNETES, choose_release(version, gates)).of_kind("v1", "Service")
    assert service is not None
    assert (service.check_name("1st", False) == []) == allowed
    assert service.check_name("a.b", False)
