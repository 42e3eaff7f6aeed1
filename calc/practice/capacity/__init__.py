"""Practice problems of the cache-budget chapter."""

from calc.practice.capacity._budgets import blocks, fraction, logits, pool
from calc.practice.capacity._logs import residual, windows
from calc.practice.capacity._ranks import attention, experts, shared, stages
from calc.practice.capacity._requests import finish, node, tax

PROBLEMS = (  # easy to hard
    pool,
    blocks,
    shared,
    tax,
    logits,
    attention,
    fraction,
    stages,
    finish,
    experts,
    residual,
    windows,
    node,
)
