"""`rewound kubeconfig`: write a kubeconfig file for a user or service account.

    rewound kubeconfig user alice --group devs      a client certificate, signed through the API
    rewound kubeconfig user alice --data-dir F      the same, signed with the CA of a data folder
    rewound kubeconfig account [NAMESPACE/]NAME     a token of a service account
    rewound kubeconfig token NAME --from-file FILE  a token that you have; - reads standard input

The file (NAME.kubeconfig unless --out names another; - is standard output) has the server of your own kubeconfig
file, and only its owner can read it.
"""

from __future__ import annotations

import argparse
import base64
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewound.cli.access.certificate import decide, requests_path
from rewound.cli.access.flags import Options, Parser, account, add_connection, open_session
from rewound.cli.access.token import add_request, request_token
from rewound.client.errors import UsageError

if TYPE_CHECKING:
    from rewound.client.credentials import KeyPair
    from rewound.client.session import Session
    from rewound.client.target import Target

_YEAR = 365 * 86400.0
_SIGNING_SECONDS = 30.0
_POLL_SECONDS = 0.1


def add_flags(parser: Parser) -> None:
    parser.add_argument("kind", choices=("user", "account", "token"))
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--out", type=Path, metavar="FILE", help="(default NAME.kubeconfig; - prints it)")
    # Its names in earlier releases; in other commands they are the form of the output.
    parser.add_argument(
        "-o", "--output", dest="out", type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")
    user = parser.add_argument_group("user")
    user.add_argument("--group", action="append", default=[], metavar="GROUP", help="may be repeated")
    user.add_argument("--data-dir", type=Path, metavar="FOLDER", help="sign with the CA of this data folder")
    request = parser.add_argument_group("user and account")
    add_request(request)
    token = parser.add_argument_group("token")
    token.add_argument("--from-file", type=Path, metavar="FILE", help="the token; - reads standard input")
    add_connection(parser)


def run(options: Options) -> int:
    from rewound.client.new_kubeconfig import kubeconfig_text, with_certificate, write

    _check(options)
    if options.data_dir is not None and options.kubeconfig is None and not options.server:
        options.kubeconfig = options.data_dir / "admin.kubeconfig"
    with open_session(options) as session:
        target, name, namespace = session.target, options.name, options.namespace
        if options.kind == "user":
            _check_tls(target)
            credential = with_certificate(_signed(session, options))
        elif options.kind == "account":
            namespace, name = account(name, target.namespace)
            credential = {"token": request_token(session, namespace, name, options)}
        else:
            credential = {"token": _read_token(options.from_file)}
    text = kubeconfig_text(target, name, credential, namespace)
    write(options.out or Path(f"{name.replace('/', '-')}.kubeconfig"), text, force=options.force)
    return 0


def _check(options: Options) -> None:
    wrong = {
        "user": (("--from-file", options.from_file), ("--audience", options.audience)),
        "account": (
            ("--from-file", options.from_file),
            ("--group", options.group),
            ("--data-dir", options.data_dir),
        ),
        "token": (
            ("--group", options.group),
            ("--data-dir", options.data_dir),
            ("--duration", options.duration),
        ),
    }
    for flag, value in wrong[options.kind]:
        if value:
            raise UsageError(f"{flag} has no meaning for `rewound kubeconfig {options.kind}`; leave it out")
    if options.kind == "token" and options.from_file is None:
        raise UsageError("--from-file is missing: name the file that has the token, or - for standard input")


def _check_tls(target: Target) -> None:
    from rewound.client.errors import ClientError

    if target.server.startswith("http:"):
        raise ClientError(
            f"{target.server} has no TLS, and certificates sign in by TLS only; give the https address with --server, "
            "or use `rewound kubeconfig account`"
        )


def _signed(session: Session, options: Options) -> KeyPair:
    from rewound.client.certificates import sign_with_data_folder

    if options.data_dir is not None:
        seconds = _YEAR if options.duration is None else options.duration
        return sign_with_data_folder(options.data_dir, options.name, options.group, seconds)
    return _signed_by_the_api(session, options)


def _signed_by_the_api(session: Session, options: Options) -> KeyPair:
    """Create a request, approve it, wait for the signer, and delete the request."""
    from rewound.client.certificates import make_request
    from rewound.client.credentials import KeyPair
    from rewound.client.discovery import Discovery
    from rewound.client.errors import ClientError

    request = make_request(options.name, options.group)
    names = Discovery(session).names()
    spec: dict[str, Any] = {
        "request": base64.b64encode(request.pem).decode(),
        "signerName": names.client_signer,
        "usages": ["client auth", "digital signature"],
    }
    if options.duration is not None:
        spec["expirationSeconds"] = int(options.duration)
    path = requests_path(session)
    body = {
        "apiVersion": f"{names.group('certificates')}/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "rewound-kubeconfig-"},
        "spec": spec,
    }
    path += f"/{session.post(path, body)['metadata']['name']}"
    try:
        decide(session, path, "Approved", "By rewound kubeconfig user.")
        certificate = _await_certificate(session, path)
    finally:
        _delete(session, path)
    if certificate is None:
        raise ClientError(
            f"the certificate was approved but not signed within {_SIGNING_SECONDS:.0f} seconds; does the signer run "
            "(--controllers of the server)? With the data folder at hand: --data-dir"
        )
    return KeyPair(certificate, request.key)


def _await_certificate(session: Session, path: str) -> bytes | None:
    deadline = time.monotonic() + _SIGNING_SECONDS
    while True:
        found = (session.get(path).get("status") or {}).get("certificate")
        if found:
            return base64.b64decode(found)
        if time.monotonic() > deadline:
            return None
        time.sleep(_POLL_SECONDS)


def _delete(session: Session, path: str) -> None:
    from rewound.client.errors import ClientError

    try:
        session.delete(path)
    except ClientError as error:
        print(f"rewound: the request {path.rpartition('/')[2]} stays: {error}", file=sys.stderr)


def _read_token(path: Path) -> str:
    from rewound.client.errors import ClientError

    try:
        token = (sys.stdin.read() if str(path) == "-" else path.read_text("ascii")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ClientError(f"--from-file: {path} cannot be read; name a file with a token in it") from error
    if not token or any(character.isspace() for character in token):
        raise ClientError(f"--from-file: {path} has no token in it")
    return token
