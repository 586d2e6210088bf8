"""The server's own key for service account tokens is damaged: the start or the request fails and says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewound.actors.access.accounts.keys import AccountKeyError
from tests.gateway.account_tokens import ISSUER, forged, issued, request_token, status_with
from tests.gateway.api import served

# Looks like a key but is none: only the cryptography library notices.
NO_KEY = b"-----BEGIN PRIVATE KEY-----\nMAIFAA==\n-----END PRIVATE KEY-----\n"
TOKEN = forged({"alg": "ES256"}, {"iss": ISSUER}, b"signature")


async def test_damaged_key_stops_the_start(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        await issued(api, "default")
        own = api.settings.pki / "sa.key"
    own.write_bytes(own.read_bytes()[:-50])
    refused = pytest.RaisesExc(AccountKeyError, match=r"restore .*sa\.key from a backup, or remove it")
    with pytest.RaisesGroup(refused, flatten_subgroups=True, allow_unwrapped=True):
        async with served(tmp_path):
            pass


async def test_unusable_key_fails_requests_with_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as api:
        own = api.settings.pki / "sa.key"
        own.parent.mkdir(exist_ok=True)
        own.write_bytes(NO_KEY)
        failed = await request_token(api, "default")
        assert (failed.status, failed.document["reason"]) == (500, "InternalError")
        assert "the keys of service account tokens cannot be used" in failed.document["message"]
        assert str(own) not in failed.document["message"]
        assert (await api.ask("GET", "/openid/v1/jwks")).status == 500
        assert await status_with(api, TOKEN) == 500
        (line,) = [one for one in caplog.records if "service account token" in one.getMessage()]
        assert f"restore {own} from a backup, or remove it" in line.getMessage()
        assert not [one for one in caplog.records if one.exc_info], "no traceback"
        own.unlink()
        assert await status_with(api, await issued(api, "default")) == 403


async def test_folder_that_cannot_be_written_fails_requests_with_a_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as api:
        api.settings.pki.write_bytes(b"")  # a file, because root can write to every folder
        assert (await request_token(api, "default")).status == 500
        assert await status_with(api, TOKEN) == 500
        assert [one for one in caplog.records if "make the folder writable" in one.getMessage()]
