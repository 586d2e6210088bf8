"""Unknown fields are dropped and reported with their full path, in document order."""

from __future__ import annotations

from tests.actors.kinds.definitions import Definitions
from tests.cases import cases

CASES = [
    ("configmaps", b'{"bogus":1}', ['unknown field "bogus"']),
    ("configmaps", b'{"bogus":null}', ['unknown field "bogus"']),
    (
        "configmaps",
        b'{"metadata":{"nmae":"b"},"x":{"y":1}}',
        ['unknown field "metadata.nmae"', 'unknown field "x"'],
    ),
    ("configmaps", b'{"x":1,"metadata":{"y":2}}', ['unknown field "x"', 'unknown field "metadata.y"']),
    ("configmaps", b'{"Data":{"k":"v"}}', ['unknown field "Data"']),
    ("configmaps", b'{"data":{"bogus":"1"}}', []),
    ("configmaps", b'{"":0}', ['unknown field ""']),
    ("configmaps", b'{"metadata":{"":0}}', ['unknown field "metadata."']),
    ("configmaps", b'{"metadata":{"name":"a","":0}}', ['unknown field "metadata."']),
    (
        "endpoints",
        b'{"subsets":[{},{"ports":[{"port":1},{"prot":2}],"z":1}]}',
        ['unknown field "subsets[1].ports[1].prot"', 'unknown field "subsets[1].z"'],
    ),
    ("nodes", b'{"status":{"nodeInfo":{"osimage":"x"}}}', ['unknown field "status.nodeInfo.osimage"']),
]


@cases(("plural", "raw", "problems"), CASES)
def test_unknown_fields_are_reported_with_their_paths(
    kinds: Definitions, plural: str, raw: bytes, problems: list[str]
) -> None:
    decoded = kinds[plural].schema.decode_json(raw)
    assert list(decoded.problems) == problems
    assert "bogus" not in decoded.object


def test_decoded_objects_report_the_problems_of_their_parser_first(kinds: Definitions) -> None:
    decoded = kinds["configmaps"].schema.decode_object({"a": 1}, ('duplicate field "data.k"',))
    assert decoded.problems == ('duplicate field "data.k"', 'unknown field "a"')


def test_fifty_unknown_fields_are_named_and_the_others_counted(kinds: Definitions) -> None:
    document = {f"field-{number}": 1 for number in range(5000)}
    *named, last = kinds["configmaps"].schema.decode_object(document).problems
    assert (len(named), last) == (50, "and 4950 more such problems")
