"""HTTP/2 (docs/http2.md): `connection` reads and handles, `receiver` makes requests of frames, `output` sends.

`stream` is the codec of one request; `frame_reader`, `hpack`, `request_heads` and `response_heads` read and write the
bytes.
"""
