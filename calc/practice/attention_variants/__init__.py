"""Practice problems of the chapter on attention variants, on models of the catalogue."""

from calc.practice.attention_variants._arithmetic import absorb_or_expand, idle_factor, kv_weights
from calc.practice.attention_variants._design import new_model
from calc.practice.attention_variants._ranks import copies, data_parallel, group_total, rank_ratio
from calc.practice.attention_variants._stored import as_multi_head, expanded, latent_in_heads

PROBLEMS = (  # easy to hard
    as_multi_head,
    copies,
    latent_in_heads,
    rank_ratio,
    group_total,
    expanded,
    kv_weights,
    idle_factor,
    data_parallel,
    absorb_or_expand,
    new_model,
)
