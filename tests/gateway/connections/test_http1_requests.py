"""The request that the handler gets: method, target, headers, peer."""

from rewound.gateway.message import Request, Response
from tests.gateway.connections.http_server import served


class Recorder:
    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(200, b"")


async def record(*heads: bytes) -> list[Request]:
    recorder = Recorder()
    async with served(recorder) as host, host.connect() as client:
        for head in heads:
            assert (await client.request(head + b"\r\n\r\n")).status == 200
    return recorder.requests


async def test_path_and_query_are_not_decoded() -> None:
    [request] = await record(b"GET /a%2Fb/%C3%A9?x=1&y=%20?z HTTP/1.1\r\nHost: t")
    assert (request.method, request.path, request.query) == ("GET", "/a%2Fb/%C3%A9", "x=1&y=%20?z")
    assert (request.body, request.repeated) == (b"", None)


async def test_header_names_are_lower_case_and_values_trimmed() -> None:
    [request] = await record(b"GET / HTTP/1.1\r\nHOST: t\r\nX-Mixed:   two words \t\r\nX-Empty:")
    assert request.headers == {b"host": b"t", b"x-mixed": b"two words", b"x-empty": b""}


async def test_repeated_headers_are_joined_and_listed() -> None:
    first, second = await record(
        b"GET / HTTP/1.1\r\nHost: t\r\nX-A: 1\r\nx-a: 2, 3\r\nX-A: 4", b"GET / HTTP/1.1\r\nHost: t\r\nX-A: 5"
    )
    assert first.headers[b"x-a"] == b"1, 2, 3, 4"
    assert first.repeated == {b"x-a": [b"1", b"2, 3", b"4"]}
    assert (second.headers[b"x-a"], second.repeated) == (b"5", None)


async def test_equal_lines_of_a_header_count_once() -> None:
    [request] = await record(
        b"GET / HTTP/1.1\r\nHost: t\r\nX-A: 1\r\nx-a:  1\r\nX-B: 1\r\nX-B: 2\r\nX-B: 1\r\nX-B: 2"
    )
    assert (request.headers[b"x-a"], request.headers[b"x-b"]) == (b"1", b"1, 2")
    assert request.repeated == {b"x-a": [b"1", b"1"], b"x-b": [b"1", b"2", b"1", b"2"]}


async def test_absolute_form_loses_its_authority() -> None:
    requests = await record(
        b"GET http://t:80/a?b HTTP/1.1\r\nHost: t",
        b"GET HTTPS://t HTTP/1.1\r\nHost: t",
        b"GET http://t?q HTTP/1.1\r\nHost: t",
        b"OPTIONS * HTTP/1.1\r\nHost: t",
    )
    assert [(request.path, request.query) for request in requests] == [
        ("/a", "b"),
        ("/", ""),
        ("/", "q"),
        ("*", ""),
    ]


async def test_all_requests_of_a_connection_share_its_peer() -> None:
    first, second = await record(b"GET / HTTP/1.1\r\nHost: t", b"PATCH / HTTP/1.1\r\nHost: t")
    assert first.peer is second.peer
    assert (first.peer.address, first.peer.secure, first.peer.certificate) == ("127.0.0.1", False, None)
    assert second.method == "PATCH"
