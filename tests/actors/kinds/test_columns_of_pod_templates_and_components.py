"""Table cells of pod templates, replication controllers and component statuses."""

from __future__ import annotations

from tests.actors.kinds.definitions import Definitions


def test_pod_template_and_replication_controller_cells(kinds: Definitions) -> None:
    pods = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]},
    }
    template = kinds.stored("podtemplates", {"metadata": {"name": "a"}, "template": pods})
    cells = [column.cell(template, 0) for column in kinds["podtemplates"].table.columns]
    assert cells == ["a", "c,d", "i,j", "app=x"]
    controller = kinds.stored(
        "replicationcontrollers", {"metadata": {"name": "a"}, "spec": {"template": pods}}
    )
    cells = {
        column.name: column.cell(controller, 0) for column in kinds["replicationcontrollers"].table.columns
    }
    assert (cells["Desired"], cells["Current"], cells["Ready"]) == (1, 0, 0)
    assert (cells["Containers"], cells["Images"], cells["Selector"]) == ("c,d", "i,j", "app=x")


def test_component_status_cells(kinds: Definitions) -> None:
    columns = kinds["componentstatuses"].table.columns
    conditions = [{"type": "Healthy", "status": "False", "message": "m", "error": "e"}]
    assert [one.cell({"metadata": {"name": "a"}}, 0) for one in columns] == ["a", "Unknown", "", ""]
    unhealthy = {"metadata": {"name": "a"}, "conditions": conditions}
    assert [one.cell(unhealthy, 0) for one in columns] == ["a", "Unhealthy", "m", "e"]
