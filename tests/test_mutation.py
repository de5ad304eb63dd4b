"""The tool that asks whether tests notice wrong code: what it changes, what it leaves alone, what it says of tests."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from tests.drawing import sampled
from tools.mutants import mutants, sample
from tools.mutation import PACKAGES, ROOT, Copy, Package, survivors


@pytest.mark.parametrize(
    ("line", "others"),
    [
        ("a < b", ["a <= b", "a >= b"]),
        ("a >= b", ["a > b", "a < b"]),
        ("a < b < c", ["a <= b < c", "a >= b < c", "a < b <= c", "a < b >= c"]),
        ("a == b", ["a != b"]),
        ("a is not b", ["a is b"]),
        ("a in b", ["a not in b"]),
        ("a + b", ["a - b"]),
        ("a // b", ["a * b"]),
        ("a | b", ["a & b"]),
        ("a and b", ["a or b"]),
        ("a or b or c", ["a and b and c"]),
        ("not a", ["a"]),
        ("-a", ["a"]),
        ("True", ["False"]),
        ("3", ["4", "2"]),
        ("'word'", ["''"]),
        ("''", ["'~'"]),
        ("min(a, b)", ["max(a, b)"]),
        ("any(a)", ["all(a)"]),
        ("a if b else c", ["a if not b else c"]),
        ("[a for a in b if c]", ["[a for a in b if True]"]),
    ],
)
def test_what_becomes_of_an_expression(line: str, others: list[str]) -> None:
    """Boundaries, opposites, neighbours and empty values."""
    assert [mutant.source for mutant in mutants("m.py", f"f({line})\n")] == [f"f({other})" for other in others]


@pytest.mark.parametrize(
    ("line", "others"),
    [
        ("f(a)", ["pass"]),
        ("a += b", ["pass"]),
        ("a.b = c", ["pass"]),
        ("a[b] = c", ["pass"]),
        ("del a[b]", ["pass"]),
        ("raise a", ["pass"]),
        ("yield a", ["pass"]),
        ("for a in b: break", ["for a in b:\n    pass"]),
        ("if a: b = c", ["pass"]),
        ("if a: b = c\nelse: b = d", []),
        ("return a", ["return None"]),
    ],
)
def test_what_becomes_of_a_statement(line: str, others: list[str]) -> None:
    """It goes, unless nothing could run without it; a result goes too."""
    source = "def f():\n" + "".join(f"    {part}\n" for part in line.splitlines())
    assert [dedent(mutant.source.removeprefix("def f():\n")) for mutant in mutants("m.py", source)] == [
        ast.unparse(ast.parse(other)) for other in others
    ]


@pytest.mark.parametrize(
    ("declared", "result"),
    [("bool", "not a"), ("int", "0"), ("tuple[int, ...]", "()"), ("Mapping[str, int]", "{}"), ("int | None", "None")],
)
def test_a_wrong_result_is_of_the_declared_type(declared: str, result: str) -> None:
    """Else it is the type checker that notices, or the first line that uses it."""
    (only,) = mutants("m.py", f"def f(a) -> {declared}:\n    return a\n")
    assert only.after == f"return {result}"


@pytest.mark.parametrize(
    "source",
    [
        '"""Of a module."""\nx = y\n"""Of a name."""\n',
        'def f(a: "int" = b) -> "list[int]":\n    """Of a function."""\n    c: "str" = a\n',
        'Place = tuple["Place", 3]\nEither = int | None\n',
        'x = cast("int", y)\n',
        "@cache(1)\ndef f():\n    pass\n",
        "def f():\n    assert a > 3\n",
        "x = f'{a + 1} more'\n",
        "x = zip(a, b, strict=True)\n",
        "class A(Struct, frozen=True, kw_only=True, gc=False):\n    pass\n",
        "__all__ = ['f']\n",
        "match a:\n    case 3:\n        x = y\n",
    ],
)
def test_what_is_left_alone(source: str) -> None:
    """What is said to readers and to the type checker."""
    assert list(mutants("m.py", source)) == []


def modules() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in (ROOT / package.path).glob("*.py"):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_every_change_of_a_real_module_is_one() -> None:
    """It compiles, differs from what was there and from every other, and stands where it says."""
    path, text = max(modules(), key=lambda module: len(module[1]))
    every = sampled(mutants(path, text))
    assert len({mutant.source for mutant in every} | {ast.unparse(ast.parse(text))}) == len(every) + 1
    for mutant in every:
        compile(mutant.source, path, "exec")
        assert 1 <= mutant.line <= len(text.splitlines())


def test_a_sample_changes_little_with_the_sources() -> None:
    """The same seed draws the same changes; a new line draws none of them anew, but perhaps itself."""
    text = "".join(f"x{number} = a{number} < b\n" for number in range(50))
    before = sample(list(mutants("m.py", text)), 20, seed=1)
    after = sample(list(mutants("m.py", "new = a < b\n" + text)), 20, seed=1)
    assert len(before) == 20
    assert len({mutant.key for mutant in before} & {mutant.key for mutant in after}) >= 18
    assert {mutant.key for mutant in before} != {
        mutant.key for mutant in sample(list(mutants("m.py", text)), 20, seed=2)
    }


def test_the_folders_of_tests_exist() -> None:
    """Every package that decides about evictions is asked about, with tests of its own."""
    assert {package.path for package in PACKAGES} == {
        f"rebalancer/{name}" for name in ("tracking", "admission", "planning", "scheduling")
    }
    assert [folder for package in PACKAGES for folder in package.tests if not (ROOT / folder).is_dir()] == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make two modules with their tests."""
    files = {
        "pytest.ini": "[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n",
        "conftest.py": "from hypothesis import settings\nsettings.register_profile('unshrunk')\n",
        "heights/heights.py": """
            def tall(metres):
                return metres > 2
            """,
        "halves/halves.py": """
            def halvings(number):
                found = 0
                while number > 1:
                    number, found = number // 2, found + 1
                return found
            """,
        "tests/test_both.py": """
            from halves.halves import halvings
            from heights.heights import tall

            def test_tall():
                assert tall(5) and not tall(1)

            def test_halvings():
                assert halvings(1) == 0 and halvings(2) == 1 and halvings(9) == 3
            """,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text), encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    return tmp_path


HEIGHTS = Package(path="heights", count=100, tests=("tests",), patience=10)


def test_what_survives_is_what_no_test_asks_for(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An untested boundary does; the checkout itself is never changed."""
    before = {path: path.read_bytes() for path in project.rglob("*.py")}
    assert {str(mutant) for mutant in survivors(project, [HEIGHTS], seed=1)} == {
        "heights/heights.py:3: metres > 2  ->  metres >= 2",
        "heights/heights.py:3: 2  ->  3",
        "heights/heights.py:3: 2  ->  1",
    }
    assert {path: path.read_bytes() for path in project.rglob("*.py")} == before
    assert "heights: 2 killed, 3 survived, of 5 drawn from 5" in capsys.readouterr().out


def test_a_loop_without_an_end_is_noticed(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A test that takes far too long has failed; the next change finds the module as it was."""
    copy = Copy(project, tmp_path_factory.mktemp("copy"))
    halves, heights = replace(HEIGHTS, path="halves"), HEIGHTS
    baseline = copy.baseline(halves)
    changes = {
        (mutant.before, mutant.after): mutant for package in (halves, heights) for mutant in copy.mutants(package)
    }
    assert copy.kills(changes["number > 1", "number >= 1"], baseline)
    assert not copy.kills(changes["metres > 2", "metres >= 2"], baseline)


def test_tests_that_fail_anyway_say_nothing(project: Path) -> None:
    """Every change would count as noticed."""
    (project / "tests" / "test_broken.py").write_text("def test_it():\n    assert False\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="Without any change"):
        survivors(project, [HEIGHTS], seed=1)
