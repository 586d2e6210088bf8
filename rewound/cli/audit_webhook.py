"""The flags --audit-webhook-* of commands that record: where audit events of API servers arrive, and who may send."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rewound.cli.access.flags import Options, Parser
from rewound.client.errors import Failure, UsageError
from rewound.server.flags.values import port

if TYPE_CHECKING:
    from rewound.recording.record.audit_sink import SinkOptions, SinkStatistics

_FLAGS = (
    "audit_webhook_bind",
    "audit_webhook_name",
    "audit_webhook_cert_file",
    "audit_webhook_key_file",
    "audit_webhook_client_ca_file",
    "audit_webhook_token_file",
)


def add_audit_webhook(parser: Parser) -> None:
    group = parser.add_argument_group(
        "audit webhook",
        "Receive audit events from the API servers over HTTPS. OUT/audit-webhook/config.yaml is what they need as "
        "--audit-webhook-config-file.",
    )
    group.add_argument(
        "--audit-webhook-port", type=port, metavar="PORT", help="receive audit events at this port"
    )
    group.add_argument(
        "--audit-webhook-bind",
        metavar="ADDRESS",
        help="of this address of the machine; 0.0.0.0 or :: for all (default 127.0.0.1)",
    )
    group.add_argument(
        "--audit-webhook-name",
        action="append",
        metavar="NAME",
        help="host name or address by which API servers reach it, the first one in their file (default: the address)",
    )
    group.add_argument(
        "--audit-webhook-cert-file",
        type=Path,
        metavar="FILE",
        help="the serving certificate, with --audit-webhook-key-file (default: one is made, with a CA)",
    )
    group.add_argument(
        "--audit-webhook-key-file", type=Path, metavar="FILE", help="the key of --audit-webhook-cert-file"
    )
    group.add_argument(
        "--audit-webhook-client-ca-file",
        type=Path,
        metavar="FILE",
        help="also take events from senders with a client certificate of this CA",
    )
    group.add_argument(
        "--audit-webhook-token-file",
        type=Path,
        metavar="FILE",
        help="tokens of senders, one in a line (default: one is made)",
    )


def chosen_sink(options: Options) -> SinkOptions | None:
    """The webhook that the flags describe; None without a port. Raises UsageError."""
    given = [name for name in _FLAGS if getattr(options, name)]
    if options.audit_webhook_port is None:
        if given:
            raise UsageError(f"{_flag(given[0])}: has no effect without --audit-webhook-port; give a port")
        return None
    if getattr(options, "audit_log", ""):
        raise UsageError("--audit-log and --audit-webhook-port: give one of them")
    if options.audit_webhook_port > 65535:
        raise UsageError(
            f"--audit-webhook-port: {options.audit_webhook_port} is not a port; give a number up to 65535"
        )
    if bool(options.audit_webhook_cert_file) != bool(options.audit_webhook_key_file):
        raise UsageError("--audit-webhook-cert-file and --audit-webhook-key-file: give both, or none")
    _check_files(options)
    return _sink(options)


def _sink(options: Options) -> SinkOptions:
    from rewound.actors.certificates.names import certificate_name
    from rewound.recording.record.audit_sink import SinkOptions

    names = tuple(options.audit_webhook_name or ())
    for name in names:
        if not certificate_name(name):
            raise UsageError(f"--audit-webhook-name: {name!r} is neither a host name nor an address")
    return SinkOptions(
        options.audit_webhook_port,
        options.audit_webhook_bind or "127.0.0.1",
        names,
        options.audit_webhook_cert_file,
        options.audit_webhook_key_file,
        options.audit_webhook_client_ca_file,
        options.audit_webhook_token_file,
    )


def _check_files(options: Options) -> None:
    for name in _FLAGS:
        path = getattr(options, name)
        if isinstance(path, Path) and not path.is_file():
            raise UsageError(f"{_flag(name)}: there is no file {path}")
    tokens = options.audit_webhook_token_file
    if tokens is not None and not tokens.read_bytes().strip():
        raise UsageError(f"--audit-webhook-token-file: {tokens} has no token; write one in each line")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def listening_error(error: BaseException) -> BaseException:
    """What a command reports if the webhook cannot listen; other errors as they are."""
    from rewound.actors.certificates.pki import CertificateError
    from rewound.gateway.connections.listen import CannotListen

    if isinstance(error, CannotListen):
        return UsageError(f"--audit-webhook-port: {error}; give another port, or --audit-webhook-bind")
    return Failure(f"the audit webhook: {error}") if isinstance(error, CertificateError) else error


def print_sink(found: SinkStatistics) -> None:
    """Print what the webhook received, and what it left out."""
    print(
        f"the audit webhook took {found.events - found.repeated:,} requests in {found.batches:,} batches",
        file=sys.stderr,
    )
    left = {
        "events arrived again": found.repeated,
        "bodies or events could not be read": found.unreadable,
        "requests came from unknown senders": found.unauthenticated,
        "requests were refused": found.refused,
        "requests were put off, because memory or disk was short": found.busy,
    }
    for what, count in left.items():
        if count:
            print(f"{count:,} {what}", file=sys.stderr)
