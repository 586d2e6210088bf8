"""A request from top to bottom: `pipeline` has its stages, from the route to dispatch.

`context` is one request, `services` what the pipeline calls. `errors` is the only module that knows status codes. The
others are named for what they know of a request.
"""
