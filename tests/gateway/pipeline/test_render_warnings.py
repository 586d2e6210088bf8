"""Warning headers of a response: each warning once, shortened when they are too many."""

from rewound.actors.kinds.schema.exact_decoder import Problems
from rewound.gateway.pipeline.render import warning_headers


def test_repeated_warning_is_sent_once() -> None:
    assert list(warning_headers(["a", "b", "a"])) == [b'299 - "a"', b'299 - "b"']


def test_empty_warning_is_not_sent() -> None:
    assert list(warning_headers(["", "a"])) == [b'299 - "a"']


def test_long_warnings_are_complete_if_all_fit() -> None:
    assert list(warning_headers(["x" * 4000])) == [b'299 - "%b"' % (b"x" * 4000)]


def test_all_warnings_are_shortened_when_they_do_not_fit() -> None:
    texts = [f"{number:02}" + "x" * 298 for number in range(20)]
    *returned, last = warning_headers(texts)
    assert [len(text) for text in returned] == [len(b'299 - ""') + 256] * 15
    assert returned[0] == b'299 - "00%b"' % (b"x" * 254)
    assert last == b'299 - "5 more warnings were left out"'


def test_limit_counts_bytes() -> None:
    *returned, last = warning_headers(["\N{SNOWMAN}" * 250 + str(number) for number in range(10)])
    assert sum(map(len, returned)) <= 4096
    assert last == b'299 - "5 more warnings were left out"'


def test_at_most_sixty_warnings_are_sent() -> None:
    *returned, last = warning_headers([str(number) for number in range(99)])
    assert len(returned) == 60
    assert last == b'299 - "39 more warnings were left out"'


def test_left_out_count_includes_problems_left_out_before() -> None:
    problems = Problems(f"{number:0200}" for number in range(300))
    *returned, last = warning_headers([*problems.texts(), "another"])
    left = 300 - len(returned) + 1
    assert last == b'299 - "%d more warnings were left out"' % left


def test_quotes_are_escaped_and_newlines_replaced() -> None:
    assert list(warning_headers(['a "b"\\\nc'])) == [b'299 - "a \\"b\\"\\\\ c"']
