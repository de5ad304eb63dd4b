"""Reads a policy from bytes, or reports all its errors.

The file is read strictly and once: bytes, text, node tree, models. Whatever the bytes are, the result is a `Policy` or
a `PolicyError`; a controller that polls the file relies on that.
"""

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rebalancer.policy.consistency import find_inconsistencies
from rebalancer.policy.document import Policy
from rebalancer.policy.explain import explain, get_path
from rebalancer.policy.problems import PolicyError, Problem
from rebalancer.policy.wording import format_path
from rebalancer.yaml_tree import EmptyError, Path, Place, Tree, UnreadableError, read_tree

LARGEST_FILE = 1024 * 1024
"""Bytes; what a ConfigMap can hold."""

_MOST_PROBLEMS = 100
_NOT_EMPTY = "; expected at least apiVersion and kind (`rebalancer policy show` prints all fields)"


def load_policy(data: bytes, *, source: str) -> Policy:
    """Read a policy; PolicyError names `source`, line and field of every problem."""
    try:
        tree = read_tree(_decode_text(data))
    except UnreadableError as error:
        hint = _NOT_EMPTY if isinstance(error, EmptyError) else ""
        raise PolicyError(source=source, problems=(Problem(error.line, "", error.message + hint),)) from None
    try:
        policy = Policy.model_validate(tree.value, by_alias=True, by_name=False)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    else:
        if not tree.problems:
            tree.problems.extend(
                (tree.places[path].line, path, message) for path, message in find_inconsistencies(policy, tree.places)
            )
        if not tree.problems:
            return policy
        errors = []
    located: dict[tuple[int, Path], str | ErrorDetails] = {
        (line, path): message for line, path, message in tree.problems
    }
    for detail in errors:
        located.setdefault((_find_place(tree, get_path(detail)).line, get_path(detail)), detail)
    raise _make_error(tree, located, source=source)


def _decode_text(data: bytes) -> str:
    if len(data) > LARGEST_FILE:
        message = (
            f"the file has {len(data):,} bytes; expected at most {LARGEST_FILE:,}, which is what a ConfigMap holds"
        )
        raise UnreadableError(line=1, message=message)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"found the byte 0x{data[error.start]:02x}; expected text in UTF-8"
        raise UnreadableError(line=line, message=message) from None


def _make_error(tree: Tree, located: dict[tuple[int, Path], str | ErrorDetails], *, source: str) -> PolicyError:
    """Make the error with the first hundred problems; suggestions for thousands would take longer than the rest."""
    ordered = sorted(located.items(), key=lambda item: (item[0][0], format_path(item[0][1])))
    problems = tuple(
        Problem(line, format_path(path), what if isinstance(what, str) else explain(what, place=tree.places.get(path)))
        for (line, path), what in ordered[:_MOST_PROBLEMS]
    )
    return PolicyError(source=source, problems=problems, unlisted=len(ordered) - len(problems))


def _find_place(tree: Tree, path: Path) -> Place:
    """Return the place of a path, or of the nearest mapping or list around it."""
    while path not in tree.places:
        path = path[:-1]
    return tree.places[path]
