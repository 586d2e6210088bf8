"""An option for stories that are not part of the repository."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--stories",
        action="append",
        default=[],
        metavar="VERSION=FOLDER",
        help="play the stories of this folder too",
    )
