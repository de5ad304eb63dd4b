"""The address of a view: what it selects, and the addresses of other selections.

Every choice of a reader is in the address, so that it survives a renewal and can be sent to others.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from rebalancer.documents.overview import VIOLATED, RowState, Selection

REFRESH_SECONDS: Final = 30
"""A browser renews the page after this many seconds while nothing moves."""

_FILTERS: Final = ("namespace", "workload", "node", "state", "reason", "q")
_PARAMETERS: Final = (*_FILTERS, "page", "refresh", "table", "trend", "why")
_LONGEST: Final = 253
_LONGEST_NUMBER: Final = 8


class PageAddress:
    """The path of a view and its query. A parameter that means nothing counts as absent."""

    def __init__(self, path: str, query: Mapping[str, str]) -> None:
        self.path = path
        # Every link repeats them: of what somebody makes up nothing may be left, and no more than a name is long.
        self._query = {name: query[name][:_LONGEST] for name in _PARAMETERS if name in query}

    @property
    def search(self) -> str:
        """The part of a name that is looked for."""
        return self._query.get("q", "").strip()

    @property
    def refreshes(self) -> bool:
        """Whether the browser renews the page by itself."""
        return self._query.get("refresh") != "off"

    @property
    def filtered(self) -> bool:
        return any(self._query.get(name) for name in _FILTERS)

    @property
    def selection(self) -> Selection:
        """What is selected; the overview shows what is violated unless it is asked for more."""
        state = self._query.get("state", "")
        known = state if state in {VIOLATED, *RowState} else ""
        page = self._query.get("page", "1")
        return Selection(
            namespace=self._query.get("namespace", ""),
            workload=self._query.get("workload", ""),
            node=self._query.get("node", ""),
            state=known or (VIOLATED if self.path == "/" and not self.filtered else ""),
            reason=self._query.get("reason", ""),
            search=self.search,
            page=int(page) if page.isdecimal() and len(page) <= _LONGEST_NUMBER else 1,
        )

    def value(self, name: str) -> str:
        """Return a parameter, "" where it is absent."""
        return self._query.get(name, "")

    def link(self, path: str = "", **changes: str | int) -> str:
        """Return the address of this or another view with the selection, changed; "" leaves a parameter out."""
        query = {**self._query, **{name: str(value) for name, value in changes.items()}}
        text = urlencode({name: value for name, value in sorted(query.items()) if value})
        there = f".{path or self.path}"
        return f"{there}?{text}" if text else there

    def filter(self, **changes: str) -> str:
        """Return the address of another selection: its first page."""
        return self.link(self.path, page="", **changes)
