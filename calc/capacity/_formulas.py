"""The formulas of a GPU's cache budget, one function each, on plain numbers in base units."""

from math import ceil, floor

from calc.units import dimensions


@dimensions("byte", total_bytes="byte", fraction="")
def usable_bytes(*, total_bytes, fraction):
    """Memory that an engine may use, where its setting is a share of the GPU's total.

    Parameters
    ----------
    total_bytes : float
        Memory of the GPU as a program sees it.
    fraction : float
        Share of it that the engine may use, 0 to 1.

    Returns
    -------
    int
        Whole bytes, rounded up.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    References
    ----------
    vLLM 0.32, ``vllm/v1/worker/utils.py``, ``request_memory``.

    Examples
    --------
    >>> usable_bytes(total_bytes=80e9, fraction=0.9)
    72000000000
    """
    usable_bytes = ceil(total_bytes * fraction)
    return usable_bytes


@dimensions(
    "byte",
    total_bytes="byte",
    fraction="",
    weight_bytes="byte",
    activation_bytes="byte",
    graph_bytes="byte",
    communication_bytes="byte",
)
def pool_bytes(*, total_bytes, fraction, weight_bytes, activation_bytes, graph_bytes, communication_bytes):
    """Memory left for the cache on one GPU, where the fraction covers everything the engine holds.

    Parameters
    ----------
    total_bytes : float
        Memory of the GPU as a program sees it.
    fraction : float
        Share of it that the engine may use, 0 to 1.
    weight_bytes : float
        Weights on this rank.
    activation_bytes : float
        Peak of activations and workspace in the largest step.
    graph_bytes : float
        Captured execution graphs.
    communication_bytes : float
        Communication buffers, the driver's context and whatever else the framework doesn't allocate.

    Returns
    -------
    float
        Bytes; below 0 where the model doesn't fit.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    All but the first two are measured by the engine, by a run of the largest step. Formulas give floors
    for them (`tensor_bytes`).

    References
    ----------
    vLLM 0.32, ``vllm/v1/worker/gpu_worker.py``, ``determine_available_memory``.

    Examples
    --------
    vLLM's own sanity check for Llama-3-8B (vllm-project/vllm pull request 10511) prints 53.29 GiB:

    >>> gib = 1024**3
    >>> left = pool_bytes(total_bytes=79.22 * gib, fraction=0.9, weight_bytes=14.96 * gib,
    ...                   activation_bytes=1.26 * gib, graph_bytes=0, communication_bytes=1.79 * gib)
    >>> round(left / gib, 2)
    53.29
    """
    pool_bytes = ceil(total_bytes * fraction) - weight_bytes - activation_bytes - graph_bytes - communication_bytes
    return pool_bytes


@dimensions("byte", free_bytes="byte", fraction="", weight_bytes="byte")
def static_pool_bytes(*, free_bytes, fraction, weight_bytes):
    """Memory left for the cache, where the fraction covers weights and cache alone.

    Activations, workspace and graphs live in the rest, which nobody measures beforehand.

    Parameters
    ----------
    free_bytes : float
        Free memory before the model is loaded, the smallest of all ranks.
    fraction : float
        Share of it for weights and cache, 0 to 1.
    weight_bytes : float
        Weights on this rank.

    Returns
    -------
    float
        Bytes; below 0 where the model doesn't fit.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    Whether the rest is large enough shows only under load.

    References
    ----------
    SGLang 0.5.23, ``python/sglang/srt/mem_cache/kv_cache_configurator.py``, ``_profile_available_bytes``.

    Examples
    --------
    >>> static_pool_bytes(free_bytes=80e9, fraction=0.9, weight_bytes=40e9)
    32000000000.0
    """
    static_pool_bytes = floor(free_bytes * fraction) - weight_bytes
    return static_pool_bytes


@dimensions("byte", total_bytes="byte", fraction="", weight_bytes="byte", workspace_bytes="byte")
def remainder_pool_bytes(*, total_bytes, fraction, weight_bytes, workspace_bytes):
    """Memory left for the cache, where the fraction is of what the rest has left over.

    Parameters
    ----------
    total_bytes : float
        Memory of the GPU as a program sees it.
    fraction : float
        Share of the remainder that becomes cache, 0 to 1.
    weight_bytes : float
        Weights on this rank.
    workspace_bytes : float
        What else is taken when the engine looks: peak activations where it measures them, 0 where it looks
        right after loading.

    Returns
    -------
    float
        Bytes; below 0 where the model doesn't fit.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    The larger the model, the less the fraction keeps back: its reserve is a share of the remainder.

    References
    ----------
    TensorRT-LLM, ``KvCacheCreator._cal_max_memory``; LMDeploy 0.16.0, ``TurboMind::Impl::CreateEngine``.

    Examples
    --------
    LMDeploy's documentation works out a 13B model on an 80 GB card:

    >>> remainder_pool_bytes(total_bytes=80e9, fraction=0.8, weight_bytes=26e9, workspace_bytes=0)
    43200000000
    """
    remainder_pool_bytes = floor((total_bytes - weight_bytes - workspace_bytes) * fraction)
    return remainder_pool_bytes


@dimensions("byte", rows="count", width="count", element_bytes="byte")
def tensor_bytes(*, rows, width, element_bytes):
    """Bytes of one activation: a row for every token, or every sequence, of a step.

    Parameters
    ----------
    rows : int
        Tokens in the step; for logits, positions whose next token is sampled.
    width : int
        Elements in a row: the MLP's width on this rank, or the vocabulary.
    element_bytes : float
        Bytes per element: 2 for bf16; samplers work on fp32, 4.

    Returns
    -------
    int or float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    One tensor of many. The peak of a step is the most that is alive at once, which only a run shows; its
    largest tensor is a floor for it.

    Examples
    --------
    The logits of 10,000 positions over a vocabulary of 256,000, in bf16:

    >>> tensor_bytes(rows=10_000, width=256_000, element_bytes=2)
    5120000000
    """
    tensor_bytes = rows * width * element_bytes
    return tensor_bytes


@dimensions("count", pool_bytes="byte", block_bytes="byte>0")
def pool_blocks(*, pool_bytes, block_bytes):
    """Whole blocks in one rank's pool.

    Parameters
    ----------
    pool_bytes : float
        Memory left for the cache on that rank.
    block_bytes : float
        Bytes of one block in all layers of that rank.

    Returns
    -------
    int
        Blocks, rounded down.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `block_bytes` is 0.

    Notes
    -----
    The rank's own count. All ranks use the smallest: a sequence holds the same blocks on each.

    Examples
    --------
    >>> pool_blocks(pool_bytes=1024**3, block_bytes=81920)
    13107
    """
    pool_blocks = pool_bytes // block_bytes
    return pool_blocks


@dimensions("byte", pool_bytes="byte", blocks="count", block_bytes="byte")
def stranded_bytes(*, pool_bytes, blocks, block_bytes):
    """Memory on one rank that no block uses, because another rank has fewer.

    Parameters
    ----------
    pool_bytes : float
        Memory left for the cache on this rank.
    blocks : int
        Blocks that all ranks have.
    block_bytes : float
        Bytes of one block on this rank.

    Returns
    -------
    float
        Bytes; below one block on the rank that sets the number.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Examples
    --------
    >>> stranded_bytes(pool_bytes=1000, blocks=7, block_bytes=100)
    300
    """
    stranded_bytes = pool_bytes - blocks * block_bytes
    return stranded_bytes


@dimensions("count", window="count>0", in_flight="count", length="count>0", block_tokens="count>0")
def window_request_blocks(*, window, in_flight, length, block_tokens):
    """Most blocks that one request can hold in a group of window layers.

    Blocks fall out of the window only after the step that wrote past them, so a request holds its window
    and what is being written; and one more, because a window begins anywhere in a block.

    Parameters
    ----------
    window : int
        Positions that a token sees, its own included.
    in_flight : int
        Tokens scheduled and not yet settled: the step's token budget, times the steps in flight.
    length : int
        Longest sequence that the engine admits.
    block_tokens : int
        Positions in a block of this group.

    Returns
    -------
    int
        Blocks.

    Raises
    ------
    CalcError
        If an argument is not a whole number of the range given.

    References
    ----------
    vLLM 0.32, ``SlidingWindowSpec.max_admission_blocks_per_request``.

    Examples
    --------
    >>> window_request_blocks(window=128, in_flight=512, length=20_000, block_tokens=128)
    6
    """
    window_request_blocks = ceil(min(window - 1 + in_flight, length) / block_tokens) + 1
    return window_request_blocks


@dimensions("count", window="count>0", in_flight="count", length="count", block_tokens="count>0")
def chunk_request_blocks(*, window, in_flight, length, block_tokens):
    """Most blocks that one request holds in a group of layers that attend within chunks.

    Parameters
    ----------
    window : int
        Positions in a chunk.
    in_flight : int
        Tokens scheduled and not yet settled.
    length : int
        Positions of the longest request.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    int

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or a divisor is 0.

    References
    ----------
    vLLM 0.32, ``vllm/v1/kv_cache_interface.py``, ``ChunkedLocalAttentionSpec``.

    Examples
    --------
    >>> chunk_request_blocks(window=8192, in_flight=16_384, length=131_072, block_tokens=16)
    1536
    """
    chunk_request_blocks = ceil(min(window + in_flight, length) / block_tokens)
    return chunk_request_blocks


@dimensions("", blocks="count", request_blocks="count>0")
def concurrency(*, blocks, request_blocks):
    """How many requests of the longest length the pool holds at once.

    Parameters
    ----------
    blocks : int
        Blocks in the pool.
    request_blocks : int
        Blocks that one such request holds at its end, in all groups of layers together.

    Returns
    -------
    float
        Requests, not rounded.

    Raises
    ------
    CalcError
        If an argument is not a whole number, or `request_blocks` is 0.

    Notes
    -----
    Shorter requests fit in greater number. One block is set aside by vLLM and not deducted here, as in
    its log.

    Examples
    --------
    >>> concurrency(blocks=13107, request_blocks=256)
    51.19921875
    """
    concurrency = blocks / request_blocks
    return concurrency


@dimensions("count", blocks="count", request_blocks="count>0", length="count>0")
def printed_tokens(*, blocks, request_blocks, length):
    """The tokens that vLLM prints as its "KV cache size".

    Parameters
    ----------
    blocks : int
        Blocks in the pool.
    request_blocks : int
        Blocks that one request of the longest length holds, in all groups of layers together.
    length : int
        Longest sequence that the engine admits (``max_model_len``).

    Returns
    -------
    int
        Tokens, rounded down.

    Raises
    ------
    CalcError
        If an argument is not a whole number of the range given.

    Notes
    -----
    It is `concurrency` times the length, not blocks times their size. The two agree where all layers keep
    every position and the length is a whole number of blocks. With window or recurrent layers the number
    depends on the length, and can't be turned back into bytes per token.

    References
    ----------
    vLLM 0.32, ``vllm/v1/core/kv_cache_utils.py``, ``get_kv_cache_capacity``.

    Examples
    --------
    >>> printed_tokens(blocks=3276, request_blocks=40, length=5000)
    409500
    >>> 3276 * 128
    419328
    """
    printed_tokens = floor(blocks / request_blocks * length)
    return printed_tokens


@dimensions("count", state_bytes="byte", token_bytes="byte>0", multiple="count>0")
def hybrid_block_tokens(*, state_bytes, token_bytes, multiple):
    """Positions in a block of a model that also has recurrent layers.

    One pool serves both kinds, so their pages must be equally large. A state can't shrink; the attention
    block grows until its page holds one.

    Parameters
    ----------
    state_bytes : float
        Recurrent and convolution state of one layer on this rank.
    token_bytes : float
        Bytes that one position leaves in one attention layer on this rank.
    multiple : int
        The attention kernel takes blocks of a multiple of this many positions.

    Returns
    -------
    int
        Positions.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or a divisor is 0.

    References
    ----------
    vLLM 0.32, ``vllm/platforms/interface.py``; the log says "Setting attention block size to … tokens".

    Examples
    --------
    >>> hybrid_block_tokens(state_bytes=135_680, token_bytes=512, multiple=128)
    384
    """
    hybrid_block_tokens = multiple * ceil(state_bytes / (multiple * token_bytes))
    return hybrid_block_tokens


@dimensions("1/second", rate="1/second", wasted="")
def useful_rate(*, rate, wasted):
    """Tokens a second that reach users, when part of the work is done twice.

    Parameters
    ----------
    rate : float
        Tokens that the engine computes in a second.
    wasted : float
        Share of them that recompute what a preemption threw away, 0 to 1.

    Returns
    -------
    float
        Tokens a second.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Examples
    --------
    >>> useful_rate(rate=1000, wasted=0.25)
    750.0
    """
    useful_rate = rate * (1 - wasted)
    return useful_rate
