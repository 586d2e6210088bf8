"""A client of the API for our own commands: kubeconfig files, credentials, TLS, requests.

It imports no part of the HTTP server, and of the actors only files, certificates and names.
Calls are synchronous: a command sends a few requests and ends.
"""
