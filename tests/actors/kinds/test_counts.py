"""Quantities that count things, such as pods in a quota, are whole numbers whose thousandths fit into 64 bits.

v1.25.16 accepts and refuses the same amounts.
"""

from __future__ import annotations

from rewound.actors.quantity import is_count
from tests.cases import checking
from tests.gateway.shared_server import shared

COUNTS = (
    "0",
    "1",
    "-1",
    "1k",
    "1Ki",
    "5.",
    "+5",
    "1e3",
    "10E",
    "1e18",
    "1e30",
    "9.3E",
    "9223372036854775807",
)
COUNTS += ("8Ei", "1000Ei", "9223372036854775808", "18446744073709551616", "9223372036854775807k")
NO_COUNTS = (
    "0.5",
    "1m",
    "1500m",
    "1n",
    "0.1n",
    "1e-10",
    "1Ei",
    "7Ei",
    "7.9Ei",
    "100Pi",
    "123456789012345678901234567890",
)


def test_counts() -> None:
    assert [text for text in COUNTS if not is_count(text)] == []
    assert [text for text in NO_COUNTS if is_count(text)] == []


async def test_counts_of_quotas_and_nodes() -> None:
    async with shared() as api:
        with checking() as case:
            for text in ("10E", "8Ei", "1Ei", "7Ei", "100Pi"):
                with case(text):
                    expected = 201 if is_count(text) else 422
                    quota = {"metadata": {"name": "a"}, "spec": {"hard": {"pods": text, "memory": text}}}
                    answer = await api.ask("POST", api.path("resourcequotas"), quota, dryRun="All")
                    assert answer.status == expected
                    node = {"metadata": {"name": "a"}, "status": {"capacity": {"example.com/gpu": text}}}
                    answer = await api.ask("POST", api.path("nodes"), node, dryRun="All")
                    assert answer.status == expected
                    if expected == 422:
                        causes = answer.document["details"]["causes"]
                        assert causes[0]["field"] == "status.capacity.example.com/gpu"
                        assert "must be an integer" in causes[0]["message"]
