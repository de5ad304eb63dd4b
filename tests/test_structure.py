"""The numbers on the structure are what a person counts by hand."""

import ast
from pathlib import Path

import pytest

from tools import structure
from tools.structure import Walk, count_edges, count_floors, room_graph, subgraph, walk_modules

SOURCES = {
    "__init__.py": "",
    "model.py": "",
    "planning/__init__.py": "",
    "planning/planner.py": "from rebalancer.planning.scope import room, topology\nimport rebalancer.model\n",
    "planning/scope/__init__.py": "",
    "planning/scope/room.py": "from rebalancer.planning.scope.topology import Node\nfrom rebalancer import model\n",
    "planning/scope/topology.py": "from rebalancer.model import Pod\n\n\ndef long():\n" + "    pass\n" * 40,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Write a small checkout."""
    for name, text in SOURCES.items():
        path = tmp_path / "rebalancer" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_modules_importers_and_long_functions_are_counted(checkout: Path) -> None:
    files = structure.module_files(checkout)
    graph = structure.import_graph(files)
    assert len(files) == len(SOURCES)
    assert structure.single_importer_modules(graph) == ["rebalancer.planning.scope.room"]
    assert structure.long_functions(files) == ["rebalancer.planning.scope.topology.long"]


def test_arrows_and_floors_of_modules_and_rooms_are_counted(checkout: Path) -> None:
    """Planner over room over topology are three floors; the two modules of a room are one box among the rooms."""
    planning = subgraph(structure.import_graph(structure.module_files(checkout)), "rebalancer.planning")
    assert (count_edges(planning), count_floors(planning)) == (3, 3)
    rooms = room_graph(planning, "rebalancer.planning")
    assert rooms == {"planner": {"scope"}, "scope": set()}


def test_a_cycle_of_imports_has_no_floors() -> None:
    with pytest.raises(ValueError, match="imports itself"):
        count_floors({"a": frozenset({"b"}), "b": frozenset({"a"})})


def test_a_walk_counts_modules_changes_and_returns() -> None:
    """Modules a, b, a, c, a: three modules, four changes, two returns to a."""
    assert walk_modules("aabacca") == Walk(modules=3, transitions=4)
    assert walk_modules("aabacca").returns == 2
    assert walk_modules("") == Walk(modules=0, transitions=0)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("def f(): pass", 1),
        ("def f():\n  if a and b or c: pass", 4),
        ("def f(): return [a for a in b if a]", 3),
        ("def f():\n  match a:\n    case 1: pass\n    case _: pass", 3),
    ],
)
def test_complexity_counts_every_branch(text: str, number: int) -> None:
    assert structure.complexity(ast.parse(text).body[0]) == number


def test_a_reason_is_the_comment_right_above_a_function(tmp_path: Path) -> None:
    branches = "".join(f"    if a == {number}: pass\n" for number in range(structure.COMPLEX))
    source = f"# Many branches: one for each number.\n@cache\ndef f(a):\n{branches}\ndef g(a):\n{branches}"
    file = tmp_path / "source.py"
    file.write_text(source, encoding="utf-8")
    branching = structure.branching_functions({"source": file})
    assert [(function.name, function.reason) for function in branching] == [
        ("source.f", "one for each number."),
        ("source.g", ""),
    ]


def test_every_function_with_many_branches_has_its_reason_beside_it() -> None:
    files = structure.module_files(structure.ROOT)
    assert [function.name for function in structure.branching_functions(files) if not function.reason] == []


def test_the_planner_of_this_checkout_is_traced() -> None:
    """A real plan enters several modules of the planner; the larger state enters at least as many."""
    walks = structure._walks(structure.ROOT)
    small, large = walks.values()
    assert 1 < small.modules <= large.modules
    assert small.returns < large.returns
