"""The flags for signing certificates: pairs of files, per signer or for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.actors.names import KUBERNETES
from rewound.gateway.settings.access import SigningSettings
from rewound.gateway.settings.checks import SettingsError
from rewound.server.flags.parser import parse_flags
from tests.actors.certificates.shared_folder import own_certificates


def refusal(*arguments: str) -> str:
    with pytest.raises(SettingsError) as refused:
        parse_flags(arguments)
    return str(refused.value)


@pytest.fixture
def pair() -> tuple[str, str]:
    own = own_certificates("cluster")
    return str(own.authority), str(own.key("ca"))


def test_one_signer_gets_its_own_ca(pair: tuple[str, str]) -> None:
    flags = [
        f"--cluster-signing-kubelet-serving-cert-file={pair[0]}",
        f"--cluster-signing-kubelet-serving-key-file={pair[1]}",
        "--cluster-signing-duration=720h",
    ]
    signing = parse_flags(flags)[0].signing
    (signer, files), *others = signing.files(KUBERNETES).items()
    assert (signer, files.certificate, others) == ("kubernetes.io/kubelet-serving", Path(pair[0]), [])
    assert signing.cluster_signing_duration == 720 * 3600


def test_general_ca_is_for_every_signer(pair: tuple[str, str]) -> None:
    flags = [f"--cluster-signing-cert-file={pair[0]}", f"--cluster-signing-key-file={pair[1]}"]
    assert len(parse_flags(flags)[0].signing.files(KUBERNETES)) == 4
    both = [part.replace("signing-", "signing-kubelet-client-", 1) for part in flags]
    assert "is for every signer" in refusal(*flags, *both)


def test_default_duration_is_a_year() -> None:
    assert SigningSettings().cluster_signing_duration == 8760 * 3600
    assert "8760h" in refusal("--cluster-signing-duration=0s")


def test_pairs_are_checked_at_the_start(pair: tuple[str, str], tmp_path: Path) -> None:
    assert "needs its key" in refusal(f"--cluster-signing-cert-file={pair[0]}")
    assert "needs its certificate" in refusal(f"--cluster-signing-legacy-unknown-key-file={pair[1]}")
    missing = refusal(f"--cluster-signing-cert-file={tmp_path}/no", f"--cluster-signing-key-file={pair[1]}")
    assert "there is no file" in missing
    own = own_certificates("cluster")
    other = refusal(
        f"--cluster-signing-cert-file={pair[0]}", f"--cluster-signing-key-file={own.key('admin')}"
    )
    assert "are not a certificate and its key" in other
