"""What a write gets from chance: well-formed uids, and letters only where a name must be made up."""

import random
import uuid

from actors.stamps import LETTERS, Stamps, fresh_uid


class Still:
    def now(self) -> int:
        return 7


def test_uids_are_random_version_4():
    uids = {fresh_uid() for _ in range(500)}
    assert len(uids) == 500
    for uid in uids:
        parsed = uuid.UUID(uid)
        assert (str(parsed), parsed.version, parsed.variant) == (uid, 4, uuid.RFC_4122)


def test_letters_only_when_asked_for():
    stamps = Stamps(Still(), random.Random(1))
    assert stamps.make("u", "m").suffix == ""
    suffix = stamps.make("u", "m", suffix=True).suffix
    assert len(suffix) == 5
    assert set(suffix) <= set(LETTERS)


def test_time_comes_from_the_clock():
    assert Stamps(Still()).make("u", "m").time == 7
