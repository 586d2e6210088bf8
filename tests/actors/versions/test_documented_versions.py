"""docs/versions.md has the tables of the declarations."""

from __future__ import annotations

from tests.actors.versions.documented import PAGE, TABLES, with_tables


def test_page_has_the_tables() -> None:
    text = PAGE.read_text()
    for name in TABLES:
        assert f"<!-- {name}: made by" in text
    assert with_tables(text) == text, "run python -m tests.actors.versions.documented"
