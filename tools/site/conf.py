"""Builds the site from the pages of this repository as they are: `make site`.

The source folder is the top of the repository, so that relative links between pages and to manifests work both on the
site and in the repository's viewer. The pages have no text only for Sphinx: the order of the navigation is here, and is
added while a page is read. Some mistakes are warnings, and a warning ends the build: a page that is missing in
`CONTENTS`, a link or a heading that does not exist, and a link to a folder.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

from rebalancer import __version__

CONTENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Start": ("docs/quickstart", "docs/reading"),
    "Solve a problem": ("docs/after-a-zone-outage", "docs/statefulset-volumes", "docs/scale-up-pending"),
    "Examples": (
        "docs/examples/zone-back/README",
        "docs/examples/redis-limits/README",
        "docs/examples/autoscaled/README",
        "docs/examples/prevention/README",
        "docs/examples/approval/README",
    ),
    "Understand": ("docs/concepts", "docs/comparison"),
    "Use": ("docs/policy", "docs/lint", "docs/prevention"),
    "Operate": (
        "docs/install",
        "deploy/chart/rebalancer/README",
        "docs/operations",
        "docs/security",
        "SECURITY",
    ),
    "Look up": (
        "docs/reference/commands",
        "docs/reference/policy",
        "docs/reference/reasons",
        "docs/reference/metrics",
        "docs/library",
        "docs/recordings/README",
        "CHANGELOG",
    ),
    "Develop": (
        "CONTRIBUTING",
        "docs/design",
        "docs/results",
        "tools/control-plane/README",
    ),
}
"""The pages of each part of the navigation, in the reading order for newcomers."""

ROOT: Final = Path(__file__).resolve().parents[2]
RUNBOOKS: Final = tuple(sorted(f"deploy/runbooks/{path.stem}" for path in (ROOT / "deploy/runbooks").glob("*.md")))
BELOW: Final[Mapping[str, tuple[str, ...]]] = {"docs/operations": RUNBOOKS}
"""Pages that the navigation shows below another one."""

project = "Rebalancer"
author = "The Rebalancer authors"
release = __version__

extensions = ["myst_parser"]
root_doc = "docs/quickstart"
include_patterns = ["docs/**.md", "deploy/**.md", "tools/**.md", "[A-Z]*.md"]
exclude_patterns = ["README.md", ".*", "**/.*", "build", "dist", "**/node_modules"]
nitpicky = True

# Headings have the anchors that GitHub gives them.
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"Rebalancer {release}"
html_extra_path = ["root"]
"""The address of the site leads to its first page."""

html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "default"
pygments_dark_style = "monokai"


def navigation(pages: Sequence[str], caption: str = "") -> str:
    """Write a part of the navigation as MyST does."""
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    return "\n".join(
        ["", "```{toctree}", *options, "", *("self" if page == root_doc else f"/{page}" for page in pages), "```", ""]
    )


def add_navigation(_app: Sphinx, name: str, source: list[str]) -> None:
    """Add the navigation to the first page, and to pages with pages below them."""
    if name == root_doc:
        source[0] += "".join(navigation(pages, caption) for caption, pages in CONTENTS.items())
    if name in BELOW:
        source[0] += navigation(BELOW[name])


def setup(app: Sphinx) -> Mapping[str, Any]:
    """Connect with Sphinx. The diagram of a move is shown as its text, since drawing it would need a script."""
    app.connect("source-read", add_navigation)
    app.add_lexer("mermaid", TextLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
