"""Flags that name unusable files: the start is refused in one line with the flag and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.cli.main import main

AUTHORITIES = {
    "--client-ca-file": (),
    "--oidc-ca-file": ("--oidc-issuer-url=https://idp.example", "--oidc-client-id=rewound"),
    "--requestheader-client-ca-file": ("--requestheader-username-headers=X-Remote-User",),
}


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe\x00"], ids=["empty", "text", "binary"])
@pytest.mark.parametrize("flag", AUTHORITIES)
def test_file_without_certificates_is_refused(
    flag: str, content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal([f"{flag}={unusable(tmp_path, content)}", *AUTHORITIES[flag]], tmp_path, capsys)
    assert line.startswith(f"rewound: {flag}: ")
    assert line.endswith("contains no certificate in PEM form; give a file that does")


def test_serving_certificate_of_junk_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = unusable(tmp_path, b"\xff\xfe\x00")
    line = refusal([f"--tls-cert-file={path}", f"--tls-private-key-file={path}"], tmp_path, capsys)
    assert line.startswith("rewound: --tls-cert-file: ")
    assert "both must be PEM files" in line


@pytest.mark.parametrize("content", [b"nonsense\n", b"\xff\xfe\x00"], ids=["text", "binary"])
def test_unusable_token_file_is_refused(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refusal([f"--token-auth-file={unusable(tmp_path, content)}"], tmp_path, capsys)
    assert line.startswith("rewound: --token-auth-file: ")


def unusable(folder: Path, content: bytes) -> Path:
    path = folder / "file"
    path.write_bytes(content)
    return path


def refusal(arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    data = folder / "data"
    code = main(["serve", f"--data-dir={data}", "--secure-port=0", "--insecure-port=1", *arguments])
    (line,) = capsys.readouterr().err.splitlines()
    assert code in (1, 2)
    assert not data.exists()
    return line


def test_unusable_configuration_of_the_scheduler_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,alice,1\n")
    path = unusable(tmp_path, b"kind: KubeSchedulerConfiguration\n")
    flags = [f"--token-auth-file={tokens}", "--controllers=*", f"--scheduler-config={path}"]
    line = refusal(flags, tmp_path, capsys)
    assert line.startswith(f"rewound: --scheduler-config: {path}: apiVersion: must be ")
