"""What makes a fight over a field: several authors set it in turn. The page looks for fights in a range of the journal
(`rewind.page.fights`), rules in a sliding window of time (`recording.rules.windows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rewound.actors.rewind.summary import summarize

FOUGHT: Final = 4  # changes of one field by several authors in turn


def fought_fields(before: bytes, after: bytes, *, secret: bool) -> Iterator[str]:
    """The fields of a change that authors may fight over. Controllers report in the status, so none of it counts."""
    for change in summarize(before, after, secret=secret).get("changes", ()):
        if not change["field"].startswith("status"):
            yield change["field"]
