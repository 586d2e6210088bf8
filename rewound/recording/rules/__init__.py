"""Rules over the events of a journal: which alerts a journal gives, and who gets them.

Begin with `engine`, which turns events into alerts, in recorded time. `file` reads a file of rules, `expressions`
compiles their CEL, `built_in` has the rules that are on without a file, `windows` what both remember, and `feed` the
events of a folder, a file or a server, with the requests that were refused. `trial` tries rules on the past; `watch`
follows a recording, and `delivery` sends its alerts.
"""
