"""Practice problems of the KV-cache chapter, on models of the catalogue."""

from calc.practice.kv_cache._layers import latent, per_rank, uniform_pages, window
from calc.practice.kv_cache._requests import admission, chat_service, finish_positions, room_to_finish
from calc.practice.kv_cache._sizes import (
    conversation,
    head_dim,
    log_heads,
    log_token,
    one_token,
    quantized_weights,
    scales,
    tokens_fit,
)

PROBLEMS = (  # easy to hard
    one_token,
    finish_positions,
    conversation,
    head_dim,
    quantized_weights,
    per_rank,
    latent,
    tokens_fit,
    room_to_finish,
    log_token,
    scales,
    window,
    uniform_pages,
    admission,
    log_heads,
    chat_service,
)
