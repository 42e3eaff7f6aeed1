"""Decode attention: who reads which keys, how much arithmetic each byte of the cache gets, what sharing leaves alone.

`_formulas` holds the arithmetic, one function each. `_variants` applies it to a model's layers and says
what a model would be with other KV heads or with a latent. `_panel` is the live panel of the chapter.
"""

from calc.attention._formulas import (
    break_even_tokens,
    compute_share,
    copies,
    decode_flop,
    decode_intensity,
    equivalent_kv_heads,
    expansion_flop,
    kv_head_of,
    latent_decode_flop,
    latent_decode_intensity,
    machine_balance,
    prefill_attention_flop,
)
from calc.attention._panel import attention_panel
from calc.attention._variants import (
    as_multi_head,
    flop_of,
    intensity_of,
    kv_parameters,
    main_mixer,
    multi_head,
    prefill_flop,
    sharing,
    variants,
    with_kv_heads,
)

__all__ = [
    "as_multi_head",
    "attention_panel",
    "break_even_tokens",
    "compute_share",
    "copies",
    "decode_flop",
    "decode_intensity",
    "equivalent_kv_heads",
    "expansion_flop",
    "flop_of",
    "intensity_of",
    "kv_head_of",
    "kv_parameters",
    "latent_decode_flop",
    "latent_decode_intensity",
    "machine_balance",
    "main_mixer",
    "multi_head",
    "prefill_attention_flop",
    "prefill_flop",
    "sharing",
    "variants",
    "with_kv_heads",
]
