"""The core group (v1): its kinds, with their fields and rules."""
