"""The table of kinds' names says what the declarations say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rewound.actors.kinds.apiextensions import definition_type as declared_type
from rewound.actors.names import NAMES
from rewound.recording.query.kind_names import FILE, definition_type, lines
from tests.gateway.journal_commands import put, write_history


def test_file_has_the_names_of_all_declared_kinds() -> None:
    """If this fails: python -m rewound.recording.query.kind_names > rewound/recording/query/kind_names.txt"""
    assert FILE.read_text().splitlines() == list(lines())


def test_definitions_have_the_type_that_is_declared() -> None:
    for names in NAMES.values():
        assert definition_type(names) == declared_type(names)


def test_log_and_history_of_a_folder_import_no_declarations(tmp_path: Path) -> None:
    write_history(tmp_path / "cluster", [put("web", {"color": "blue"})])
    folder = str(tmp_path / "cluster")
    program = (
        "import sys; from rewound.cli.main import main\n"
        f"assert main(['log', '--data-dir', {folder!r}]) == 0\n"
        f"assert main(['history', 'cm/web', '--data-dir', {folder!r}]) == 0\n"
        "heavy = ('rewound.actors.kinds.core', 'rewound.actors.kinds.built_in', 'rewound.actors.versions.features',"
        " 'rewound.journal.backup', 'httpx', 'ssl', 'trio')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    assert run.stdout.splitlines()[-1] == "[]"
