"""The notation of the book: one symbol for each name that a formula uses, argument, step or result.

A name that two formulas share means the same in both. Add a line here before you show a new formula.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Symbol:
    """The book's notation for one name: plain text such as "n_kv", and what it stands for."""

    text: str
    meaning: str
    unit: str

    @property
    def latex(self) -> str:
        """LaTeX of the symbol: a multi-letter subscript is set upright."""
        base, _, below = self.text.partition("_")
        base = base if len(base) == 1 else rf"\mathrm{{{base}}}"
        return f"{base}_{{\\mathrm{{{below}}}}}" if below else base


SYMBOLS: dict[str, Symbol] = {
    "layers": Symbol("L", "layers that keep a cache", ""),
    "query_heads": Symbol("n_q", "query heads in a layer", ""),
    "kv_heads": Symbol("n_kv", "key-value heads in a layer", ""),
    "head_dim": Symbol("d_h", "elements in one head's key or value", ""),
    "key_dim": Symbol("d_k", "elements in one head's key", ""),
    "value_dim": Symbol("d_v", "elements in one head's value", ""),
    "latent_dim": Symbol("d_c", "elements of the shared latent vector", ""),
    "rope_dim": Symbol("d_r", "elements of the shared rotary key", ""),
    "element_bytes": Symbol("s", "bytes per stored element", "byte"),
    "scale_bytes": Symbol("s_scale", "bytes of one quantization scale", "byte"),
    "group": Symbol("g", "elements that share one scale", ""),
    "positions": Symbol("T", "positions held in the cache", ""),
    "prompt": Symbol("P", "prompt tokens", ""),
    "generated": Symbol("G", "tokens sampled so far", ""),
    "window": Symbol("W", "positions a window layer keeps", ""),
    "hidden": Symbol("d", "width of the residual stream", ""),
    "vocab": Symbol("V", "tokens in the vocabulary", ""),
    "intermediate": Symbol("d_ff", "width inside the feed-forward block", ""),
    "matrices": Symbol("m", "weight matrices of the block: 3 with a gate, 2 without", ""),
    "query_rank": Symbol("d_q", "elements of the query's latent", ""),
    "nope_dim": Symbol("d_n", "elements of a head's key without rotary position", ""),
    "down": Symbol("N_down", "weights from the stream into the latent", ""),
    "up": Symbol("N_up", "weights from the latent into all heads", ""),
    "embedding_parameters": Symbol("N_embed", "weights of the embedding", ""),
    "attention_parameters": Symbol("N_attn", "weights of one attention layer", ""),
    "latent_attention_parameters": Symbol("N_latent", "weights of one latent-attention layer, queries apart", ""),
    "latent_query_parameters": Symbol("N_query", "weights of the queries of a latent layer", ""),
    "mlp_parameters": Symbol("N_ff", "weights of one feed-forward block", ""),
    "ranks": Symbol("R", "tensor-parallel ranks", ""),
    "block_tokens": Symbol("b", "positions in one block", ""),
    "memory_bytes": Symbol("M", "memory given to the cache", "byte"),
    "bytes_per_position": Symbol("B_pos", "cache bytes one position leaves in all layers", "byte"),
    "latent_bytes_per_position": Symbol("B_pos", "cache bytes one position leaves in all layers", "byte"),
    "unequal_bytes_per_position": Symbol("B_pos", "cache bytes one position leaves in all layers", "byte"),
    "sequence_bytes": Symbol("B_seq", "cache bytes of one sequence", "byte"),
    "resident_positions": Symbol("T_res", "positions a layer still holds", ""),
    "kv_heads_per_rank": Symbol("n_rank", "key-value heads stored on one rank", ""),
    "positions_written": Symbol("T", "positions held in the cache", ""),
    "positions_that_fit": Symbol("T_fit", "positions that fit in the memory", ""),
    "sequences_that_fit": Symbol("N_fit", "sequences that fit in the memory", ""),
    "scaled_element_bytes": Symbol("s_eff", "bytes per element with its share of a scale", "byte"),
    "blocks": Symbol("N_b", "blocks held", ""),
    "block_bytes": Symbol("B_block", "bytes of one block in all layers", "byte"),
    # hardware
    "with_sparsity": Symbol("F_sparse", "peak rate printed with structured sparsity", "FLOP/second"),
    "dense_peak": Symbol("F", "dense peak rate", "FLOP/second"),
    "both_directions": Symbol("β_both", "link rate with both directions added", "byte/second"),
    "one_direction": Symbol("β", "link rate in one direction", "byte/second"),
    "clock": Symbol("f", "clock rate", "1/second"),
    "matrix_units": Symbol("n_unit", "matrix units on the chip", ""),
    "fma_per_cycle": Symbol("n_fma", "multiply-adds of one unit in one cycle", ""),
    "peak_from_clock": Symbol("F", "dense peak rate", "FLOP/second"),
    "bus_bits": Symbol("n_bus", "width of the memory bus in bits", ""),
    "transfers_per_cycle": Symbol("n_cycle", "transfers in one cycle", ""),
    "bandwidth_from_bus": Symbol("β", "memory bandwidth", "byte/second"),
    # published values
    "of": Symbol("a", "one quantity", ""),
    "to": Symbol("b", "another of the same kind", ""),
    "ratio": Symbol("r", "how many times one is the other", ""),
    # latency
    "sent_s": Symbol("t_sent", "when the request was sent", "second"),
    "first_token_s": Symbol("t_first", "when the first token arrived", "second"),
    "last_token_s": Symbol("t_last", "when the last token arrived", "second"),
    "output_tokens": Symbol("N", "output tokens of the answer", ""),
    "ttft_s": Symbol("TTFT", "time to first token", "second"),
    "tpot_s": Symbol("TPOT", "time per output token after the first", "second"),
    "e2e_s": Symbol("E2E", "end-to-end latency", "second"),
    "gap_s": Symbol("ITL", "mean gap between messages", "second"),
    "token_rate": Symbol("X_tok", "output tokens per second of all requests", "1/second"),
    "events": Symbol("n", "requests or tokens counted in the window", ""),
    "window_s": Symbol("Δt", "length of the window", "second"),
    "good": Symbol("n_good", "requests that met every objective", ""),
    "completed": Symbol("n_ok", "requests that got a whole answer", ""),
    "failed": Symbol("n_failed", "requests that failed or timed out", ""),
    "time_to_first_token": Symbol("TTFT", "time to first token", "second"),
    "time_per_output_token": Symbol("TPOT", "time per output token after the first", "second"),
    "end_to_end": Symbol("E2E", "end-to-end latency", "second"),
    "tpot_left_by_end_to_end": Symbol("TPOT_left", "time per output token that the end-to-end limit leaves", "second"),
    "normalized_latency": Symbol("L_norm", "end-to-end latency per output token", "second"),
    "tokens_per_message": Symbol("n_msg", "tokens that arrive together", ""),
    "requests_decoding": Symbol("L_dec", "requests that are decoding on average", ""),
    "per_second": Symbol("X", "throughput or goodput", "1/second"),
    "attainment": Symbol("A", "share of requests that met every objective", ""),
    # cache budget
    "total_bytes": Symbol("M_total", "memory of the GPU as a program sees it", "byte"),
    "free_bytes": Symbol("M_free", "memory free before the model is loaded", "byte"),
    "fraction": Symbol("u", "share that the engine's memory setting names", ""),
    "weight_bytes": Symbol("M_w", "weights on the rank", "byte"),
    "activation_bytes": Symbol("M_act", "peak of activations and workspace", "byte"),
    "graph_bytes": Symbol("M_graph", "captured execution graphs", "byte"),
    "communication_bytes": Symbol("M_comm", "communication buffers and the driver's context", "byte"),
    "workspace_bytes": Symbol("M_work", "what is taken besides weights when the engine looks", "byte"),
    "pool_bytes": Symbol("M_pool", "memory left for the cache on the rank", "byte"),
    "static_pool_bytes": Symbol("M_pool", "memory left for the cache on the rank", "byte"),
    "remainder_pool_bytes": Symbol("M_pool", "memory left for the cache on the rank", "byte"),
    "rows": Symbol("n_row", "rows of an activation: tokens or sequences", ""),
    "width": Symbol("d_row", "elements in a row of an activation", ""),
    "tensor_bytes": Symbol("M_row", "bytes of one activation", "byte"),
    "multiple": Symbol("k", "multiple that a size is rounded up to", ""),
    "vocab_rows": Symbol("V_rank", "rows of the embedding on one rank", ""),
    "pool_blocks": Symbol("N_pool", "blocks in the pool of a rank", ""),
    "stranded_bytes": Symbol("M_strand", "memory of a rank's pool that no block uses", "byte"),
    "in_flight": Symbol("T_fly", "tokens scheduled and not yet settled", ""),
    "length": Symbol("T_max", "longest sequence that the engine admits", ""),
    "request_blocks": Symbol("N_req", "blocks of one request at its end", ""),
    "window_request_blocks": Symbol("N_win", "blocks of one request in a group of window layers", ""),
    "concurrency": Symbol("C", "longest requests that the pool holds at once", ""),
    "printed_tokens": Symbol("T_print", "tokens printed as the size of the cache", ""),
    "state_bytes": Symbol("M_state", "recurrent state of one layer", "byte"),
    "token_bytes": Symbol("B_tok", "cache bytes of one position in one layer", "byte"),
    "hybrid_block_tokens": Symbol("b", "positions in one block", ""),
    "rate": Symbol("X", "throughput or goodput", "1/second"),
    "wasted": Symbol("w", "share of the work that is done twice", ""),
    "useful_rate": Symbol("X_use", "throughput that reaches users", "1/second"),
}
