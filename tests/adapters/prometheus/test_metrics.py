"""What is declared becomes what Prometheus reads, with gauges and counters of the tests' own."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from prometheus_client import generate_latest

from rebalancer.adapters.prometheus import Counter, Gauge, Histogram, Metrics


@dataclass(frozen=True)
class Shop:
    """A view: `apples` are those of a cycle, by kind."""

    leads: bool = True
    apples: tuple[tuple[str, int], ...] = (("red", 2),)
    open: bool = False


OPEN = Gauge[Shop](name="shop_open", help="Open.", rows=lambda shop: [((), shop.open)], leader_only=False)
APPLES = Gauge[Shop](
    name="shop_apples",
    help="Apples.",
    labels=("color",),
    values=("green", "red"),
    rows=lambda shop: [((color,), number) for color, number in shop.apples],
)
SALES = Counter(name="shop_sales_total", help="Sales.", labels=("fruit",), values=("apple", "pear"))
VISITS = Counter(name="shop_visits_total", help="Visits.", labels=("city", "day"), values=("monday",))
SECONDS = Histogram(name="shop_seconds", help="Time.", labels=("step",), values=("pay",), buckets=(1.0,))


def metrics_of(*gauges: Gauge[Shop]) -> Metrics[Shop]:
    return Metrics(gauges, (SALES, VISITS, SECONDS), first=Shop(leads=False), refresh=lambda shop: shop)


def lines(metrics: Metrics[Shop]) -> list[str]:
    """Return the exported series of the shop."""
    return [line for line in generate_latest(metrics.registry).decode().splitlines() if line.startswith("shop_")]


def test_a_value_of_a_closed_list_without_a_row_is_zero_not_absent() -> None:
    metrics = metrics_of(APPLES)
    metrics.publish(Shop())
    assert lines(metrics)[:2] == ['shop_apples{color="green"} 0.0', 'shop_apples{color="red"} 2.0']
    metrics.publish(Shop(apples=()))
    assert lines(metrics)[:2] == ['shop_apples{color="green"} 0.0', 'shop_apples{color="red"} 0.0']


def test_where_other_labels_come_first_each_of_their_series_has_every_value() -> None:
    """And nothing has a series that has no row at all."""
    labels = ("city", "color")
    rows = [(("rome", "red"), 1)]
    gauge = replace(APPLES, labels=labels, rows=lambda shop: rows if shop.apples else [])
    metrics = metrics_of(gauge)
    metrics.publish(Shop())
    assert lines(metrics)[:2] == [
        'shop_apples{city="rome",color="green"} 0.0',
        'shop_apples{city="rome",color="red"} 1.0',
    ]
    metrics.publish(Shop(apples=()))
    assert not [line for line in lines(metrics) if "apples" in line]


def test_only_a_leader_exports_what_is_the_leader_s() -> None:
    """Before the first view is published nobody leads."""
    metrics = metrics_of(OPEN, APPLES)
    for shop, shown in ((None, False), (Shop(), True), (Shop(leads=False), False)):
        if shop is not None:
            metrics.publish(shop)
        exported = lines(metrics)
        assert "shop_open 0.0" in exported
        assert any(line.startswith("shop_apples") for line in exported) == shown


def test_what_changes_between_two_views_is_read_at_each_scrape() -> None:
    hours = iter((False, True))
    metrics = Metrics((OPEN,), (), first=Shop(), refresh=lambda shop: replace(shop, open=next(hours)))
    assert [lines(metrics), lines(metrics)] == [["shop_open 0.0"], ["shop_open 1.0"]]


def test_rows_are_made_once_for_what_they_are_made_from() -> None:
    """Not at a scrape, and not for another view of the same."""
    made: list[Shop] = []

    def rows(shop: Shop) -> list[tuple[tuple[str, ...], float]]:
        made.append(shop)
        return [((color,), number) for color, number in shop.apples]

    metrics = metrics_of(replace(APPLES, rows=rows, once_for=lambda shop: shop.apples))
    first, second = Shop(), Shop(apples=(("red", 7),))
    metrics.publish(first)
    metrics.publish(replace(first, open=True))
    for _ in range(3):
        assert lines(metrics)[1] == 'shop_apples{color="red"} 2.0'
    metrics.publish(second)
    assert lines(metrics)[1] == 'shop_apples{color="red"} 7.0'
    assert made == [first, second]


def test_rows_that_cannot_be_made_leave_nothing_of_the_view_before() -> None:
    def rows(shop: Shop) -> list[tuple[tuple[str, ...], float]]:
        return [((color,), 1 // number) for color, number in shop.apples]

    metrics = metrics_of(OPEN, replace(APPLES, rows=rows, values=(), once_for=lambda shop: shop.apples))
    metrics.publish(Shop(apples=(("red", 1),)))
    assert 'shop_apples{color="red"} 1.0' in lines(metrics)
    with pytest.raises(ZeroDivisionError):
        metrics.publish(Shop(apples=(("red", 0),), open=True))
    assert "shop_open 1.0" in lines(metrics)
    assert not [line for line in lines(metrics) if "apples" in line]


def test_counters_begin_at_zero_for_every_value_of_their_only_label() -> None:
    """So the first event after a start is an increase, not a beginning."""
    exported = lines(metrics_of())
    assert {'shop_sales_total{fruit="apple"} 0.0', 'shop_sales_total{fruit="pear"} 0.0'} <= set(exported)
    assert 'shop_seconds_count{step="pay"} 0.0' in exported
    assert not [line for line in exported if "visits" in line]


def test_what_happens_is_counted_by_the_library() -> None:
    metrics = metrics_of()
    metrics.counter(SALES).labels("pear").inc()
    metrics.histogram(SECONDS).labels("pay").observe(3)
    assert {
        'shop_sales_total{fruit="pear"} 1.0',
        'shop_seconds_bucket{le="1.0",step="pay"} 0.0',
        'shop_seconds_bucket{le="+Inf",step="pay"} 1.0',
        'shop_seconds_sum{step="pay"} 3.0',
    } <= set(lines(metrics))


def test_two_processes_in_one_do_not_meet() -> None:
    first, second = metrics_of(), metrics_of()
    first.counter(SALES).labels("pear").inc()
    assert 'shop_sales_total{fruit="pear"} 0.0' in lines(second)


def test_the_process_itself_is_exported_and_not_when_counters_were_made() -> None:
    exported = generate_latest(metrics_of().registry).decode()
    assert "process_resident_memory_bytes" in exported
    assert "python_gc_objects_collected_total" in exported
    assert "_created" not in exported


@pytest.mark.parametrize("once_for", [None, lambda shop: shop.apples])
def test_names_that_are_shown_alike_have_one_series_with_the_worst_value(
    once_for: Callable[[Shop], object] | None,
) -> None:
    """Prometheus would refuse the whole scrape; what a terminal obeys is shown."""
    metrics = metrics_of(replace(APPLES, values=(), once_for=once_for))
    metrics.publish(Shop(apples=(("a\x1b\n", 3), ("a\\x1b\\n", 1), ("b\u202e", 1), ("b\\u202e", 5))))
    shown = lines(metrics)[:2]
    assert shown == ['shop_apples{color="a\\\\x1b\\\\n"} 3.0', 'shop_apples{color="b\\\\u202e"} 5.0']
