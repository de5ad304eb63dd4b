"""The Grafana dashboard, made with the vendor's own models.

`deploy/monitoring/dashboard.json` is written from it by `make docs`.
"""

from collections.abc import Sequence
from typing import Final

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    VariableOption,
    VariableRefresh,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from tools.dashboard_panels import ROWS, Form, Panel

UID: Final = "rebalancer"
_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_ALL: Final = VariableOption(text="All", value="$__all", selected=True)


def dashboard_text() -> str:
    """Return the dashboard as its file holds it."""
    return JSONEncoder(sort_keys=True, indent=2).encode(_dashboard().build()) + "\n"


def _dashboard() -> dashboard.Dashboard:
    board = (
        dashboard.Dashboard("Rebalancer")
        .uid(UID)
        .description("How pods are spread over the domains of a cluster, and what Rebalancer repairs.")
        .tags(["kubernetes", "rebalancer"])
        .refresh("1m")
        .time("now-6h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_variable("cluster", "Cluster", "label_values(rebalancer_build_info, cluster)"))
        .with_variable(_variable("namespace", "Namespace", "label_values(rebalancer_constraint_skew, namespace)"))
    )
    number = 0
    for title, panels in ROWS:
        number += 1
        board = board.with_row(dashboard.Row(title).id(number))
        for panel in panels:
            number += 1
            board = board.with_panel(_panel(panel, number))
    return board


def _variable(name: str, label: str, query: str) -> dashboard.QueryVariable:
    """Return a variable with all values of a label; `All` also matches series without the label."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .datasource(_SOURCE)
        .query(query)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
        .current(_ALL)
    )


def _panel(panel: Panel, number: int) -> stat.Panel | table.Panel | timeseries.Panel:
    made: stat.Panel | table.Panel | timeseries.Panel
    match panel.form:
        case Form.NUMBER:
            made = stat.Panel().height(4)
        case Form.TABLE:
            made = table.Panel().height(8)
        case Form.LINES:
            legend = common.VizLegendOptions().show_legend(show_legend=True)
            legend = legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
            made = timeseries.Panel().height(8).legend(legend)
    made = made.id(number).title(panel.title).description(panel.about).datasource(_SOURCE)
    made = made.unit(panel.unit).span(panel.width)
    for target in _targets(panel):
        made = made.with_target(target)
    return made


def _targets(panel: Panel) -> Sequence[prometheus.Dataquery]:
    """Return the queries with their letters; lines query a range, numbers and tables an instant."""
    targets = []
    for letter, query in zip("ABCDEF", panel.queries, strict=False):
        target = prometheus.Dataquery().ref_id(letter).datasource(_SOURCE).expr(query.expr)
        if query.legend:
            target = target.legend_format(query.legend)
        match panel.form:
            case Form.LINES:
                target = target.range()
            case Form.TABLE:
                target = target.instant().format(PromQueryFormat.TABLE)
            case Form.NUMBER:
                target = target.instant()
        targets.append(target)
    return targets
