"""The flags of the authenticating proxy: what they mean, and which combinations are refused at the start."""

from __future__ import annotations

import pytest

from rewound.actors.access.authentication.authenticate import RequestHeaders
from rewound.gateway.settings.checks import SettingsError
from rewound.server.flags.parser import parse_flags
from tests.cases import cases
from tests.issuers import issuer

USER = "--requestheader-username-headers=X-Remote-User"


def authority() -> str:
    return f"--requestheader-client-ca-file={issuer('proxies').file}"


def test_flags_become_header_names() -> None:
    settings, _ = parse_flags(
        [
            authority(),
            "--requestheader-username-headers=X-Remote-User,X-Other",
            "--requestheader-username-headers=X-Third",
            "--requestheader-group-headers",
            "X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            '--requestheader-allowed-names=front,"a, b"',
        ]
    )
    assert settings.request_headers.headers == RequestHeaders(
        (b"x-remote-user", b"x-other", b"x-third"),
        (b"x-remote-group",),
        (b"x-remote-extra-",),
        frozenset({"front", "a, b"}),
    )


def test_without_flags_there_is_no_proxy() -> None:
    assert parse_flags([])[0].request_headers.headers is None


@cases(
    ("flags", "flag", "said"),
    [
        ([USER], "--requestheader-username-headers", "needs the CA of the proxy"),
        (["--requestheader-group-headers=X-G"], "--requestheader-group-headers", "needs the CA"),
        (["--requestheader-extra-headers-prefix=X-"], "--requestheader-extra-headers-prefix", "needs the CA"),
        (["--requestheader-allowed-names=front"], "--requestheader-allowed-names", "needs the CA"),
        (["CA"], "--requestheader-client-ca-file", "needs the header of the user name"),
        (
            ["CA", USER, "--secure-port=0", "--insecure-port=8080"],
            "--requestheader-client-ca-file",
            "secure port",
        ),
        (
            ["--requestheader-client-ca-file=/nowhere", USER],
            "--requestheader-client-ca-file",
            "no file /nowhere",
        ),
        (
            ["CA", "--requestheader-username-headers=X User"],
            "--requestheader-username-headers",
            "'X User' is not",
        ),
        (["CA", "--requestheader-username-headers=X-User,"], "--requestheader-username-headers", "'' is not"),
        (
            ["CA", USER, "--requestheader-extra-headers-prefix="],
            "--requestheader-extra-headers-prefix",
            "'' is",
        ),
        (["CA", USER, "--requestheader-group-headers=a:b"], "--requestheader-group-headers", "'a:b' is not"),
        (
            ["CA", "--requestheader-username-headers=Authorization"],
            "--requestheader-username-headers",
            "another",
        ),
        (
            ["CA", USER, "--requestheader-group-headers=Impersonate-Group"],
            "--requestheader-group-headers",
            "ano",
        ),
        (["CA", USER, "--requestheader-allowed-names=a,"], "--requestheader-allowed-names", "an empty name"),
        (["CA", USER, '--requestheader-allowed-names="a'], "--requestheader-allowed-names", "cannot be read"),
    ],
)
def test_incomplete_or_wrong_flags_are_refused(flags: list[str], flag: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_flags([authority() if one == "CA" else one for one in flags])
    assert refused.value.flag == flag
    assert said in str(refused.value)
