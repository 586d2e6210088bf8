"""The audit log: which requests are recorded by policy, what events contain, and where they are written."""
