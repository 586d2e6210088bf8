"""The API as an ASGI application (docs/transports.md): each scope becomes a request, and `codec` sends the response.

`requests` and `scopes` read. `socketless` has no sockets and runs under other ASGI servers; `worker` runs Hypercorn's
protocols on our connections, with `http3` for HTTP/3.
"""
