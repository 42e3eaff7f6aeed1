"""Choosing an engine: exact compatibility first, then the same answers, then the cost of a good token.

`_table` holds what is known of each engine and where it was read, `_filter` asks it about a deployment,
`_agreement` compares answers and says what the comparison proves, with `_formulas`, `_recorded` reads the same load on
several engines, `_money` and `_choice` turn good tokens into money and name what would change the decision.
"""

from calc.selection._agreement import Agreement, agreement, first_divergence, share_interval
from calc.selection._choice import MONTH_HOURS, Candidate, Decision, affordable, decide
from calc.selection._filter import NOTHING, Needs, Verdict, screen
from calc.selection._formulas import agreement_bound, equal_share, flip_rate, rule_of_three
from calc.selection._money import (
    bought_cost,
    break_even_busy_share,
    break_even_demand,
    break_even_price_ratio,
    cost_per_million,
    fleet_cost,
    good_rate,
    machines,
    payback_hours,
)
from calc.selection._panel import selection_panel
from calc.selection._recorded import Load, Served, answers_of, read_loads, served, served_by, together
from calc.selection._table import (
    NO,
    UNKNOWN,
    YES,
    Bug,
    Cell,
    bugs_checked,
    cell,
    criteria,
    criterion_label,
    engine_name,
    engines,
    hardware_cell,
    options,
    quantization_cell,
    speculation_cell,
    status,
)

__all__ = [
    "MONTH_HOURS",
    "NO",
    "NOTHING",
    "UNKNOWN",
    "YES",
    "Agreement",
    "Bug",
    "Candidate",
    "Cell",
    "Decision",
    "Load",
    "Needs",
    "Served",
    "Verdict",
    "affordable",
    "agreement",
    "agreement_bound",
    "answers_of",
    "bought_cost",
    "break_even_busy_share",
    "break_even_demand",
    "break_even_price_ratio",
    "bugs_checked",
    "cell",
    "cost_per_million",
    "criteria",
    "criterion_label",
    "decide",
    "engine_name",
    "engines",
    "equal_share",
    "first_divergence",
    "fleet_cost",
    "flip_rate",
    "good_rate",
    "hardware_cell",
    "machines",
    "options",
    "payback_hours",
    "quantization_cell",
    "read_loads",
    "rule_of_three",
    "screen",
    "selection_panel",
    "served",
    "served_by",
    "share_interval",
    "speculation_cell",
    "status",
    "together",
]
