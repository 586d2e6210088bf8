"""docs/guarantees.md and the validators name the same guarantees, and a failure quotes the page."""

from __future__ import annotations

import importlib

from tests.robustness.promise import PAGE, Broken, BrokenWatch, promises, watch_promises
from tests.robustness.validate import VALIDATORS
from tests.robustness.validate.watch import WATCH_VALIDATORS


def test_every_guarantee_has_its_validator() -> None:
    assert set(promises()) == set(VALIDATORS)
    for name, validator in VALIDATORS.items():
        module = importlib.import_module(f"tests.robustness.validate.{name.lower()}")
        assert getattr(module, name.lower()) is validator
        assert f"| {name} | `tests/robustness/validate/{name.lower()}.py` |" in PAGE.read_text()


def test_every_guarantee_of_watches_has_its_validator() -> None:
    assert set(watch_promises()) == set(WATCH_VALIDATORS)
    for name, validator in WATCH_VALIDATORS.items():
        module = importlib.import_module(f"tests.robustness.validate.watch.{name.lower()}")
        assert getattr(module, name.lower()) is validator
        assert f"| {name} | `tests/robustness/validate/watch/{name.lower()}.py` |" in PAGE.read_text()


def test_a_failure_quotes_its_sentence() -> None:
    text = str(Broken("Durable", "it is gone"))
    assert promises()["Durable"] in text
    assert "it is gone" in text


def test_a_failure_of_a_watch_quotes_the_sentence_about_watches() -> None:
    assert watch_promises()["Unique"] in str(BrokenWatch("Unique", "it came twice"))
    assert promises()["Unique"] not in str(BrokenWatch("Unique", "it came twice"))
