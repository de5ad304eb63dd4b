"""Creates and deletes the Jobs of placeholders for the loop, in whichever thread it is called."""

from collections.abc import Callable

import structlog

from rebalancer.controller.state import CreatePlaceholders, DeletePlaceholders, PlaceholdersCreated
from rebalancer.policy import Capacity
from rebalancer.ports import Placeholders

_log = structlog.get_logger("rebalancer")


class PlaceholderJobs:
    """Carries out the loop's requests about placeholders; `find_objection` is that of `Sender`."""

    def __init__(self, jobs: Placeholders | None, find_objection: Callable[[int], str]) -> None:
        self._jobs = jobs
        self._find_objection = find_objection

    def create(self, request: CreatePlaceholders, rules: Capacity) -> PlaceholdersCreated:
        """Create placeholders one after the other until one is refused; the cycle that follows releases the others."""
        refused: dict[str, str] = {}
        for placeholder in request.placeholders:
            if placeholder.token in refused or self._jobs is None or self._find_objection(request.term):
                continue
            try:
                problem = self._jobs.create_placeholder(placeholder, rules)
            except Exception as error:  # noqa: BLE001  # else the loop would wait for the answer for ever
                _log.exception("placeholder without a result", job=placeholder.name)
                problem = f"{type(error).__name__}: {error}"
            _log.info("placeholder", job=placeholder.name, result=problem or "created")
            if problem:
                refused[placeholder.token] = problem
        return PlaceholdersCreated(refused=refused)

    def delete(self, request: DeletePlaceholders, rules: Capacity) -> None:
        """Delete placeholders."""
        if self._jobs is not None:
            for name in request.names:
                self._jobs.delete_placeholder(rules.namespace, name)
                _log.info("placeholder", job=name, result="deleted")
