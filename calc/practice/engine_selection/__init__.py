"""Practice problems of the chapter on choosing an engine."""

from calc.practice.engine_selection._answers import agreement_in_all, divergence, longer_answers, requests_for_proof
from calc.practice.engine_selection._cost import busy_enough, price_ratio, service, tokens_bought, worth_the_upkeep
from calc.practice.engine_selection._runs import broken_run, same_fact

PROBLEMS = (  # easy to hard
    divergence,
    same_fact,
    tokens_bought,
    agreement_in_all,
    requests_for_proof,
    busy_enough,
    longer_answers,
    price_ratio,
    broken_run,
    worth_the_upkeep,
    service,
)
