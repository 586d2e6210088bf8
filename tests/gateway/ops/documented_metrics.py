"""The table of all metrics in docs/metrics.md: `python -m tests.gateway.ops.documented_metrics` writes it.

A metric is one that a server shows, or one that the code declares by a literal name: those of standbys, nodes, workers
and fault rules, which only such servers show.
"""

from __future__ import annotations

import ast
import re
import tempfile
from pathlib import Path

import trio

from rewound.gateway.settings.settings import AuditSettings
from tests.gateway.api import served

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "metrics.md"
HEADING = "## All metrics\n"
_HEAD = "| metric | type | |\n|---|---|---|\n"
_POLICY = "apiVersion: audit.cluster.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"
_DECLARES = {"counter", "gauge", "histogram"}

Described = dict[str, tuple[str, str]]  # type and text of each metric


async def served_metrics(folder: Path) -> str:
    """/metrics of a server with an audit log."""
    policy = folder / "policy.yaml"
    policy.write_text(_POLICY)
    audit = AuditSettings(audit_policy_file=policy, audit_log_path=str(folder / "audit.log"))
    async with served(folder, audit=audit) as api:
        return (await api.ask("GET", "/metrics")).text


def described(exposition: str) -> Described:
    texts = dict(re.findall(r"^# HELP (\S+) (.*)$", exposition, re.MULTILINE))
    kinds = dict(re.findall(r"^# TYPE (\S+) (.*)$", exposition, re.MULTILINE))
    return {name: (kinds[name], text) for name, text in texts.items()}


def declared() -> Described:
    found: Described = {}
    for path in (ROOT / "rewound").rglob("*.py"):
        text = path.read_text()
        if "metrics" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in _DECLARES
            ):
                first = [one.value for one in node.args[:2] if isinstance(one, ast.Constant)]
                if len(first) == 2:
                    found[first[0]] = (node.func.attr, first[1])
    return found


def table(metrics: Described) -> str:
    return _HEAD + "".join(
        f"| `{name}` | {kind} | {text} |\n" for name, (kind, text) in sorted(metrics.items())
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shown = described(trio.run(served_metrics, Path(folder)))
    before = PAGE.read_text().partition(HEADING)[0]
    PAGE.write_text(before + HEADING + _INTRODUCTION + table(declared() | shown))


_INTRODUCTION = """
What a plain server shows, and what only others do: nodes on etcd (`rewound_node_...`), standbys
(`rewound_standby_...`), workers, fault rules and identity providers. [Alerts for
Prometheus](examples/prometheus/rewound.rules.yaml) and [a dashboard for Grafana](examples/grafana/rewound.json) use
them, for a scrape job with the name `rewound`; a test compares both with a running server.

"""

if __name__ == "__main__":
    main()
