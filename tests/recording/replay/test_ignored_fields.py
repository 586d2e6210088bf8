"""Fields that a comparison ignores: wildcards match any text, and many of them take no time."""

from __future__ import annotations

from rewound.recording.replay.comparison import Ignored
from tests.cases import cases


@cases(
    ("pattern", "field", "ignored"),
    [
        ("data.a", "data.a", True),
        ("data.a", "data.ab", False),
        ("data.*", "data.a.b", True),
        ("*.name", "metadata.name", True),
        ("*.name", "metadata.names", False),
        ("*a*b*", "xaybz", True),
        ("*a*b*", "xbya", False),
        ("a*ab", "aab", True),
        ("a**b", "ab", True),
        ("conditions[*].time", "conditions[3].time", True),
        ("conditions[*].time", "conditions.time", False),
        (30 * "a*" + "b", 60 * "a", False),
        (30 * "a*" + "b", 60 * "a" + "b", True),
    ],
)
def test_wildcards_of_ignored_fields(pattern: str, field: str, ignored: bool) -> None:
    assert (field in Ignored(fields=[pattern])) is ignored
