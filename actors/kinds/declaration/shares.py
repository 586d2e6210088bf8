"""Numbers of pods that may also be said as a share of all of them: 3, or 25%."""

from __future__ import annotations

import re
from typing import Final

from actors.kinds.validation.checks import NEGATIVE, FieldError, each, explained, invalid

Share = int | str

_PERCENT: Final = "[0-9]+%"
_PERCENT_TEXT: Final = explained(
    "a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%"
)
_is_percent = re.compile(_PERCENT).fullmatch
_is_number = re.compile("[-+]?[0-9]+").fullmatch


def share_rules(share: Share, field: str) -> list[FieldError]:
    """Not negative, and a percentage where it is a text."""
    if isinstance(share, str):
        return [] if _is_percent(share) else each(field, share, [_PERCENT_TEXT])
    return [invalid(field, share, NEGATIVE)] if share < 0 else []


def no_more_than_all(share: Share, field: str) -> list[FieldError]:
    if isinstance(share, str) and _is_percent(share) and amount(share) > 100:
        return [invalid(field, share, "must not be greater than 100%")]
    return []


def amount(share: Share) -> int:
    """The number alone, of pods or of hundredths; 0 of a text that has none."""
    if isinstance(share, int):
        return share
    digits = share.removesuffix("%")
    return int(digits) if _is_number(digits) and len(digits) < 20 else 0
