"""A client of the API for our own commands: kubeconfig files, credentials, TLS, requests.

`gateway.cli` uses it; it imports nothing of the server. Calls are synchronous: a command sends a few requests and ends.
"""
