"""Reads a policy from bytes, or reports all its errors.

The file is read strictly and once: bytes, text, node tree, models. Whatever the bytes are, the result is a policy or a
`PolicyError`; a controller that polls the file relies on that.
"""

from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rebalancer.policy.base import Section
from rebalancer.policy.consistency import find_inconsistencies
from rebalancer.policy.document import Policy
from rebalancer.policy.explain import explain, get_path
from rebalancer.policy.problems import PolicyError, PolicyProblem
from rebalancer.policy.teams import LARGEST_TEAM_FILE, TEAM_KIND, TeamPolicy
from rebalancer.policy.wording import format_path
from rebalancer.yaml_tree import EmptyError, Path, Place, Tree, UnreadableError, read_tree

LARGEST_FILE = 1024 * 1024
"""The most bytes that a ConfigMap can hold."""

_MOST_PROBLEMS = 100
_NOT_EMPTY = "; expected at least apiVersion and kind"
_MANIFEST = (
    "found the manifest of a ConfigMap; expected the policy itself, the text below data.policy.yaml, in a file of its "
    "own (`rebalancer policy show --policy configmap:NAMESPACE/NAME` reads it from a cluster)"
)
_HINT = " (`rebalancer policy show` prints all fields)"
_Document = TypeVar("_Document", Policy, TeamPolicy)


def load_policy(data: bytes, *, source: str) -> Policy:
    """Read a policy; PolicyError names `source`, line and field of every problem."""
    return _load(Policy, data, source, _HINT, LARGEST_FILE, "which is what a ConfigMap holds")


def load_team_policy(data: bytes, *, source: str) -> TeamPolicy:
    """Read a team policy; PolicyError names `source`, line and field of every problem."""
    return _load(TeamPolicy, data, source, "", LARGEST_TEAM_FILE, "which is what a team policy may have")


def is_team_policy(data: bytes) -> bool:
    """Return whether a file declares that it is a team policy, even if it is not a valid one."""
    try:
        return read_tree(_decode_text(data, LARGEST_FILE, "")).value.get("kind") == TEAM_KIND
    except UnreadableError:
        return False


def _load(model: type[_Document], data: bytes, source: str, hint: str, largest: int, why: str) -> _Document:
    try:
        tree = read_tree(_decode_text(data, largest, why))
    except UnreadableError as error:
        expected = _NOT_EMPTY + hint if isinstance(error, EmptyError) else ""
        raise PolicyError(source=source, problems=(PolicyProblem(error.line, "", error.message + expected),)) from None
    if tree.value.get("kind") == "ConfigMap":
        problem = PolicyProblem(_find_place(tree, ("kind",)).line, "kind", _MANIFEST)
        raise PolicyError(source=source, problems=(problem,))
    try:
        policy = model.model_validate(tree.value, by_alias=True, by_name=False)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    else:
        if not tree.problems:
            inconsistencies = find_inconsistencies(policy.groups, tree.places)
            tree.problems.extend((tree.places[path].line, path, message) for path, message in inconsistencies)
        if not tree.problems:
            return policy
        errors = []
    located: dict[tuple[int, Path], str | ErrorDetails] = {
        (line, path): message for line, path, message in tree.problems
    }
    for detail in errors:
        located.setdefault((_find_place(tree, get_path(detail)).line, get_path(detail)), detail)
    raise _make_error(model, tree, located, source=source)


def _decode_text(data: bytes, largest: int, why: str) -> str:
    if len(data) > largest:
        message = f"the file has {len(data):,} bytes; expected at most {largest:,}, {why}"
        raise UnreadableError(line=1, message=message)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"found the byte 0x{data[error.start]:02x}; expected text in UTF-8"
        raise UnreadableError(line=line, message=message) from None


def _make_error(
    model: type[Section], tree: Tree, located: dict[tuple[int, Path], str | ErrorDetails], *, source: str
) -> PolicyError:
    """Make the error with the first hundred problems; suggestions for thousands would take longer than the rest."""
    ordered = sorted(located.items(), key=lambda item: (item[0][0], format_path(item[0][1])))
    problems = tuple(
        PolicyProblem(
            line,
            format_path(path),
            what if isinstance(what, str) else explain(what, place=tree.places.get(path), root=model),
        )
        for (line, path), what in ordered[:_MOST_PROBLEMS]
    )
    return PolicyError(source=source, problems=problems, unlisted=len(ordered) - len(problems))


def _find_place(tree: Tree, path: Path) -> Place:
    """Return the place of a path, or of the nearest mapping or list around it."""
    while path not in tree.places:
        path = path[:-1]
    return tree.places[path]
