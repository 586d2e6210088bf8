"""Unique: a version is one state of one object, for ever."""

from __future__ import annotations

from tests.robustness.history import History
from tests.robustness.promise import Broken
from tests.robustness.validate.told import Sight, sights


def unique(history: History) -> None:
    first: dict[int, Sight] = {}
    for sight in sights(history):
        known = first.setdefault(sight.version, sight)
        if (known.key, known.body) != (sight.key, sight.body):
            raise Broken(
                "Unique",
                f"version {sight.version} is {known.key} {known.body} in {known.where}, "
                f"and {sight.key} {sight.body} in {sight.where}",
            )
