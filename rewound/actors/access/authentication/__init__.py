"""`authenticate` tries proxy headers, client certificates and tokens in turn; one module for each other method."""
