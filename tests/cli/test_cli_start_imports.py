"""A start without flags imports only the modules that it needs: every further one delays it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rewound.journal import Journal
from rewound.testing.fixture.rewound import Rewound
from tests.ports import reserve_port

# Serves, reports the modules and our dataclasses at the moment when the server is ready, and stops.
PROGRAM = """
import os, signal, sys
import trio
from rewound.server.flags.parser import parse_flags
from rewound.server.process import serve_until_signal
from rewound.testing.controlled import WITH_CONTROLS

def announce(addresses):
    print(*sys.modules)
    found = [
        f"{one.__module__}.{one.__name__}"
        for name, module in sys.modules.items()
        if name.startswith("rewound.")
        for one in vars(module).values()
        if isinstance(one, type) and one.__module__ == name and "__dataclass_fields__" in vars(one)
    ]
    print(*found, flush=True)
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


# Making a dataclass takes a millisecond, and a record of msgspec a fiftieth of it (0096). These have what such records
# lack: fields that the text of an object leaves out or no caller gives, cached properties, metadata of fields, and
# (the settings) the functions of `dataclasses` that list fields.
DATACLASSES_AT_THE_START = (
    "rewound.actors.access.accounts.keys",
    "rewound.actors.access.accounts.tokens",
    "rewound.actors.access.authorize.Decision",
    "rewound.actors.access.bootstrap_token",
    "rewound.actors.access.remote.kubeconfig_file.User",
    "rewound.actors.access.remote.target.Target",
    "rewound.actors.certificates.signing.Authority",
    "rewound.actors.controllers.options",
    "rewound.actors.kinds.declaration.definition.Definition",
    "rewound.actors.profile",
    "rewound.actors.resource.token_requests.Issued",
    "rewound.actors.selectors.fields.FieldSelector",
    "rewound.gateway.message",
    "rewound.gateway.outgoing.webhook",
    "rewound.gateway.pipeline.services.PipelineServices",
    "rewound.gateway.settings",
)
# What the child that creates certificates does not need.
NOT_FOR_CERTIFICATES = ("msgspec", "rewound.actors.identity", "rewound.actors.names", "trio")


# What only a data folder, a server or a rare option needs, but no command that reads a server.
NOT_IN_COMMANDS = (
    "cryptography",
    "difflib",
    "hypercorn",
    "jsonpatch",
    "lmdb",
    "pydantic",
    "pydantic_core",
    "rewound.actors.cel",
    "rewound.actors.kinds.core",
    "rewound.actors.kinds.declaration.definition",
    "rewound.actors.messages",
    "rewound.actors.rewind.blame",
    "rewound.actors.rewind.documents",
    "rewound.actors.versions.features",
    "rewound.client.exec",
    "rewound.client.oidc",
    "rewound.journal.environment",
    "rewound.journal.log",
    "rewound.recording.query.folder",
    "rewound.recording.query.folder_source",
    "rewound.server.process",
    "secrets",
    "trio",
)
# `why` decides again what the scheduler decided, with rules of pods and nodes, but not with their declarations.
NOT_IN_WHY = (
    "hypercorn",
    "lmdb",
    "rewound.actors.kinds.core.pod",
    "rewound.actors.kinds.declaration.definition",
    "rewound.recording.query.folder_source",
    "trio",
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
    imported, dataclasses = (line.split() for line in run.stdout.splitlines()[:2])
    assert "rewound.server.run" in imported
    assert [name for name in imported if _is_below(name, NOT_AT_THE_START)] == []
    assert "rewound.actors.profile.Rules" in dataclasses
    assert [name for name in dataclasses if not _is_below(name, DATACLASSES_AT_THE_START)] == []


def test_child_that_creates_certificates_imports_little_besides_their_library() -> None:
    imported = _imported_by(
        "import sys, rewound.actors.certificates.issue\nprint(*sys.modules, file=sys.stderr)"
    )
    assert "cryptography.x509" in imported
    assert [name for name in imported if _is_below(name, NOT_FOR_CERTIFICATES)] == []


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


def test_commands_that_read_a_server_import_neither_a_journal_nor_kinds(rewound: Rewound) -> None:
    commands = [
        ["log", "--limit", "1"],
        ["history", "namespace/default"],
        ["blame", "namespace/default"],
        ["show", "1"],
    ]
    program = (
        "import sys; from rewound.cli.main import main\n"
        f"for command in {commands}:\n"
        f"    assert main([*command, '--kubeconfig', {str(rewound.kubeconfig)!r}]) == 0\n"
        "assert main(['list']) == 0\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    assert [name for name in _imported_by(program) if _is_below(name, NOT_IN_COMMANDS)] == []


def test_why_imports_no_declarations() -> None:
    program = "import sys, rewound.cli.journal.commands, rewound.cli.journal.why\nprint(*sys.modules, file=sys.stderr)"
    assert [name for name in _imported_by(program) if _is_below(name, NOT_IN_WHY)] == []


def _imported_by(program: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    return run.stderr.split()


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
