"""Decode attention: who reads which keys, how much arithmetic each byte of the cache gets, what sharing leaves alone.

`_formulas` holds the arithmetic, one function each. `_variants` applies it to a model's layers and says
what a model would be with other KV heads or with a latent. `_panel` is the live panel of the chapter.
"""

from calc.attention._formulas import (
    break_even_tokens,
    copies,
    equivalent_kv_heads,
    kv_head_of,
)
from calc.attention._panel import attention_panel
from calc.attention._variants import (
    as_multi_head,
    kv_parameters,
    main_mixer,
    multi_head,
    sharing,
    variants,
    with_kv_heads,
)

__all__ = [
    "as_multi_head",
    "attention_panel",
    "break_even_tokens",
    "copies",
    "equivalent_kv_heads",
    "kv_head_of",
    "kv_parameters",
    "main_mixer",
    "multi_head",
    "sharing",
    "variants",
    "with_kv_heads",
]
