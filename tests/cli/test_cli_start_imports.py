"""A start without flags imports only the modules that it needs: every further one delays it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rewound.journal import Journal
from tests.ports import reserve_port

# Serves, reports the modules at the moment when the server is ready, and stops.
PROGRAM = """
import os, signal, sys
import trio
from rewound.server.flags.parser import parse_flags
from rewound.server.process import serve_until_signal
from rewound.testing.controlled import WITH_CONTROLS

def announce(addresses):
    print("\\n".join(sys.modules), flush=True)
    os.kill(os.getpid(), signal.SIGTERM)

settings, _ = parse_flags(sys.argv[1:])
trio.run(serve_until_signal, settings, announce, WITH_CONTROLS)
"""

# Modules that only a flag, a kind of object or a rare request needs. Each stands for everything below it.
NOT_AT_THE_START = (
    "rewound.actors.access.authentication.bootstrap_tokens",
    "rewound.actors.access.authentication.oidc",
    "rewound.actors.access.authentication.token_file",
    "rewound.actors.access.authentication.token_webhook",
    "rewound.actors.access.authorization.abac",
    "rewound.actors.access.authorization.node_authorizer",
    "rewound.actors.access.authorization.webhook",
    "rewound.actors.admission.plugins.event_rate_limit",
    "rewound.actors.admission.plugins.persistent_volume_label",
    "rewound.actors.admission.plugins.pod_security_policy",
    "rewound.actors.admission.plugins.image_policy_webhook",
    "rewound.actors.admission.plugins.pod_node_selector",
    "rewound.actors.admission.plugins.pod_toleration_restriction",
    "rewound.actors.cel",
    "rewound.actors.kinds.structural",
    "rewound.actors.rewind.timeline",
    "cryptography",
    "csv",
    "difflib",
    "rewound.gateway.audit",
    "rewound.client",
    "rewound.gateway.connections.http2",
    "rewound.gateway.connections.websocket.connection",
    "rewound.gateway.describe.openapi.documents",
    "rewound.testing.controls",
    "rewound.testing.faults",
    "rewound.testing.fixture",
    "rewound.rewind.page",
    "rewound.gateway.wire.yaml.reader",
    "rewound.gateway.wire.yaml.writer",
    "email",
    "h11",
    "h2",
    "hpack",
    "httpx",
    "hypercorn.protocol",
    "hypercorn.trio",
    "rewound.journal.repair",
    "jwt",
    "prometheus_client",
    "pydantic",
    "pydantic_core",
    "re2",
    "trio_websocket",
    "wsproto",
    "yaml",
    "rewound.server.standby",
    "rewound.actors.bootstrap.serving",
    "rewound.actors.etcd",
    "rewound.actors.store.etcd",
    "rewound.cluster",
    "rewound.journal.backup",
    "rewound.journal.copy",
    "rewound.journal.stream",
)


# What the settings do not need.
NOT_BEFORE_THE_FLAGS = (
    "hypercorn",
    "rewound.actors.kinds.core",
    "rewound.actors.resource",
    "rewound.server.run",
    "lmdb",
    "trio",
)


def test_start_without_flags_imports_nothing_that_only_flags_and_rare_requests_need(tmp_path: Path) -> None:
    arguments = [f"--data-dir={tmp_path}", f"--secure-port={reserve_port()}"]
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], check=True, capture_output=True, text=True, timeout=60
    )
    imported = run.stdout.split()
    assert "rewound.server.run" in imported
    assert [name for name in imported if _is_below(name, NOT_AT_THE_START)] == []


def test_flags_are_parsed_before_the_event_loop_is_imported() -> None:
    """The child that creates certificates starts when the flags are known, and works while this process imports the
    rest.
    """
    program = (
        "import sys; from rewound.cli.serve import parse_flags; parse_flags(['--secure-port=6443'])\n"
        "print(*sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    imported = run.stdout.split()
    assert "rewound.gateway.settings.settings" in imported
    assert [name for name in imported if _is_below(name, NOT_BEFORE_THE_FLAGS)] == []


def test_commands_about_a_data_folder_import_no_event_loop(tmp_path: Path) -> None:
    Journal.open(tmp_path / "journal").close()
    program = (
        "import sys; from rewound.cli.main import main\n"
        f"assert main(['journal', 'log', '--data-dir', {str(tmp_path)!r}]) == 0\n"
        f"assert main(['journal', 'state', '--data-dir', {str(tmp_path)!r}]) == 0\n"
        "sys.exit('trio was imported' if 'trio' in sys.modules else None)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=120)


def _is_below(name: str, modules: tuple[str, ...]) -> bool:
    return any(name == module or name.startswith(module + ".") for module in modules)
