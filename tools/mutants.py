"""Small wrong changes that tests must notice: the places where a module allows one, and the changed module.

This is our own tool, since no library fits. Mutmut 3 leaves out everything with a decorator, so every dataclass and
every property. Cosmic-ray changes the checkout itself, has one test command for all modules, and makes neither changed
results nor removed statements. Neither draws a sample from a seed.

Code whose change no test should notice is not changed: docstrings, annotations and aliases of types, `cast`,
decorators, what only asserts (`assert`, `strict` of `zip`, `frozen`, `gc` and `kw_only` of a type), and the parts of
f-strings.
"""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
"""The boundary first, then the opposite."""

_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_EMPTY: Final = {"int": "0", "float": "0.0", "str": "''", "tuple": "()", "Sequence": "()", "list": "[]"} | {
    "Mapping": "{}",
    "dict": "{}",
    "frozenset": "frozenset()",
    "set": "set()",
}
"""What a function returns instead, by the type it declares; for others it is None."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change in `line` of the module `path`; `source` is the whole changed module."""

    path: str
    line: int
    before: str
    after: str
    source: str
    key: str
    """Decides whether a sample contains the change; constant while the module allows this change."""

    def __str__(self) -> str:
        """Name the place, the code before and the code after."""
        return f"{self.path}:{self.line}: {_brief(self.before)}  ->  {_brief(self.after)}"


def mutants(path: str, source: str) -> Iterator[Mutant]:
    """Yield every change that a module allows, each alone."""
    tree = ast.parse(source)
    seen: Counter[tuple[str, str]] = Counter()
    for parent, field, index, node, other in _changes(tree):
        before, after = ast.unparse(node), ast.unparse(other)
        _put(parent, field, index, other)
        changed = ast.unparse(tree)
        _put(parent, field, index, node)
        seen[before, after] += 1
        key = f"{path}\0{before}\0{after}\0{seen[before, after]}"
        yield Mutant(path=path, line=node.lineno, before=before, after=after, source=changed, key=key)


def sample(all_of_them: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Draw a number of changes, each as likely as any other, in the order of the files.

    Drawn by a hash of each: a change elsewhere in the sources leaves the rest of the sample as it was, so that runs
    can be compared.
    """

    def drawn(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed}\0{mutant.key}".encode()).digest()

    return sorted(sorted(all_of_them, key=drawn)[:count], key=lambda mutant: (mutant.path, mutant.line))


_Change = tuple[ast.AST, str, int | None, ast.expr | ast.stmt, ast.expr | ast.stmt]
"""The parent of the changed node, the field and the place in it, the old and the new node."""


def _changes(node: ast.AST, returns: ast.expr | None = None, *, inside: bool = False) -> Iterator[_Change]:
    """Yield the changes below a node, in the order of the text. `inside` says whether it is a function's body."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "pattern"}:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if not isinstance(child, ast.AST) or _is_exempt(child, inside=inside):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                for other in _others(child, returns, inside=inside):
                    yield node, field, index, child, ast.copy_location(other, child)
            if field == "ifs" and isinstance(child, ast.expr):
                yield node, field, index, child, ast.copy_location(ast.Constant(value=True), child)
            if isinstance(child, ast.FunctionDef):
                yield from _changes(child, child.returns, inside=True)
            else:
                yield from _changes(child, returns, inside=inside)


def _put(parent: ast.AST, field: str, index: int | None, child: ast.AST) -> None:
    if index is None:
        setattr(parent, field, child)
    else:
        getattr(parent, field)[index] = child


def _is_exempt(node: ast.AST, *, inside: bool) -> bool:
    match node:
        case (
            ast.Expr(value=ast.Constant())
            | ast.Assert()
            | ast.JoinedStr()
            | ast.keyword(arg="strict" | "frozen" | "gc" | "kw_only")
        ):
            return True
        case ast.Call(func=ast.Name(id="cast" | "TypeVar")) | ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Assign(value=ast.Subscript() | ast.BinOp(op=ast.BitOr())):
            return not inside  # an alias of types
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _others(node: ast.AST, returns: ast.expr | None, *, inside: bool) -> Iterator[ast.expr | ast.stmt]:
    """Yield what may stand in a node's place."""
    yield from _other_operators(node)
    yield from _other_values(node)
    yield from _other_statements(node, returns, inside=inside)


def _other_operators(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=operators):
            for place, operator in enumerate(operators):
                for kind in _COMPARISONS[type(operator)]:
                    other = deepcopy(node)
                    other.ops[place] = kind()
                    yield other
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC:
            yield ast.BinOp(left=node.left, op=_ARITHMETIC[type(operator)](), right=node.right)
        case ast.BoolOp(op=ast.And() | ast.Or(), values=values):
            yield ast.BoolOp(op=ast.Or() if isinstance(node.op, ast.And) else ast.And(), values=values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand


def _other_values(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(value=not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value=value + 1)
            yield ast.Constant(value=value - 1)
        case ast.Constant(value=str(value)):
            yield ast.Constant(value=value + "~" if not value else "")
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield ast.Call(func=ast.Name(id=_CALLS[name]), args=node.args, keywords=node.keywords)
        case ast.IfExp(test=test):
            yield ast.IfExp(test=ast.UnaryOp(op=ast.Not(), operand=test), body=node.body, orelse=node.orelse)


def _other_statements(node: ast.AST, returns: ast.expr | None, *, inside: bool) -> Iterator[ast.stmt]:
    match node:
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(value=_instead(value, returns))
        case ast.If() if not node.orelse:
            yield ast.Pass()
        case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete() | ast.Expr() if inside:
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) if inside:
            yield ast.Pass()


def _instead(value: ast.expr, returns: ast.expr | None) -> ast.expr:
    """Return what a function of this type gives back when it is wrong."""
    declared = ast.unparse(returns).partition("[")[0] if returns is not None else "None"
    if declared == "bool":
        return ast.UnaryOp(op=ast.Not(), operand=value)
    return ast.parse(_EMPTY.get(declared, "None"), mode="eval").body


def _brief(text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"{first} ..." if rest else first
