"""Whether the LimitRanges of a namespace admit a pod: minimum, maximum, and the ratio of limit to request.

Source: `plugin/pkg/admission/limitranger/admission.go`, PodValidateLimitFunc.
"""

from collections.abc import Iterator, Mapping

from msgspec import structs

from rebalancer.model.containers import PodRequests
from rebalancer.model.creation import LimitRange, LimitRangeItem
from rebalancer.model.facts import Refusal
from rebalancer.model.quantities import format_amount
from rebalancer.model.reasons import Reason
from rebalancer.model.requests import sum_amounts, sum_limits


class LimitRangeViolated(Refusal):
    """A LimitRange refuses the replacement."""

    reason = Reason.CANNOT_CREATE
    name: str
    rule: str
    """The LimitRange's rule: `min`, `max` or `maxLimitRequestRatio`."""
    resource: str
    bound: int
    """The rule's bound; a ratio is in thousandths."""
    amount: int | None
    """The amount that violates the bound, in the same unit; None if nothing is stated."""
    container: str = ""
    """The container's name, "" if the pod as a whole is evaluated."""

    def __str__(self) -> str:
        return f"LimitRange {self.name} refuses its replacement: {self.what}. Change the template or the LimitRange"

    @property
    def what(self) -> str:
        """The bound, and what violates it."""

        def show(number: int) -> str:
            ratio = self.rule == "maxLimitRequestRatio"
            return f"{number / 1000:g}" if ratio else format_amount(self.resource, number)

        who = f"container {self.container}" if self.container else "the pod"
        has = f"{who} states none" if self.amount is None else f"{who} has {show(self.amount)}"
        return f"{self.rule} of {self.resource} is {show(self.bound)}, and {has}"


class RequestAboveLimit(Refusal):
    """A container would request more than its limit, so the API server refuses the pod."""

    reason = Reason.CANNOT_CREATE
    container: str
    resource: str
    requested: int
    limit: int

    def __str__(self) -> str:
        requested, limit = (format_amount(self.resource, amount) for amount in (self.requested, self.limit))
        return (
            f"container {self.container} of its replacement would request {requested} of {self.resource}, more than "
            f"its limit of {limit}: the API server refuses such pods. Change the template or the LimitRange's default"
        )


def refuse_above_limits(requested: PodRequests) -> RequestAboveLimit | None:
    """Return which container requests more than its limit, or None."""
    for container in requested.containers:
        limits = dict(container.limits)
        for name, amount in container.requests:
            if amount > limits.get(name, amount):
                return RequestAboveLimit(container.name, name, amount, limits[name])
    return None


def refuse_by_limits(limits: LimitRange, requested: PodRequests) -> LimitRangeViolated | None:
    """Return why a LimitRange refuses a pod, or None."""
    for item in limits.items:
        judged: list[tuple[str, Mapping[str, int], Mapping[str, int]]] = []
        if item.kind == "Container":
            judged = [(one.name, dict(one.requests), dict(one.limits)) for one in requested.containers]
        elif item.kind == "Pod":
            without = structs.replace(requested, overhead=())
            judged = [("", sum_amounts(without), sum_limits(without))]
        for container, requests, upper in judged:
            for rule, resource, bound, amount in _violations(item, requests, upper):
                return LimitRangeViolated(f"{limits.namespace}/{limits.name}", rule, resource, bound, amount, container)
    return None


def _violations(
    item: LimitRangeItem, requests: Mapping[str, int], limits: Mapping[str, int]
) -> Iterator[tuple[str, str, int, int | None]]:
    """Yield violations of an item: rule, resource, bound, and the violating amount."""
    for name, bound in item.least:
        request, limit = requests.get(name), limits.get(name)
        if request is None or request < bound:
            yield "min", name, bound, request
        elif limit is not None and limit < bound:
            yield "min", name, bound, limit
    for name, bound in item.most:
        request, limit = requests.get(name), limits.get(name)
        if limit is None or limit > bound:
            yield "max", name, bound, limit
        elif request is not None and request > bound:
            yield "max", name, bound, request
    for name, bound in item.ratio:
        request, limit = requests.get(name), limits.get(name)
        if not request or not limit:
            yield "maxLimitRequestRatio", name, bound, None
        elif limit * 1000 > bound * request:
            yield "maxLimitRequestRatio", name, bound, limit * 1000 // request
