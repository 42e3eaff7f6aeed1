"""The sizing worksheet: the whole book as one function of a model, its hardware and a load.

`size` puts the chapters' functions together and returns a `Report`, which the page, the notebook and the command line
show alike. `_choices` checks what a reader chose and looks it up, `_memory`, `_time` and `_service` make the sections,
`_warnings` says which choices mislead, `_lines` and `_report` are what they are made of. `explain_log` reads a start-up
log. `_page` is the page's form and what its worker answers.
"""

from calc.worksheet._choices import arithmetic_types, cache_types, weight_types
from calc.worksheet._lines import STEPS, Line, Section, Warned, chapter_name, link_of
from calc.worksheet._log import MEANINGS, LogLine, LogReport, explain_log
from calc.worksheet._page import GROUPS, Field, export_json, form, log_json, worksheet_json
from calc.worksheet._report import Report
from calc.worksheet._size import size

__all__ = [
    "GROUPS",
    "MEANINGS",
    "STEPS",
    "Field",
    "Line",
    "LogLine",
    "LogReport",
    "Report",
    "Section",
    "Warned",
    "arithmetic_types",
    "cache_types",
    "chapter_name",
    "explain_log",
    "export_json",
    "form",
    "link_of",
    "log_json",
    "size",
    "weight_types",
    "worksheet_json",
]
