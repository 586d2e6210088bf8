"""Where audit events go: a file or standard output, and an HTTPS server."""
