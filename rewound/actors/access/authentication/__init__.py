"""`authenticate` tries proxy headers, client certificates and tokens in turn; each other method has its own module."""
