"""Names are checked in one pass, with exactly the results of the regular expressions that errors show."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewound.actors.kinds.validation import (
    dns_1035_label,
    dns_label,
    dns_subdomain,
    label_value,
    qualified_name,
    wildcard_subdomain,
)

CHECKS = (dns_label, dns_subdomain, label_value, qualified_name, dns_1035_label, wildcard_subdomain)
SHOWN = re.compile(r"regex used for validation is '(.*)'\)")


def shown_pattern(check: Callable[[str], list[str]]) -> str:
    [found] = [one[1] for text in check("?") if (one := SHOWN.search(text))]
    return found


@pytest.mark.parametrize("check", CHECKS)
@given(value=st.text("aZ0-_.*", max_size=12))
def test_a_name_is_accepted_if_the_expression_of_the_error_matches(
    check: Callable[[str], list[str]], value: str
) -> None:
    expected = re.fullmatch(shown_pattern(check), value) is not None
    assert (not any(SHOWN.search(text) for text in check(value))) == expected


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("unit", ["a", "a-", "a.", "aaaa.", "-", "A"])
def test_a_long_name_is_too_long_and_follows_the_same_rule(
    check: Callable[[str], list[str]], unit: str
) -> None:
    value = unit * 400
    wrong = check(value)
    assert any("no more than" in text for text in wrong)
    expected = re.fullmatch(shown_pattern(check), value) is not None
    assert (not any(SHOWN.search(text) for text in wrong)) == expected
