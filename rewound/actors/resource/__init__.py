"""Writes: the actor of a resource type decides what every command becomes, and submits it to the committer.

Begin with `decide`: one coroutine from the current object through patch, admission and `rules` (pure) to the event.
`directory` finds the actor of a type, `actor` runs the coroutines of its commands, `write` is a command with its reply,
`proposing` turns decisions into events.
"""
