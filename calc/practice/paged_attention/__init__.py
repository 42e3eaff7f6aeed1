"""Practice problems of the chapter on paged attention."""

from calc.practice.paged_attention._address import key_address, slot, value_distance
from calc.practice.paged_attention._memory import blocks_held, forked, last_block, more_sequences, recovered
from calc.practice.paged_attention._prefix import again, cache_plan, system_prompt, with_drafter

PROBLEMS = (  # easy to hard
    slot,
    blocks_held,
    again,
    key_address,
    value_distance,
    last_block,
    recovered,
    more_sequences,
    with_drafter,
    forked,
    system_prompt,
    cache_plan,
)
