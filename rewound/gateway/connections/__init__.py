"""Connections: listeners, TLS, and the protocols that parse requests and write responses.

`server` accepts connections; `transport` and `tls` are the byte streams. `responder` decides, for every protocol,
what is sent as a response, and defines the interface `Codec`, which `http1/`, `http2/` and `asgi/` implement. They
share `arriving`, `heads`, `limits` and `server_state`; `websocket/` serves watches over WebSockets.
"""
