"""Stages, kwok's objects that say what the objects of a kind do over time (docs/stages.md).

Begin with `controller`, which follows the Stages and plays them on objects of any kind; `nodes.simulator` plays those
of pods and nodes, through the same `player`. `stage` compiles one: its selector and values are queries (`jq`) or CEL
(`cel.kwok`), its changes are Go templates (`templates`). `definitions` has the kinds of the group kwok.x-k8s.io.
"""
