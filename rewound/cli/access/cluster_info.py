"""`rewound cluster-info verify`: whether cluster-info comes from the cluster, by a bootstrap token.

    rewound cluster-info verify --server https://HOST:6443 --bootstrap-token-file FILE
    rewound cluster-info verify --file cluster-info.yaml --bootstrap-token ID.SECRET --out cluster.kubeconfig

Reads cluster-info anonymously, or from a file, and verifies its signature (HS256 only). From a server it is read a
second time, now trusting nothing but the CA that cluster-info names. Prints server and CA; --out keeps the
kubeconfig.
"""

from __future__ import annotations

import argparse
import hashlib
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from rewound.cli.access.flags import Options, Parser
from rewound.client.errors import UsageError

if TYPE_CHECKING:
    from rewound.actors.access.remote.kubeconfig_file import Cluster


def add_flags(parser: Parser) -> None:
    parser.add_argument("action", choices=("verify",))
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("-s", "--server", default="", metavar="URL", help="read it from this server")
    source.add_argument("--file", type=Path, metavar="FILE", help="read the ConfigMap from this file")
    token = parser.add_mutually_exclusive_group(required=True)
    token.add_argument("--bootstrap-token", default="", metavar="ID.SECRET")
    token.add_argument("--bootstrap-token-file", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the kubeconfig here; - prints it")
    # Its names in earlier releases; in other commands they are the form of the output.
    parser.add_argument(
        "-o", "--output", dest="out", type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )
    parser.add_argument("--force", action="store_true", help="replace the file if it exists")


def run(options: Options) -> int:
    from rewound.client.cluster_info import cluster_of, fetch, parse_file, verified_kubeconfig
    from rewound.client.errors import ClientError
    from rewound.client.new_kubeconfig import write
    from rewound.client.target import without_credentials

    token = _token(options)
    info = parse_file(options.file) if options.file else fetch(options.server, None)
    content = verified_kubeconfig(info, token)
    cluster = cluster_of(content)
    if options.server and fetch(options.server, _pem(cluster))["kubeconfig"] != content:
        server = without_credentials(options.server)
        raise ClientError(f"{server} shows another cluster-info over a verified connection; do not trust it")
    if options.out is not None:
        write(options.out, content, force=options.force)
    if str(options.out) != "-":
        print(f"verified: signed with the token {token.partition('.')[0]}")
        print(f"server:   {cluster.server}")
        print(f"CA:       sha256:{_fingerprint(_pem(cluster))}")
    return 0


def _token(options: Options) -> str:
    from rewound.actors.access.bootstrap_token import parse_token

    token = _given_token(options)
    if parse_token(token.encode()) is None:
        flag = "--bootstrap-token" if options.bootstrap_token_file is None else "--bootstrap-token-file"
        raise UsageError(f"{flag}: does not have the form <id>.<secret>: 6 and 16 of a-z and 0-9")
    return token


def _given_token(options: Options) -> str:
    if options.bootstrap_token_file is None:
        return str(options.bootstrap_token)
    try:
        return str(options.bootstrap_token_file.read_text("ascii").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--bootstrap-token-file: {options.bootstrap_token_file} cannot be read") from error


def _pem(cluster: Cluster) -> bytes:
    assert isinstance(cluster.authority, bytes)
    return cluster.authority


def _fingerprint(authority: bytes) -> str:
    from rewound.client.errors import ClientError

    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(authority.decode("ascii").strip())).hexdigest()
    except ValueError as error:
        raise ClientError(
            "cluster-info: certificate-authority-data is not a certificate in PEM form"
        ) from error
