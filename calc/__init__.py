"""The sizing mathematics of LLM inference: one formula, one function, one home.

Every function is small, pure and keyword-only. Its body is the formula, so the book can print
the formula, the numbers put in and the result from the code that computed it. The core needs
Python's standard library alone; modules are imported by name, so ``import calc`` costs nothing.

Examples
--------
>>> from calc import kv_cache
>>> kv_cache.bytes_per_position(layers=80, kv_heads=8, head_dim=128, element_bytes=2)
327680
"""

__version__ = "0.1.0"
