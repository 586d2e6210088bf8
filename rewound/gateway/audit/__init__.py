"""The audit log: which requests are recorded by policy, how events look, and where they are written."""
