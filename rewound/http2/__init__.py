"""The bytes of HTTP/2 that our server and our client have in common.

`frames` has the constants and builds frames (RFC 9113); `hpack` decodes header blocks and encodes literals (RFC 7541).
What a peer may do, and when, is in `rewound.gateway.connections.http2` for the server, and in
`rewound.client.http2_connection` for the client.
"""
