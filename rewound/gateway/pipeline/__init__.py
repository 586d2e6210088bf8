"""A request from top to bottom: `pipeline` runs the `stages`, from the route to dispatch.

`context` is one request, `services` what the pipeline calls, `remembered` what a repeated request may skip. `errors`
is the only module that knows status codes. The others are named for the stage that uses them.
"""
