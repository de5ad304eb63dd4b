"""The address of a view: its selection, and the addresses of other selections.

Every choice of a reader is in the address, so it survives a renewal and can be shared.
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
    """The path of a view and its query. A meaningless parameter counts as absent."""

    def __init__(self, path: str, query: Mapping[str, str]) -> None:
        self.path = path
        # Every link repeats the parameters, so invented ones are dropped, and values are cut to the length of a name.
        self._query = {name: query[name][:_LONGEST] for name in _PARAMETERS if name in query}

    @property
    def search(self) -> str:
        """The part of a name to search for."""
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
        """The selection; by default the overview selects violated rows."""
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
        """Return a parameter, "" if it is absent."""
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
