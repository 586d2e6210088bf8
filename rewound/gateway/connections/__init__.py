"""Connections: listeners, TLS, and the protocols that turn bytes into requests and responses into bytes.

`server` accepts, `transport` and `tls` are the byte streams, `responder` decides what a response is for every
protocol and has the interface `Codec`, which `http1/`, `http2/` and `asgi/` implement. `arriving`, `heads`, `limits`
and `server_state` are what they share; `websocket/` serves watches over WebSockets.
"""
