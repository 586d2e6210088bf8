"""A write context has a well-formed uid, the time of the clock, and a suffix only for generateName."""

import random
import uuid

from rewound.actors.runtime.write_context import LETTERS, WriteContexts, new_uid


class Still:
    def now(self) -> int:
        return 7


def test_uids_are_random_version_4():
    uids = {new_uid() for _ in range(500)}
    assert len(uids) == 500
    for uid in uids:
        parsed = uuid.UUID(uid)
        assert (str(parsed), parsed.version, parsed.variant) == (uid, 4, uuid.RFC_4122)


def test_suffix_is_generated_only_on_request():
    write_contexts = WriteContexts(Still(), random.Random(1))
    assert write_contexts.new("u", "m").suffix == ""
    suffix = write_contexts.new("u", "m", suffix=True).suffix
    assert len(suffix) == 5
    assert set(suffix) <= set(LETTERS)


def test_time_comes_from_the_clock():
    assert WriteContexts(Still()).new("u", "m").time == 7
