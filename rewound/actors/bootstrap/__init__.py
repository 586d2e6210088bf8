"""The initial objects of a cluster (`objects`), created at the start where they are missing (`bootstrap`); the
addresses of the API's Service where several nodes serve it (`serving`).
"""
