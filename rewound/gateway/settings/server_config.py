"""The file of --server-config: keys of Hypercorn's configuration for which there is no flag.

One table has every key of Hypercorn 0.18: it is used (and its value checked), used only with Hypercorn's protocols
(--transport asgi), replaced by a flag, or refused because it would have no effect. No key is silently ignored.
docs/operations.md has the tables for operators; `gateway.connections.config` builds Hypercorn's configuration from
the keys that are used.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from os import dup
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from rewound.gateway.settings.checks import SettingsError, check_file

Address = tuple[str, int]

FLAG: Final = "--server-config"
_BINDS: Final = ("bind", "insecure_bind")
_UNIX_KEYS: Final = ("user", "group", "umask")
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_PROTOCOLS: Final = ("h2", "http/1.1")


def _count(value: object) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return "" if whole and value > 0 else "must be a whole number greater than 0"  # type: ignore[operator]


def _frame_size(value: object) -> str:
    known = not _count(value) and 1 << 14 <= value < 1 << 24  # type: ignore[operator]
    return "" if known else f"must be a whole number from {1 << 14} to {(1 << 24) - 1}"


def _id(value: object) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return "" if whole and value >= 0 else "must be a whole number"  # type: ignore[operator]


def _seconds(value: object) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return "" if number and 0 < value < float("inf") else "must be a number of seconds greater than 0"  # type: ignore[operator]


def _text(value: object) -> str:
    return "" if isinstance(value, str) and value else "must be a non-empty string"


def _table(value: object) -> str:
    return "" if isinstance(value, dict) and value else "must be a table for logging.config.dictConfig"


def _level(value: object) -> str:
    known = isinstance(value, str) and value.upper() in _LEVELS
    return "" if known else f"must be one of {' | '.join(_LEVELS)}"


def _ciphers(value: object) -> str:
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(value)  # type: ignore[arg-type]
    except (ssl.SSLError, TypeError):
        return "must be a list of ciphers for TLS 1.2 as OpenSSL writes it, such as ECDHE+AESGCM"
    return ""


def _alpn(value: object) -> str:
    known = isinstance(value, list) and value and all(one in _PROTOCOLS for one in value)
    return "" if known else "must be a list of h2 and http/1.1"


def _verify_mode(value: object) -> str:
    if value in (1, 2) and not isinstance(value, bool):
        return ""
    return "must be 1 (ssl.CERT_OPTIONAL, the default) or 2 (ssl.CERT_REQUIRED): certificates are a way to sign in"


def _binds(value: object) -> str:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        return (
            "must be an address such as 127.0.0.1:6443, unix:/run/rewound.sock or fd://3, or a list of these"
        )
    return next((f"{one}: {why}" for one in value if (why := _bind(one))), "")


def _bind(bind: str) -> str:
    if bind.startswith("unix:"):
        return "" if bind != "unix:" else "needs a path, such as unix:/run/rewound.sock"
    if bind.startswith("fd://"):
        return _inherited(bind)
    host, _, port = bind.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) < 65536):
        return "needs a host and a port, such as 127.0.0.1:6443 or [::1]:6443"
    return ""


def _inherited(bind: str) -> str:
    try:
        with _socket_of(bind) as sock:
            if sock.type == socket.SOCK_STREAM and sock.family in (
                socket.AF_INET,
                socket.AF_INET6,
                socket.AF_UNIX,
            ):
                return ""
    except (ValueError, OSError):
        pass
    return "is not a stream socket that this process inherited; systemd begins with fd://3"


def _socket_of(bind: str) -> socket.socket:
    """The socket of a bind fd://N: a duplicate, so that closing it leaves the inherited one open."""
    return socket.socket(fileno=dup(int(bind.removeprefix("fd://"))))


def host_and_port(host: str, port: int) -> str:
    """Split host and port, written as in a URL or a bind."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


QUIC = "quic:"  # prefix of an HTTP/3 bind in messages: it may have the same port as another bind


def bound_address(bind: str) -> Address | None:
    """The host and port of a bind; None for a Unix socket."""
    if bind.startswith("unix:"):
        return None
    if bind.startswith("fd://"):
        with _socket_of(bind) as sock:
            name = sock.getsockname()
            return None if sock.family == socket.AF_UNIX else (name[0], name[1])
    host, _, port = bind.rpartition(":")
    return host.strip("[]"), int(port)


USED: Final[Mapping[str, Callable[[object], str]]] = {
    "bind": _binds,
    "insecure_bind": _binds,
    "backlog": _count,
    "user": _id,
    "group": _id,
    "umask": _id,
    "ciphers": _ciphers,
    "alpn_protocols": _alpn,
    "verify_mode": _verify_mode,
    "ssl_handshake_timeout": _seconds,
    "keep_alive_timeout": _seconds,
    "graceful_timeout": _seconds,
    "h11_max_incomplete_size": _count,
    "h2_max_header_list_size": _count,
    "errorlog": _text,
    "loglevel": _level,
    "logconfig": _text,
    "logconfig_dict": _table,
    "pid_path": _text,
}

# Used only with --transport asgi, whose protocols are Hypercorn's.
ASGI: Final[Mapping[str, Callable[[object], str]]] = {
    "h2_max_inbound_frame_size": _frame_size,
    "max_app_queue_size": _count,
}

# Keys with a flag, which is the only way to set them.
FLAGS: Final[Mapping[str, str]] = {
    "certfile": "--tls-cert-file",
    "keyfile": "--tls-private-key-file",
    "ca_certs": "--client-ca-file",
    "workers": "--workers",
    "quic_bind": "--quic-bind, with --transport asgi",
    "h2_max_concurrent_streams": "--http2-max-streams-per-connection",
    "accesslog": "--audit-log-path, with a policy in --audit-policy-file",
    "access_log_format": "--audit-log-format",
}

_ONE_PROCESS: Final = (
    "processes are replaced when they end, and on SIGHUP with --workers; for no other reason"
)
_WEBSOCKETS: Final = (
    "clients of WebSocket watches send nothing but control frames, which have limits of their own"
)
_NO_APPLICATION: Final = "it is about loading an application; the API is the only one"
_EXACT: Final = "responses have the header fields that Kubernetes sends: a date, and no name of the server"
_METRICS: Final = "figures are at /metrics"

REFUSED: Final[Mapping[str, str]] = {
    "alt_svc_headers": "--quic-bind announces HTTP/3 by itself",
    "keyfile_password": "keys with a password are not read; store one without, readable by this user only",
    "verify_flags": "client certificates are verified as Kubernetes verifies them",
    "cert_reqs": "it is the old name of verify_mode; give that",
    "read_timeout": "requests have limits of their own: 32 s for a head, and a least rate for a body",
    "keep_alive_max_requests": "connections do not end after a number of requests: watches would end with them",
    "max_requests": _ONE_PROCESS,
    "max_requests_jitter": _ONE_PROCESS,
    "worker_class": "the server runs on trio",
    "use_reloader": _ONE_PROCESS,
    "daemon": _ONE_PROCESS,
    "debug": 'the server has no debug mode; give loglevel = "DEBUG" for a longer log',
    "application_path": _NO_APPLICATION,
    "wsgi_max_body_size": _NO_APPLICATION,
    "root_path": _NO_APPLICATION,
    "startup_timeout": _NO_APPLICATION,
    "shutdown_timeout": "graceful_timeout says how long running requests may take",
    "h11_pass_raw_headers": "names of header fields are compared in lower case",
    "websocket_max_message_size": _WEBSOCKETS,
    "websocket_ping_interval": _WEBSOCKETS,
    "server_names": "requests are served whatever their Host is, as Kubernetes serves them",
    "include_date_header": _EXACT,
    "include_server_header": _EXACT,
    "logger_class": "the log is that of Python's logging; give logconfig or logconfig_dict",
    "statsd_host": _METRICS,
    "statsd_prefix": _METRICS,
    "dogstatsd_tags": _METRICS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    server_config: Path | None = None
    keys: Mapping[str, Any] = field(init=False, repr=False, compare=False)  # keys of the file

    def __post_init__(self) -> None:
        keys: Mapping[str, Any] = {}
        if self.server_config is not None:
            check_file(FLAG, self.server_config)
            keys = _checked(self.server_config, _read(self.server_config))
        object.__setattr__(self, "keys", keys)

    def binds(self, key: str) -> tuple[str, ...] | None:
        """The binds of the file; None if it does not have the key."""
        return tuple(self.keys[key]) if key in self.keys else None

    def refuse_for_native(self) -> None:
        """Refuse keys for Hypercorn's protocols in a server that uses its own."""
        for key in ASGI.keys() & self.keys.keys():
            raise self.refuse(key, "needs --transport asgi; the native transport has protocols of its own")

    def refuse(self, key: str, why: str) -> SettingsError:
        assert self.server_config is not None, "there are no keys without a file"
        return _refused(self.server_config, key, why)


def _refused(path: Path, key: str, why: str) -> SettingsError:
    return SettingsError(FLAG, f"{path}: {key}: {why}")


def _read(path: Path) -> dict[str, Any]:
    """The keys of a TOML or Python file, as Hypercorn reads them."""
    from hypercorn.config import Config

    class Keys(Config):
        """Collects what a file sets: Hypercorn's Config would silently accept unknown keys."""

        def __setattr__(self, key: str, value: Any) -> None:
            vars(self)[key] = value

    python = path.suffix == ".py"
    try:
        found = vars(Keys.from_pyfile(path) if python else Keys.from_toml(path))
    except OSError as error:
        raise SettingsError(FLAG, f"cannot read {path}: {error.strerror}; check its permissions") from None
    except Exception as error:
        kind = "run" if python else "read as TOML (a Python file ends in .py)"
        raise SettingsError(FLAG, f"{path} cannot be {kind}: {type(error).__name__}: {error}") from None
    return {key: value for key, value in found.items() if not python or not _is_helper(key, value)}


def _is_helper(key: str, value: object) -> bool:
    """Whether a name in a Python file is only a helper of the file itself."""
    if key in USED or key in ASGI or key in FLAGS or key in REFUSED:
        return False
    functions = (type, FunctionType, BuiltinFunctionType)
    return key.startswith("_") or isinstance(value, functions) or type(value).__module__ == "__future__"


def _checked(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for key, value in found.items():
        if key in _BINDS and isinstance(value, str):
            value = [value]
        why = _problem(path, key, value)
        if why:
            raise _refused(path, key, why)
        keys[key] = value
    _check_unix_keys(path, keys)
    for bind in keys.get("insecure_bind", ()):
        if not _is_local(bind):
            raise _refused(
                path,
                "insecure_bind",
                f"{bind} is not a loopback address; others could read tokens in transit",
            )
    return keys


def _problem(path: Path, key: str, value: object) -> str:
    if key in USED or key in ASGI:
        return (USED.get(key) or ASGI[key])(value)
    if key in FLAGS:
        return f"has a flag here; give {FLAGS[key]}, and leave it out of the file"
    if key in REFUSED:
        return f"has no effect here: {REFUSED[key]}; leave it out"
    import difflib

    near = difflib.get_close_matches(key, USED, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    private = "; names of a Python file's own begin with _" if path.suffix == ".py" else ""
    return f"is not a key of Hypercorn's configuration; {meant}docs/operations.md lists them{private}"


def _check_unix_keys(path: Path, keys: Mapping[str, Any]) -> None:
    """Refuse keys for the owner and mode of Unix sockets if there are none."""
    unix = any(bind.startswith("unix:") for key in _BINDS for bind in keys.get(key, ()))
    for key in _UNIX_KEYS:
        if key in keys and not unix:
            raise _refused(
                path, key, "has no effect without a Unix socket in bind or insecure_bind; leave it out"
            )
    for key, other in (("user", "group"), ("group", "user")):
        if key in keys and other not in keys:
            raise _refused(path, key, f"has no effect without {other}; add it or leave this out")


def _is_local(bind: str) -> bool:
    address = bound_address(bind)
    if address is None or address[0] == "localhost":
        return True
    try:
        return ip_address(address[0]).is_loopback
    except ValueError:
        return False
