"""Practice problems of the chapter on split and combined pools."""

from calc.practice.disaggregation._design import split_or_not
from calc.practice.disaggregation._handoff import (
    break_even,
    effective,
    first_token,
    fragment,
    full_link,
    hidden,
    pieces,
)
from calc.practice.disaggregation._pools import balance, counted, one_line, overlap, stranded

PROBLEMS = (  # easy to hard
    pieces,
    fragment,
    effective,
    hidden,
    first_token,
    full_link,
    balance,
    one_line,
    overlap,
    counted,
    stranded,
    break_even,
    split_or_not,
)
