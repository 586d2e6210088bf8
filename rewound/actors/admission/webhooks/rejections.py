"""Counts the writes that webhooks refused or failed: apiserver_admission_webhook_rejection_count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

CALLING, INTERNAL, NO_ERROR = "calling_webhook_error", "apiserver_internal_error", "no_error"
HIGHEST_CODE: Final = 600
# Webhooks come and go with names of any number; further ones are counted together.
MAX_SERIES: Final = 1000
OTHER: Final = "other"


class Rejection(NamedTuple):
    """The values of the labels, in their order."""

    error_type: str
    name: str
    operation: str
    rejection_code: str
    type: str


class Rejections:
    def __init__(self) -> None:
        self._counts: dict[tuple[str, ...], float] = {}

    def count(self, type_: str, name: str, operation: str, error_type: str, code: int) -> None:
        series = Rejection(error_type, name, operation, str(min(code, HIGHEST_CODE)), type_)
        if series not in self._counts and len(self._counts) >= MAX_SERIES:
            series = series._replace(name=OTHER, rejection_code="0")
        self._counts[series] = self._counts.get(series, 0) + 1

    def counts(self) -> Mapping[tuple[str, ...], float]:
        return dict(self._counts)
