"""The controllers that the server runs, one module for each or for a family of them; `built_in` lists them.

`loop` runs a controller: it follows the feed, scans the journal, and reconciles keys of a `work_queue`. Controllers
read with `stored_objects`, write through the actors with `client`, and are built from `context`. `publication` puts
custom kinds into the registry within the commit of their definition.
"""
