"""Cells of kinds around pods, and of components."""

from __future__ import annotations

from tests.actors.kinds.declared import Declared


def test_cells_of_templates_and_controllers(kinds: Declared) -> None:
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
    told = {
        column.name: column.cell(controller, 0) for column in kinds["replicationcontrollers"].table.columns
    }
    assert (told["Desired"], told["Current"], told["Ready"]) == (1, 0, 0)
    assert (told["Containers"], told["Images"], told["Selector"]) == ("c,d", "i,j", "app=x")


def test_cells_of_components(kinds: Declared) -> None:
    columns = kinds["componentstatuses"].table.columns
    conditions = [{"type": "Healthy", "status": "False", "message": "m", "error": "e"}]
    assert [one.cell({"metadata": {"name": "a"}}, 0) for one in columns] == ["a", "Unknown", "", ""]
    told = {"metadata": {"name": "a"}, "conditions": conditions}
    assert [one.cell(told, 0) for one in columns] == ["a", "Unhealthy", "m", "e"]
