"""The errors of a policy file, as data and as lines of text."""

from collections.abc import Iterator
from dataclasses import dataclass

from rebalancer.model.visible import visible_lines


@dataclass(frozen=True, slots=True, order=True)
class PolicyProblem:
    """One error. `line` counts from 1; `field` is the dotted path with the file's field names, "" for the file."""

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        """Show field and message."""
        return f"{self.field}: {self.message}" if self.field else self.message


class PolicyError(Exception):
    """A policy file was refused.

    The message has all problems, ordered by line. `unlisted` counts those beyond the first hundred.
    """

    def __init__(self, *, source: str, problems: tuple[PolicyProblem, ...], unlisted: int = 0) -> None:
        self.source = source
        self.problems = problems
        self.unlisted = unlisted
        super().__init__(source, problems, unlisted)

    def __str__(self) -> str:
        """Show one line for each problem, in a form that editors can jump to: `policy.yaml:7: budgets.perNode: …`."""
        return visible_lines(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield one line a problem."""
        for problem in self.problems:
            yield f"{self.source}:{problem.line}: {problem}"
        if self.unlisted:
            yield f"{self.source}: and {self.unlisted} more"
