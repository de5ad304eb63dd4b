"""Patches that can be applied one after the other, although removing an item of a list moves the later items.

If an earlier patch of the same object removed or moved the item that a patch names, this patch is left out. The next
call of lint has it, with the new index.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rebalancer.lint.finding import Finding
from rebalancer.lint.manifest import Manifest, Path


def drop_displaced(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings, without the patches that no longer apply after the patches before them."""
    removed = defaultdict[Manifest, list[Path]](list)
    for finding in findings:
        gone = removed[finding.manifest]
        if any(_is_displaced(operation.path, item) for operation in finding.patch for item in gone):
            yield replace(finding, patch=())
            continue
        gone += [one.path for one in finding.patch if one.op == "remove" and isinstance(one.path[-1], int)]
        yield finding


def _is_displaced(path: Path, item: Path) -> bool:
    """Return whether a path leads through a removed item of a list, or through an item after a removed one."""
    *way, position = item
    if len(path) < len(item) or path[: len(way)] != tuple(way):
        return False
    step = path[len(way)]
    return isinstance(step, int) and isinstance(position, int) and step >= position
