"""Which server serves which group version: the stored APIServices and their order in discovery."""
