"""docs/guarantees.md and the validators name the same guarantees, and a failure quotes the page."""

from __future__ import annotations

import importlib

from tests.robustness.guarantees import (
    PAGE,
    GuaranteeBroken,
    WatchGuaranteeBroken,
    guarantees,
    watch_guarantees,
)
from tests.robustness.validate import VALIDATORS
from tests.robustness.validate.watch import WATCH_VALIDATORS


def test_every_guarantee_has_its_validator() -> None:
    assert set(guarantees()) == set(VALIDATORS)
    for name, validator in VALIDATORS.items():
        module = importlib.import_module(f"tests.robustness.validate.{name.lower()}")
        assert getattr(module, name.lower()) is validator
        assert f"| {name} | `tests/robustness/validate/{name.lower()}.py` |" in PAGE.read_text()


def test_every_guarantee_of_watches_has_its_validator() -> None:
    assert set(watch_guarantees()) == set(WATCH_VALIDATORS)
    for name, validator in WATCH_VALIDATORS.items():
        module = importlib.import_module(f"tests.robustness.validate.watch.{name.lower()}")
        assert getattr(module, name.lower()) is validator
        assert f"| {name} | `tests/robustness/validate/watch/{name.lower()}.py` |" in PAGE.read_text()


def test_failure_quotes_the_guarantee() -> None:
    text = str(GuaranteeBroken("Durable", "it is missing"))
    assert guarantees()["Durable"] in text
    assert "it is missing" in text


def test_watch_failure_quotes_the_guarantee_of_watches() -> None:
    assert watch_guarantees()["Unique"] in str(WatchGuaranteeBroken("Unique", "it came twice"))
    assert guarantees()["Unique"] not in str(WatchGuaranteeBroken("Unique", "it came twice"))
