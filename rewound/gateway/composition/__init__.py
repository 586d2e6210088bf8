"""Puts a server together: opens its store, builds what serves requests, and runs it until it is to stop."""
