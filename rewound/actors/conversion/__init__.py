"""Conversion of custom objects by webhooks: the calls, the checks of responses, and the readers that need them."""
