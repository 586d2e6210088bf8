"""How many seats a request takes, by the size of a list or of a body."""

from __future__ import annotations

from rewound.actors.flowcontrol.priority_and_fairness import body_seats, list_seats
from tests.cases import cases


@cases(
    ("stored", "limit", "any_version", "selective", "seats"),
    [
        (0, 0, False, False, 1),
        (100, 0, False, False, 2),
        (2000, 0, False, False, 10),
        (2000, 100, False, False, 2),
        (2000, 100, False, True, 10),
        (350, 100, True, False, 4),
        (400, 100, False, True, 5),
        (10, 500, False, False, 1),
    ],
)
def test_seats_of_a_list(stored: int, limit: int, any_version: bool, selective: bool, seats: int) -> None:
    assert list_seats(stored, limit, any_version=any_version, selective=selective) == seats


def test_seats_of_a_body() -> None:
    sizes = (0, 1, 256 << 10, (256 << 10) + 1, 3 << 20, 1 << 30)
    assert [body_seats(size) for size in sizes] == [1, 1, 1, 2, 10, 10]
