"""The data of a server after its first start, for each dialect, with and without certificates.

The servers of tests start with a copy.

A server that opens such a copy finds its initial objects. It would also check the journal and compare every initial
object, which takes a third of its start: the copy is known to be sound and complete, so its first opening checks
neither its pages nor its newest events, and looks for no initial objects. RBAC and the controllers that read many
objects at the start reuse what the first server found, which saves as much time again; a controller reads the objects
itself if a client has written before it started. Every other journal, and the copy at a restart, is read and checked
as usual.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rewound.actors.access.authorization.rbac import policy as policy_module
from rewound.actors.access.authorization.rbac.policy import RbacPolicy
from rewound.actors.bootstrap.bootstrap import Bootstrap
from rewound.actors.controllers.api_services import RegistrationController
from rewound.actors.controllers.cluster_role_aggregation import ClusterRoleAggregationController
from rewound.actors.controllers.flow_control import FlowControlController
from rewound.actors.controllers.garbage_collector import GarbageCollector
from rewound.journal import environment, log, tail
from rewound.journal.log import Journal
from rewound.journal.transaction import ReadTransaction

# Settings that do not change the initial objects of a dialect.
INDEPENDENT = {
    "admission",
    "anonymous_auth",
    "authentication",
    "audit",
    "authorization",
    "authorization_mode",
    "dialect",
    "disable_admission_plugins",
    "enable_admission_plugins",
    "enable_journal_page",
    "enable_test_controls",
    "faults",
    "max_connections",
    "max_object_size",
    "memory_limit",
    "oidc",
    "proxy",
    "quic_bind",
    "secure_port",
    "shutdown_delay_duration",
    "token_auth_file",
    "token_webhook",
    "transport",
    "watch_history",
}
SECURE_PORT = 2  # of servers with certificates
_kept = tempfile.TemporaryDirectory(prefix="rewound-initial-")
_copies: dict[Path, str] = {}  # journals that no server has opened yet, and the data that they contain
# Journals of servers that run on a copy for the first time: the data that they contain, and its newest version.
_complete: dict[Path, tuple[str, int]] = {}
_roles: dict[str, tuple[Any, Any]] = {}  # what the controller of aggregated roles found in the data
_policies: dict[str, RbacPolicy] = {}  # compiled; servers start with a copy
_check_structure, _check_tail = environment.check_structure, tail.check_tail
_necessary_writes = Bootstrap._changes


def is_kept(name: str) -> bool:
    return bool(name) and Path(_kept.name, name).exists()


def keep_initial_data(name: str, data: Path) -> None:
    """Keep the data of a dialect, or other data under this name. Controllers have nothing left to do in it."""
    shutil.copytree(data, Path(_kept.name, name))


def initial_data_for(settings: Mapping[str, Any]) -> str:
    """The name of the data for a server with these settings; "" if they lead to other initial objects."""
    port = settings.get("secure_port", 0)
    if not INDEPENDENT.issuperset(settings) or port not in (0, SECURE_PORT):
        return ""
    dialect: str = settings.get("dialect", "cluster")
    return f"{dialect} with certificates" if port else dialect


def copy_initial_data(name: str, data: Path) -> None:
    shutil.copytree(Path(_kept.name, name), data)
    _copies[data / "journal"] = name


def _check_structure_unless_copied(env: Any, data: Path, names: tuple[str, ...]) -> None:
    if data.parent not in _copies:
        _check_structure(env, data, names)


def _check_tail_unless_copied(reading: ReadTransaction, path: Path, depth: int = tail.TAIL) -> list[str]:
    if path in _copies:
        name = _copies.pop(path)  # from now on it differs
        _complete[path] = name, reading.head
    else:
        _complete.pop(path, None)
        return _check_tail(reading, path, depth)
    return []


def _changes_unless_copied(bootstrap: Bootstrap, objects: Iterable[Any]) -> list[Any]:
    return [] if bootstrap._journal.path in _complete else _necessary_writes(bootstrap, objects)


def _unchanged_data(journal: Journal) -> str:
    """The data that the journal is a copy of; "" if it is none, or was written to."""
    name, head = _complete.get(journal.path, ("", 0))
    return name if journal.head == head else ""


def _skip_unless_changed(controller: type[Any]) -> None:
    """Its catch_up has nothing to remember about objects that need no change."""
    catch_up = controller.catch_up

    async def catch_up_unless_copied(self: Any) -> None:
        if not _unchanged_data(self._journal):
            await catch_up(self)

    controller.catch_up = catch_up_unless_copied


_catch_up_with_roles = ClusterRoleAggregationController.catch_up


async def _know_roles_of_copy(controller: ClusterRoleAggregationController) -> None:
    name = _unchanged_data(controller._journal)
    if name in _roles:
        labels, aggregated = _roles[name]
        controller._labels, controller._aggregated = dict(labels), dict(aggregated)
        return
    await _catch_up_with_roles(controller)
    if name and _unchanged_data(controller._journal):
        _roles[name] = dict(controller._labels), dict(controller._aggregated)


_load_policy = policy_module._Follower.load


def _load_policy_of_copy(follower: policy_module._Follower, journal: Journal) -> None:
    name = _unchanged_data(journal)
    if name in _policies:
        _copy_policy(_policies[name], follower._policy)
        return
    _load_policy(follower, journal)
    if name:
        _policies[name] = RbacPolicy(follower._policy.group)
        _copy_policy(follower._policy, _policies[name])


def _copy_policy(source: RbacPolicy, target: RbacPolicy) -> None:
    """No initial role or binding is large, and compiled ones do not change."""
    assert not source._uncompiled_roles and not source._uncompiled_bindings and not source._large_bindings
    target.roles._compiled = dict(source.roles._compiled)
    target.roles._deferred = dict(source.roles._deferred)
    target._bindings = dict(source._bindings)
    target._of_users = {key: dict(bindings) for key, bindings in source._of_users.items()}
    target._of_groups = {key: dict(bindings) for key, bindings in source._of_groups.items()}


for _one in (FlowControlController, GarbageCollector, RegistrationController):
    _skip_unless_changed(_one)
policy_module._Follower.load = _load_policy_of_copy  # type: ignore[method-assign]
ClusterRoleAggregationController.catch_up = _know_roles_of_copy  # type: ignore[method-assign]
environment.check_structure = _check_structure_unless_copied
log.check_tail = _check_tail_unless_copied
Bootstrap._changes = _changes_unless_copied  # type: ignore[method-assign]
