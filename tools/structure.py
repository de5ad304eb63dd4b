"""Numbers on the structure of a checkout: `python -m tools.structure [DIR ...]` prints a column for each.

Problem: whether code becomes easier to follow can be measured only with the same ruler before and after.
Idea: parse the sources of any checkout, old ones too; build the graph of imports; and follow one real plan through the
modules of the planner with a profiler, in a process that imports that checkout.
"""

import ast
import importlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "rebalancer"
PLANNING: Final = "rebalancer.planning"

LONG: Final = 40
"""Lines; functions with more are counted."""

COMPLEX: Final = 15
"""Cyclomatic complexity; functions with more are counted."""

REASON: Final = "# Many branches:"
"""The comment above such a function begins so."""

_COPIES: Final = 12
"""Copies of the example's workloads in the larger state, each with its pods on nodes that are drawn from a seed."""

Graph = Mapping[str, frozenset[str]]
"""Module or room -> what it imports."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The way of one plan through the planner's modules: how many it enters, and how often it changes between them."""

    modules: int
    transitions: int

    @property
    def returns(self) -> int:
        """How often a module is entered again after the plan left it."""
        return max(0, self.transitions + 1 - self.modules)


def module_files(root: Path) -> dict[str, Path]:
    """Return the files of the package by module name; `__init__` files by the name of their package."""
    files = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


def import_graph(files: Mapping[str, Path]) -> Graph:
    """Return which modules each module imports, from within the package."""
    return {module: frozenset(_imports(_tree(path), files) - {module}) for module, path in files.items()}


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(tree: ast.Module, files: Mapping[str, Path]) -> set[str]:
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names if alias.name in files}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                imported |= {name for name in (submodule if submodule in files else node.module,) if name in files}
    return imported


def single_importer_modules(graph: Graph) -> list[str]:
    """Return the modules that exactly one other module imports."""
    importers = {module: sum(module in imported for imported in graph.values()) for module in graph}
    return [module for module, number in importers.items() if number == 1]


def subgraph(graph: Graph, package: str) -> Graph:
    """Return the graph of the modules below a package, without the package's own `__init__`."""
    inside = {module for module in graph if module.startswith(f"{package}.")}
    return {module: graph[module] & inside for module in sorted(inside)}


def room_graph(graph: Graph, package: str) -> Graph:
    """Return the graph of the rooms: the folders directly below a package, and its modules outside of folders."""
    rooms: dict[str, set[str]] = {}
    folders = {_room(module, package) for module in graph if "." in module.removeprefix(f"{package}.")}
    modules = {module for module in graph if module.removeprefix(f"{package}.") not in folders}
    for module in modules:
        own = _room(module, package)
        rooms.setdefault(own, set()).update(
            _room(imported, package) for imported in graph[module] if imported in modules
        )
    return {room: frozenset(imported - {room}) for room, imported in rooms.items()}


def _room(module: str, package: str) -> str:
    return module.removeprefix(f"{package}.").partition(".")[0]


def count_edges(graph: Graph) -> int:
    """Count the arrows of a graph."""
    return sum(map(len, graph.values()))


def count_floors(graph: Graph) -> int:
    """Return the number of modules on the longest chain of imports. Raises ValueError for a cycle."""
    floors: dict[str, int] = {}

    def floor(module: str, above: tuple[str, ...]) -> int:
        if module in above:
            raise ValueError(f"{module} imports itself through {' > '.join(above)}")
        if module not in floors:
            floors[module] = 1 + max((floor(imported, (*above, module)) for imported in graph[module]), default=0)
        return floors[module]

    return max((floor(module, ()) for module in graph), default=0)


def long_functions(files: Mapping[str, Path]) -> list[str]:
    """Return the functions of more than `LONG` lines."""
    return [
        f"{module}.{node.name}"
        for module, path in files.items()
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or node.lineno) - node.lineno + 1 > LONG
    ]


def complex_functions(root: Path) -> list[str]:
    """Return the places of functions with a cyclomatic complexity above `COMPLEX`, found by ruff."""
    ruff = Path(sys.executable).with_name("ruff")
    command: list[str | Path] = [
        ruff,
        "check",
        "--isolated",
        "--no-cache",
        "--select=C901",
        "--output-format=json",
        "--ignore-noqa",
    ]
    setting = f"--config=lint.mccabe.max-complexity={COMPLEX}"
    done = subprocess.run([*command, setting, root / PACKAGE], capture_output=True, text=True, check=False)
    return [f"{Path(place['filename']).name}:{place['location']['row']}" for place in json.loads(done.stdout)]


def complexity(function: ast.AST) -> int:
    """Return the cyclomatic complexity of a function as radon counts it: boolean operators and comprehensions, too."""
    number = 1
    for node in ast.walk(function):
        match node:
            case ast.BoolOp():
                number += len(node.values) - 1
            case ast.comprehension():
                number += 1 + len(node.ifs)
            case ast.If() | ast.IfExp() | ast.For() | ast.While() | ast.ExceptHandler() | ast.Assert():
                number += 1
            case ast.match_case():
                number += 1
    return number


@dataclass(frozen=True, kw_only=True)
class Branching:
    """A function of a complexity above `COMPLEX`, and why it is: the comment right above it that begins `REASON`."""

    name: str
    complexity: int
    reason: str


def branching_functions(files: Mapping[str, Path]) -> list[Branching]:
    """Return the functions of a complexity above `COMPLEX` as radon counts it, each with its reason or ""."""
    return [
        Branching(name=f"{module}.{node.name}", complexity=number, reason=_reason(path, node))
        for module, path in files.items()
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (number := complexity(node)) > COMPLEX
    ]


def _reason(path: Path, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    above = path.read_text(encoding="utf-8").splitlines()[first - 2].strip()
    return above.removeprefix(REASON).strip() if first > 1 and above.startswith(REASON) else ""


def walk_modules(entered: Iterable[str]) -> Walk:
    """Summarize the modules in the order in which their functions were entered."""
    modules: set[str] = set()
    transitions = -1
    before = ""
    for module in entered:
        if module != before:
            modules.add(module)
            transitions += 1
            before = module
    return Walk(modules=len(modules), transitions=max(0, transitions))


def larger_state(example: Mapping[str, Any], seed: int = 1) -> dict[str, Any]:
    """Return a cluster with copies of an example's workloads, the pods of each copy on nodes drawn from a seed."""
    draw = random.Random(seed)
    nodes = [item["metadata"]["name"] for item in example["items"] if item["kind"] == "Node"]
    items = [item for item in example["items"] if "namespace" not in item["metadata"]]
    for copy in range(_COPIES):
        for item in example["items"]:
            if "namespace" not in item["metadata"]:
                continue
            text = json.dumps(item).replace('"namespace": "', f'"namespace": "copy-{copy}-')
            copied = json.loads(text)
            _rename_uids(copied, copy)
            if copied["kind"] == "Pod" and "nodeName" in copied["spec"]:
                copied["spec"]["nodeName"] = draw.choice(nodes)
            items.append(copied)
    return {**example, "items": items}


def _rename_uids(node: Any, copy: int) -> None:
    """Make the UIDs of a copied object its own."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "uid" and isinstance(value, str):
                node[key] = f"{value}-{copy}"
            else:
                _rename_uids(value, copy)
    elif isinstance(node, list):
        for value in node:
            _rename_uids(value, copy)


def trace_plan(data: bytes, root: Path) -> list[str]:
    """Plan for a cluster and return the planner's modules in the order in which their functions were entered.

    `rebalancer` must be imported from `root`; older checkouts without `engine` are assessed and planned by hand.
    """
    snapshots = importlib.import_module("rebalancer.adapters.files")
    newest = importlib.import_module("rebalancer.model.cluster").NEWEST
    policy = importlib.import_module("rebalancer.policy").default_policy()
    try:
        evaluate = importlib.import_module("rebalancer.engine").evaluate
    except ModuleNotFoundError:
        evaluate = _evaluate_by_hand
    snapshot, _ = snapshots.read_snapshot(data, version=newest, at=None, source="")
    folder = str(root / PACKAGE / "planning") + os.sep
    entered: list[str] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            entered.append(frame.f_code.co_filename)

    sys.setprofile(record)
    try:
        evaluate(snapshot, policy)
    finally:
        sys.setprofile(None)
    return entered


def _evaluate_by_hand(snapshot: Any, policy: Any) -> None:
    """Assess and plan as checkouts before `engine` do."""
    memory = importlib.import_module("rebalancer.model.moves").NO_MEMORY
    try:
        assess = importlib.import_module("rebalancer.assessment.assess").assess
    except ModuleNotFoundError:
        assess = importlib.import_module("rebalancer.assessment.judgement").assess
    plan = importlib.import_module("rebalancer.planning.planner").plan
    view = importlib.import_module("rebalancer.scheduling.view").View(snapshot)
    plan(view, assess(view, policy, memory), policy, memory)


def _states(root: Path) -> Iterator[tuple[str, bytes]]:
    data = (root / "docs" / "examples" / "zone-returned.json").read_bytes()
    yield "docs/examples/zone-returned.json", data
    yield f"{_COPIES} copies of it, pods drawn", json.dumps(larger_state(json.loads(data))).encode()


def _walks(root: Path) -> Mapping[str, Walk]:
    """Trace the plans in a process of their own, which imports the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}
    command = [sys.executable, str(Path(__file__).resolve()), "--trace", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=root)
    return {name: Walk(**walk) for name, walk in json.loads(done.stdout).items()}


def structure(root: Path) -> Mapping[str, int]:
    """Return the numbers of a checkout by their names."""
    files = module_files(root)
    graph = import_graph(files)
    planning = subgraph(graph, PLANNING)
    rooms = room_graph(planning, PLANNING)
    branching = branching_functions(files)
    numbers = {
        "modules": len(files),
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files.values()),
        "modules with exactly one importer": len(single_importer_modules(graph)),
        f"functions over {LONG} lines": len(long_functions(files)),
        f"functions with a cyclomatic complexity over {COMPLEX} (McCabe, by ruff)": len(complex_functions(root)),
        "the same, boolean operators and comprehensions counted": len(branching),
        "of these, without a reason beside it": sum(not function.reason for function in branching),
        "planning: modules": len(planning),
        "planning: arrows between modules": count_edges(planning),
        "planning: floors of modules": count_floors(planning),
        "planning: rooms and modules outside of rooms": len(rooms),
        "planning: arrows between these": count_edges(rooms),
    }
    for name, walk in _walks(root).items():
        numbers[f"one plan, {name}: modules entered"] = walk.modules
        numbers[f"one plan, {name}: changes of module"] = walk.transitions
        numbers[f"one plan, {name}: returns to a module left before"] = walk.returns
    return numbers


def main(arguments: Sequence[str]) -> int:
    """Print the numbers of the checkouts, this one by default, as a Markdown table."""
    if arguments[:1] == ["--trace"]:
        root = Path(arguments[1])
        walks = {name: walk_modules(trace_plan(data, root)) for name, data in _states(root)}
        shown = {name: {"modules": walk.modules, "transitions": walk.transitions} for name, walk in walks.items()}
        print(json.dumps(shown))
        return 0
    roots = [Path(argument).resolve() for argument in arguments] or [ROOT]
    columns = [structure(root) for root in roots]
    print(f"| number | {' | '.join(root.name for root in roots)} |")
    print(f"| --- | {' | '.join('---:' for _ in roots)} |")
    for name in columns[0]:
        print(f"| {name} | {' | '.join(str(column[name]) for column in columns)} |")
    files = module_files(roots[-1])
    branching = [
        f"{function.name}: {function.complexity}, {function.reason or 'no reason'}"
        for function in branching_functions(files)
    ]
    for title, functions in (("long", long_functions(files)), ("branching", branching)):
        print("\n".join((f"\n{roots[-1].name}, {title}:", *functions)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
