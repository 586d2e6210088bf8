"""--server-config: which keys of Hypercorn's configuration the server uses, and its errors for all others."""

from __future__ import annotations

import logging
import os
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from hypercorn.config import Config

from rewound.gateway.connections.config import ServerConfig, server_config
from rewound.gateway.connections.limits import Limits
from rewound.gateway.connections.unauthenticated import WorkShares
from rewound.gateway.settings.checks import SettingsError
from rewound.gateway.settings.server_config import ASGI, FLAGS, REFUSED, USED, ServerSettings
from rewound.gateway.settings.settings import Settings
from rewound.server.flags.parser import parse_flags
from rewound.server.logs import configure_logging
from rewound.server.process import write_pid_file
from tests.cases import cases
from tests.gateway.api import served
from tests.gateway.connections.http_server import Client
from tests.gateway.processes import COMMAND

ROOT = Path(__file__).parents[3]


def settings_of(path: Path, text: str, *flags: str) -> Settings:
    path.write_text(text)
    return parse_flags([f"--server-config={path}", *flags])[0]


def refusal(path: Path, text: str, *flags: str) -> str:
    with pytest.raises(SettingsError) as refused:
        settings_of(path, text, *flags)
    assert str(refused.value).startswith("--server-config: ")
    return str(refused.value).removeprefix("--server-config: ").replace(str(path), "FILE")


def test_every_key_of_hypercorn_is_in_one_table_and_in_the_docs() -> None:
    """Fails with a release of Hypercorn that has other keys."""
    ours = (*USED, *ASGI, *FLAGS, *REFUSED)
    theirs = {
        *(key for key in vars(Config) if not key.startswith("_") and not callable(getattr(Config, key))),
        *("logger_class", "application_path"),  # a class, and one that has no value
    }
    assert sorted(ours) == sorted(theirs - {"log", "ssl_enabled"})  # which follow from others
    documented = (ROOT / "docs" / "operations.md").read_text()
    assert [key for key in ours if f"`{key}`" not in documented] == []


@cases(
    ("text", "why"),
    [
        ("baklog = 5", "FILE: baklog: is not a key of Hypercorn's configuration; did you mean backlog? "),
        (
            "[ssl]\nx = 1",
            "FILE: ssl: is not a key of Hypercorn's configuration; docs/operations.md lists them",
        ),
        ("_bind = 'x'", "FILE: _bind: is not a key of Hypercorn's configuration; "),
        ("keyfile = 'x'", "FILE: keyfile: has a flag here; give --tls-private-key-file, and leave it out"),
        ("workers = 4", "FILE: workers: has a flag here; give --workers, and leave it out of the file"),
        ("include_date_header = true", "FILE: include_date_header: has no effect here: responses have the"),
        ("backlog = 0", "FILE: backlog: must be a whole number greater than 0"),
        ("backlog = true", "FILE: backlog: must be a whole number greater than 0"),
        ("backlog = 'x'", "FILE: backlog: must be a whole number greater than 0"),
        ("keep_alive_timeout = inf", "FILE: keep_alive_timeout: must be a number of seconds greater than 0"),
        ("graceful_timeout = '1'", "FILE: graceful_timeout: must be a number of seconds greater than 0"),
        ("ciphers = 'NOTHING'", "FILE: ciphers: must be a list of ciphers for TLS 1.2"),
        ("max_app_queue_size = 1", "FILE: max_app_queue_size: needs --transport asgi"),
        (
            "h2_max_inbound_frame_size = 5",
            "FILE: h2_max_inbound_frame_size: must be a whole number from 16384",
        ),
        ("quic_bind = 'x'", "FILE: quic_bind: has a flag here; give --quic-bind, with --transport asgi"),
        ("ciphers = 1", "FILE: ciphers: must be a list of ciphers for TLS 1.2"),
        ("alpn_protocols = ['h3']", "FILE: alpn_protocols: must be a list of h2 and http/1.1"),
        ("verify_mode = 0", "FILE: verify_mode: must be 1 (ssl.CERT_OPTIONAL, the default) or 2"),
        ("loglevel = 'LOUD'", "FILE: loglevel: must be one of DEBUG | INFO"),
        ("errorlog = ''", "FILE: errorlog: must be a non-empty string"),
        ("logconfig_dict = 'x'", "FILE: logconfig_dict: must be a table"),
        ("bind = []", "FILE: bind: must be an address such as 127.0.0.1:6443"),
        ("bind = [1]", "FILE: bind: must be an address such as 127.0.0.1:6443"),
        ("bind = 'localhost'", "FILE: bind: localhost: needs a host and a port"),
        ("bind = '[::1]:65536'", "FILE: bind: [::1]:65536: needs a host and a port"),
        ("bind = 'unix:'", "FILE: bind: unix:: needs a path"),
        ("bind = 'fd://x'", "FILE: bind: fd://x: is not a stream socket that this process inherited"),
        ("bind = 'fd://987'", "FILE: bind: fd://987: is not a stream socket that this process inherited"),
        ("insecure_bind = '0.0.0.0:80'", "FILE: insecure_bind: 0.0.0.0:80 is not a loopback address"),
        ("insecure_bind = 'example.com:80'", "FILE: insecure_bind: example.com:80 is not a loopback address"),
        ("umask = 7", "FILE: umask: has no effect without a Unix socket"),
        ("bind = 'unix:x'\nuser = 1", "FILE: user: has no effect without group; add it or leave this out"),
        ("= 1", "FILE cannot be read as TOML (a Python file ends in .py): TOMLDecodeError: "),
    ],
)
def test_what_is_wrong_in_a_toml_file_is_named(
    tmp_path_factory: pytest.TempPathFactory, text: str, why: str
) -> None:
    path = tmp_path_factory.mktemp("wrong") / "server.toml"
    assert refusal(path, text).startswith(why)


@cases(
    ("text", "why"),
    [
        ("PORT = 1", "FILE: PORT: is not a key of Hypercorn's configuration; "),
        ("raise KeyError('x')", "FILE cannot be run: KeyError: 'x'"),
        ("bind = ", "FILE cannot be run: SyntaxError: "),
        ("class logger_class: pass", "FILE: logger_class: has no effect here: the log is that of Python's"),
    ],
)
def test_what_is_wrong_in_a_python_file_is_named(
    tmp_path_factory: pytest.TempPathFactory, text: str, why: str
) -> None:
    assert refusal(tmp_path_factory.mktemp("wrong") / "server.py", text).startswith(why)


@cases(
    ("text", "flag"),
    [
        ("bind = '127.0.0.1:7001'", "--secure-port=6443"),
        ("bind = '127.0.0.1:7001'", "--bind-address=127.0.0.1"),
        ("insecure_bind = '127.0.0.1:7001'", "--insecure-port=8080"),
    ],
)
def test_a_flag_and_a_key_that_both_say_where_to_listen_are_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, flag: str
) -> None:
    path = tmp_path_factory.mktemp("both") / "server.toml"
    name = flag.partition("=")[0]
    assert f"says where to listen, and so does {name}" in refusal(path, text, flag)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no file"):
        parse_flags([f"--server-config={tmp_path}/none.toml"])


def test_keys_become_limits_of_the_server(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path / "server.toml",
        "bind = ['127.0.0.1:7001', 'unix:x']\ninsecure_bind = '[::1]:7002'\nbacklog = 5\n"
        "keep_alive_timeout = 7\nssl_handshake_timeout = 3.5\ngraceful_timeout = 9\n"
        "h11_max_incomplete_size = 4096\nh2_max_header_list_size = 8192\n",
        "--http2-max-streams-per-connection=11",
    )
    config = server_config(settings)
    assert (config.bind, config.insecure_bind) == (["127.0.0.1:7001", "unix:x"], ["[::1]:7002"])
    assert (config.backlog, config.graceful_timeout) == (5, 9)
    limits = Limits.configured(config, 3, lambda _: False)
    assert (limits.idle_seconds, limits.handshake_seconds, limits.connections) == (7, 3.5, 3)
    assert (limits.head, limits.target, limits.http2_head, limits.streams) == (4096, 4096, 8192, 11)
    assert settings.secure_hosts == ("127.0.0.1",)


def test_a_python_file_may_have_names_of_its_own(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nimport ssl\nfrom pathlib import Path\n_port = 7001\n"
        "def helper(): return f'127.0.0.1:{_port}'\nbind = helper()\nverify_mode = ssl.CERT_REQUIRED\n"
    )
    settings = settings_of(tmp_path / "server.py", text)
    assert dict(settings.server.keys) == {"bind": ["127.0.0.1:7001"], "verify_mode": ssl.CERT_REQUIRED}


def test_without_a_file_the_flags_say_where_to_listen() -> None:
    config = server_config(parse_flags(["--bind-address=::1", "--insecure-port=8080"])[0])
    assert (config.bind, config.insecure_bind) == (["[::1]:6443"], ["127.0.0.1:8080"])
    plain = server_config(parse_flags(["--secure-port=0", "--insecure-port=8080"])[0])
    assert (plain.bind, plain.insecure_bind) == (["127.0.0.1:8080"], [])
    bare = Limits(connections=1, unauthenticated=WorkShares())  # whose handler authenticates clients
    assert bare == Limits.configured(ServerConfig(), 1, bare.forwards)


@contextmanager
def no_log_handlers() -> Iterator[None]:
    """As in a new process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    try:
        yield
    finally:
        for handler in root.handlers:
            handler.close()
        root.handlers = handlers
        root.setLevel(level)


def test_the_log_goes_where_the_file_says(tmp_path: Path) -> None:
    text = f"errorlog = '{tmp_path}/server.log'\nloglevel = 'warning'\n"
    with no_log_handlers():
        configure_logging(settings_of(tmp_path / "server.toml", text))
        logging.getLogger("rewound.gateway").info("no")
        logging.getLogger("rewound.gateway").warning("a warning")
    assert (tmp_path / "server.log").read_text().endswith(" WARNING rewound.gateway: a warning\n")


def test_a_configuration_of_logging_is_applied(tmp_path: Path) -> None:
    text = (
        "[logconfig_dict]\nversion = 1\ndisable_existing_loggers = false\n"
        f"[logconfig_dict.handlers.file]\nclass = 'logging.FileHandler'\nfilename = '{tmp_path}/own.log'\n"
        "[logconfig_dict.root]\nhandlers = ['file']\n"
    )
    with no_log_handlers():
        configure_logging(settings_of(tmp_path / "server.toml", text))
        logging.getLogger("rewound.gateway").warning("a warning")
    assert (tmp_path / "own.log").read_text() == "a warning\n"


@cases(
    ("text", "why"),
    [
        ("errorlog = '/no/such/folder/log'", "errorlog: /no/such/folder/log: No such file or directory"),
        ("logconfig = '/no/such/file'", "logconfig: Python's logging refuses it: "),
        ("logconfig_dict = {version = 9}", "logconfig_dict: Python's logging refuses it: "),
    ],
)
def test_a_log_that_cannot_be_opened_is_named(
    tmp_path_factory: pytest.TempPathFactory, text: str, why: str
) -> None:
    settings = settings_of(tmp_path_factory.mktemp("log") / "server.toml", text)
    with no_log_handlers(), pytest.raises(SettingsError) as refused:
        configure_logging(settings)
    assert why in str(refused.value)


def test_the_pid_file_is_written_or_refused(tmp_path: Path) -> None:
    write_pid_file(settings_of(tmp_path / "server.toml", f"pid_path = '{tmp_path}/pid'"))
    assert (tmp_path / "pid").read_text() == str(os.getpid())
    with pytest.raises(SettingsError, match="pid_path: /no/such/folder: No such file"):
        write_pid_file(settings_of(tmp_path / "server.toml", "pid_path = '/no/such/folder'"))


def configured(folder: Path, text: str) -> dict[str, Any]:
    (folder / "server.toml").write_text(text)
    return {"server": ServerSettings(server_config=folder / "server.toml"), "insecure_port": 0}


async def test_hypercorns_protocols_are_served_on_unix_sockets_too(tmp_path: Path) -> None:
    text = f"insecure_bind = 'unix:{tmp_path}/plain.sock'\nmax_app_queue_size = 3\n"
    changed = {**configured(tmp_path, text), "transport": "asgi", "secure_port": 0}
    async with served(**changed), await trio.open_unix_socket(f"{tmp_path}/plain.sock") as stream:
        client = Client(stream)
        for _ in range(2):
            assert (await client.get("/version")).status == 200


async def test_a_server_on_unix_sockets_only(tmp_path: Path) -> None:
    """It has no address that pods could reach: so there is no Service of the API, and no kubeconfig."""
    secure, plain = tmp_path / "tls.sock", tmp_path / "plain.sock"
    text = f"bind = 'unix:{secure}'\ninsecure_bind = 'unix:{plain}'\n"
    async with served(**configured(tmp_path, text)) as api:
        assert (api.addresses.secure, api.addresses.insecure, api.addresses.hosts) == (None, None, ())
        assert api.addresses.others == (f"https+unix:{secure}", f"http+unix:{plain}")
        async with await trio.open_unix_socket(str(plain)) as stream:
            client = Client(stream)
            assert (await client.get("/version")).status == 200
            assert (await client.get("/api/v1/namespaces/default/services/kubernetes")).status == 403
        context = ssl.create_default_context(cafile=str(api.settings.pki / "ca.crt"))
        context.load_cert_chain(api.settings.pki / "admin.crt", api.settings.pki / "admin.key")
        stream_tls = trio.SSLStream(
            await trio.open_unix_socket(str(secure)), context, server_hostname="localhost"
        )
        client = Client(stream_tls)
        assert (await client.get("/api/v1/namespaces/default")).status == 200
        assert (await client.get("/api/v1/namespaces/default/services/kubernetes")).status == 404
        await trio.aclose_forcefully(stream_tls)
        assert not api.settings.kubeconfig.exists()


async def test_tls_is_as_the_file_says_on_every_address(tmp_path: Path) -> None:
    """A client without a certificate fails in the handshake; the kubeconfig has the first address."""
    text = "bind = ['127.0.0.1:0', '[::1]:0']\nverify_mode = 2\nalpn_protocols = ['http/1.1']\n"
    async with served(**configured(tmp_path, text)) as api:
        assert api.addresses.secure is not None
        url = f"https://127.0.0.1:{api.addresses.secure[1]}"
        assert url in api.settings.kubeconfig.read_text()
        (other,) = api.addresses.others
        second = other.removeprefix("https://[::1]:")
        context = ssl.create_default_context(cafile=str(api.settings.pki / "ca.crt"))
        context.set_alpn_protocols(["h2", "http/1.1"])
        for host, port in (api.addresses.secure, ("::1", int(second))):
            untrusted = trio.SSLStream(await trio.open_tcp_stream(host, port), context, server_hostname=host)
            with pytest.raises(trio.BrokenResourceError):
                await Client(untrusted).get("/version")
            await trio.aclose_forcefully(untrusted)
        context.load_cert_chain(api.settings.pki / "admin.crt", api.settings.pki / "admin.key")
        for host, port in (api.addresses.secure, ("::1", int(second))):
            admin = trio.SSLStream(await trio.open_tcp_stream(host, port), context, server_hostname=host)
            assert (await Client(admin).get("/api/v1/namespaces/default")).status == 200
            assert admin.selected_alpn_protocol() == "http/1.1"
            await trio.aclose_forcefully(admin)


async def test_an_inherited_socket_is_served_by_the_command(tmp_path: Path) -> None:
    """As systemd passes it: a client that connects before the start waits and is served."""
    with socket.create_server(("127.0.0.1", 0)) as inherited:
        address, number = inherited.getsockname(), inherited.fileno()
        (tmp_path / "server.py").write_text(f"insecure_bind = 'fd://{number}'\n")
        early = await trio.open_tcp_stream(*address)
        process = await trio.lowlevel.open_process(
            [
                *(*COMMAND, "serve", "--secure-port=0", f"--data-dir={tmp_path}/data"),
                f"--server-config={tmp_path}/server.py",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[number],
        )
    try:
        with trio.fail_after(60):
            async with early:
                assert (await Client(early).get("/version")).status == 200
            process.terminate()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
