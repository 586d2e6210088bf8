from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from rewound.journal import Journal
from tests.journal.model import Model


def look(path: str) -> None:
    journal = Journal.open(Path(path), readonly=True)
    kind = journal.type_id("configmaps")
    with journal.read() as view:
        names = [name for _, name, _ in view.rows(kind)]
    print(json.dumps([journal.head, names, journal.types(), journal.type_id("never-written")]))
    journal.close()


def seen_by_another(path: Path) -> object:
    script = f"from tests.journal.test_other_processes import look; look({str(path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(done.stdout)


def test_reader_beside_a_running_writer_and_after_it(tmp_path: Path, model: Model) -> None:
    journal = Journal.open(tmp_path)
    kind = journal.register_type("configmaps")
    assert seen_by_another(tmp_path) == [0, [], {"configmaps": kind}, 0]
    journal.append([model.put("a", type_id=kind), model.put("b", type_id=kind)])
    expected = [2, ["a", "b"], {"configmaps": kind}, 0]
    assert seen_by_another(tmp_path) == expected
    journal.close()
    assert seen_by_another(tmp_path) == expected
