"""Numbers of pods that may also be said as a share of all of them: 3, or 25%."""

from __future__ import annotations

import re
from typing import Final

from actors.kinds.validation.checks import explained
from actors.kinds.validation.field_errors import NEGATIVE, FieldErrors, invalid

Share = int | str

_PERCENT: Final = "[0-9]+%"
_PERCENT_TEXT: Final = explained(
    "a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%"
)
_is_percent = re.compile(_PERCENT).fullmatch
_is_number = re.compile("[-+]?[0-9]+").fullmatch


def share_rules(errors: FieldErrors, share: Share, field: str) -> None:
    """Not negative, and a percentage where it is a text."""
    if isinstance(share, str):
        if not _is_percent(share):
            errors.add_each(field, share, [_PERCENT_TEXT])
    elif share < 0:
        errors.add(invalid(field, share, NEGATIVE))


def no_more_than_all(errors: FieldErrors, share: Share, field: str) -> None:
    if isinstance(share, str) and _is_percent(share) and amount(share) > 100:
        errors.add(invalid(field, share, "must not be greater than 100%"))


def amount(share: Share) -> int:
    """The number alone, of pods or of hundredths; 0 of a text that has none."""
    if isinstance(share, int):
        return share
    digits = share.removesuffix("%")
    return int(digits) if _is_number(digits) and len(digits) < 20 else 0
