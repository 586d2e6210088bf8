"""HTTP/2 (docs/http2.md): `connection` reads and handles, `receiver` turns frames into requests, `output` sends.

`stream` is the codec of one request; `frame_reader`, `request_heads` and `response_heads` decode and encode the bytes,
with `rewound.http2`, which the client has too.
"""
