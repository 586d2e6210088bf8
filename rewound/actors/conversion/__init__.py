"""Conversion of custom objects by webhooks: what is sent, what the response must be, and who waits for it."""
