from __future__ import annotations

from email.utils import formatdate

import pytest

from rewound.gateway.wire.http_date import http_date


@pytest.mark.parametrize("seconds", [0, 784111777, 951782400.9, 1.7e9, 4102444799])
def test_dates_are_those_of_the_standard_library(seconds: float) -> None:
    assert http_date(seconds) == formatdate(seconds, usegmt=True).encode()
