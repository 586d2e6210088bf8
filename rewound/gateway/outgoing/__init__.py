"""The HTTP client of the server, for webhooks, identity providers, other servers and etcd (decision 0022).

`connections` dials and pools, over `streams`; `response` reads HTTP/1.1; `client` sends whole requests. `webhook` is
what actors get as `Calls`.
"""
