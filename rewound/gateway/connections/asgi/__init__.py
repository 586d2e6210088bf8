"""The API above ASGI (docs/transports.md): each scope becomes a request, and `codec` sends the response.

`requests` and `scopes` read; `socketless` is for other ASGI servers; `worker` runs Hypercorn's protocols on
our connections, with `http3`.
"""
