"""The formulas of the cache, one function each, on plain numbers in base units."""

from math import ceil

from calc.units import dimensions


@dimensions("byte", layers="count", kv_heads="count", head_dim="count", element_bytes="byte")
def bytes_per_position(*, layers, kv_heads, head_dim, element_bytes):
    """Cache bytes that one token leaves behind in all layers together.

    Two vectors, a key and a value, for every KV head of every layer. Query heads leave nothing.

    Parameters
    ----------
    layers : int
        Layers that keep a cache.
    kv_heads : int
        Key-value heads in each layer, not query heads.
    head_dim : int
        Elements in one head's key, equal to those in its value.
    element_bytes : float
        Bytes per stored element: 2 for bf16, 1 for fp8.

    Returns
    -------
    int or float
        Bytes per position.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    Valid where all layers are alike and keys are as wide as values. Models with window, latent or
    fixed-state layers go through `layout`. Stored quantization scales are not counted.

    References
    ----------
    Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention",
    SOSP 2023, section 3, counts the same two vectors for OPT-13B.

    Examples
    --------
    >>> bytes_per_position(layers=80, kv_heads=8, head_dim=128, element_bytes=2)
    327680
    """
    bytes_per_position = 2 * layers * kv_heads * head_dim * element_bytes
    return bytes_per_position


@dimensions("byte", layers="count", kv_heads="count", key_dim="count", value_dim="count", element_bytes="byte")
def unequal_bytes_per_position(*, layers, kv_heads, key_dim, value_dim, element_bytes):
    """Cache bytes that one token leaves behind where keys and values differ in width.

    Parameters
    ----------
    layers : int
        Layers that keep a cache.
    kv_heads : int
        Key-value heads in each layer.
    key_dim, value_dim : int
        Elements in one head's key and in its value.
    element_bytes : float
        Bytes per stored element.

    Returns
    -------
    int or float
        Bytes per position.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    Equals `bytes_per_position` where the widths are equal. It is also what an engine stores that
    expands a latent into ordinary heads.

    Examples
    --------
    >>> unequal_bytes_per_position(layers=61, kv_heads=128, key_dim=192, value_dim=128, element_bytes=2)
    4997120
    """
    unequal_bytes_per_position = layers * kv_heads * (key_dim + value_dim) * element_bytes
    return unequal_bytes_per_position


@dimensions("byte", layers="count", latent_dim="count", rope_dim="count", element_bytes="byte")
def latent_bytes_per_position(*, layers, latent_dim, rope_dim, element_bytes):
    """Cache bytes that one token leaves behind with multi-head latent attention (MLA).

    One latent vector serves the keys and the values of all heads, so there is no factor 2 and no
    head count. A small rotary key is stored beside it.

    Parameters
    ----------
    layers : int
        Latent-attention layers.
    latent_dim : int
        Elements of the shared latent (``kv_lora_rank``).
    rope_dim : int
        Elements of the shared rotary key (``qk_rope_head_dim``).
    element_bytes : float
        Bytes per stored element.

    Returns
    -------
    int or float
        Bytes per position.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    Valid for engines that cache the latent. One that expands it into ordinary heads stores the full
    keys and values instead. A sparse indexer's own cache is counted by `index_bytes_per_position`.

    References
    ----------
    DeepSeek-AI, "DeepSeek-V2", 2024, arXiv:2405.04434, section 2.1.

    Examples
    --------
    >>> latent_bytes_per_position(layers=61, latent_dim=512, rope_dim=64, element_bytes=2)
    70272
    """
    latent_bytes_per_position = layers * (latent_dim + rope_dim) * element_bytes
    return latent_bytes_per_position


@dimensions("byte", layers="count", latent_dim="count", rope_dim="count", element_bytes="byte", rope_bytes="byte")
def mixed_latent_bytes_per_position(*, layers, latent_dim, rope_dim, element_bytes, rope_bytes):
    """Cache bytes that one token leaves behind where the latent and its rotary key are stored in different types.

    Parameters
    ----------
    layers : int
        Latent-attention layers.
    latent_dim, rope_dim : int
        Elements of the shared latent and of the shared rotary key.
    element_bytes : float
        Bytes per element of the latent, its scales included.
    rope_bytes : float
        Bytes per element of the rotary key.

    Returns
    -------
    int or float
        Bytes per position.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    The format that vLLM gives sparse latent attention with an fp8 cache (``data/sparse_cache.json``).

    Examples
    --------
    >>> mixed_latent_bytes_per_position(layers=1, latent_dim=512, rope_dim=64, element_bytes=1 + 4 / 128, rope_bytes=2)
    656.0
    """
    mixed_latent_bytes_per_position = layers * (latent_dim * element_bytes + rope_dim * rope_bytes)
    return mixed_latent_bytes_per_position


@dimensions("byte", layers="count", index_dim="count", element_bytes="byte")
def index_bytes_per_position(*, layers, index_dim, element_bytes):
    """Cache bytes that one token leaves behind for a sparse attention's indexer: one key for all its heads.

    Parameters
    ----------
    layers : int
        Layers that have an indexer.
    index_dim : int
        Elements of its key (``index_head_dim``).
    element_bytes : float
        Bytes per element, its scales included.

    Returns
    -------
    int or float
        Bytes per position.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    Kept on every rank, like the latent.

    Examples
    --------
    >>> index_bytes_per_position(layers=61, index_dim=128, element_bytes=1 + 4 / 128)
    8052.0
    """
    index_bytes_per_position = layers * index_dim * element_bytes
    return index_bytes_per_position


@dimensions("byte", entry_bytes="byte", run="count>0")
def compressed_bytes_per_position(*, entry_bytes, run):
    """Cache bytes that one token leaves behind, on average, where many tokens are compressed into one entry.

    Parameters
    ----------
    entry_bytes : float
        Bytes of an entry.
    run : int
        Positions for each entry.

    Returns
    -------
    int or float
        Bytes per position in one layer.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or `run` is not a positive whole number.

    Notes
    -----
    An entry exists once its positions are complete.

    References
    ----------
    vLLM 0.32, ``vllm/models/deepseek_v4/attention.py``: ``tokens_per_state`` of the layer's cache.

    Examples
    --------
    >>> compressed_bytes_per_position(entry_bytes=584, run=4)
    146.0
    """
    compressed_bytes_per_position = entry_bytes / run
    return compressed_bytes_per_position


@dimensions("byte", entry_dim="count", overlap="count", element_bytes="byte")
def compressor_bytes_per_position(*, entry_dim, overlap, element_bytes):
    """Bytes that one token leaves with a compressor: what it adds to an entry, and with which weight.

    Parameters
    ----------
    entry_dim : int
        Elements of the entry.
    overlap : int
        Entries that one token adds to: 1, or 2 where neighbors overlap.
    element_bytes : float
        Bytes per element.

    Returns
    -------
    int or float
        Bytes per position in one layer, given back once its entries are made.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    References
    ----------
    vLLM 0.32, ``vllm/models/deepseek_v4/compressor.py``, ``CompressorStateCache``.

    Examples
    --------
    >>> compressor_bytes_per_position(entry_dim=512, overlap=2, element_bytes=4)
    8192
    """
    compressor_bytes_per_position = 2 * overlap * entry_dim * element_bytes
    return compressor_bytes_per_position


@dimensions("byte", element_bytes="byte", scale_bytes="byte", group="count>0")
def scaled_element_bytes(*, element_bytes, scale_bytes, group):
    """Bytes per element when each group of elements carries one stored scale.

    Parameters
    ----------
    element_bytes : float
        Bytes of the element itself.
    scale_bytes : float
        Bytes of one scale: 4 for fp32, 2 for fp16, 0 where one scale serves the whole tensor.
    group : int
        Elements that share a scale, for example the head size.

    Returns
    -------
    float
        Bytes per element, its share of the scale included.

    Raises
    ------
    CalcError
        If an argument is negative or `group` is 0.

    Notes
    -----
    Valid for symmetric quantization; a stored zero point counts as part of `scale_bytes`.

    Examples
    --------
    >>> scaled_element_bytes(element_bytes=1, scale_bytes=4, group=128)
    1.03125
    """
    scaled_element_bytes = element_bytes + scale_bytes / group
    return scaled_element_bytes


@dimensions("byte", bytes_per_position="byte", positions="count")
def sequence_bytes(*, bytes_per_position, positions):
    """Cache bytes of one sequence whose layers all keep every position.

    Parameters
    ----------
    bytes_per_position : float
        Bytes one position leaves in all layers.
    positions : int
        Positions held.

    Returns
    -------
    int or float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    Exact bytes without page rounding. Layers with windows stop growing: see `resident_bytes`.

    Examples
    --------
    >>> sequence_bytes(bytes_per_position=327680, positions=4096)
    1342177280
    """
    sequence_bytes = bytes_per_position * positions
    return sequence_bytes


@dimensions("count", positions="count", window="count>0")
def resident_positions(*, positions, window):
    """Positions that a sliding-window layer still holds.

    Parameters
    ----------
    positions : int
        Positions written so far.
    window : int
        Positions the layer attends to.

    Returns
    -------
    int
        The smaller of the two.

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    A paged engine frees whole blocks, so it may hold up to one block more.

    Examples
    --------
    >>> resident_positions(positions=8192, window=1024)
    1024
    """
    resident_positions = min(positions, window)
    return resident_positions


@dimensions("count", kv_heads="count>0", ranks="count>0")
def kv_heads_per_rank(*, kv_heads, ranks):
    """Key-value heads that one tensor-parallel rank stores.

    Heads are divided among ranks. With more ranks than heads every rank still needs one, so heads
    are replicated and the cost per rank stops falling.

    Parameters
    ----------
    kv_heads : int
        Key-value heads of the layer.
    ranks : int
        Tensor-parallel ranks.

    Returns
    -------
    int
        Heads on one rank, at least 1.

    Raises
    ------
    CalcError
        If an argument is not a positive whole number.

    Notes
    -----
    Floors a remainder as engines do when they size the pool. They refuse to load such a model;
    `layout` refuses it too unless told otherwise.

    References
    ----------
    vLLM 0.32, ``ModelConfig.get_num_kv_heads``: ``max(1, total_num_kv_heads // tensor_parallel_size)``.

    Examples
    --------
    >>> kv_heads_per_rank(kv_heads=8, ranks=4), kv_heads_per_rank(kv_heads=8, ranks=16)
    (2, 1)
    """
    kv_heads_per_rank = max(1, kv_heads // ranks)
    return kv_heads_per_rank


@dimensions("count", prompt="count>0", generated="count>0")
def positions_written(*, prompt, generated):
    """Positions in the cache once `generated` tokens have been sampled.

    The prompt is written by prefill, which also samples the first token. Each decode step writes the
    token sampled before it and samples the next. So the newest token is never in the cache.

    Parameters
    ----------
    prompt : int
        Prompt tokens.
    generated : int
        Tokens sampled so far, at least 1: before that, prefill is not done.

    Returns
    -------
    int
        Positions held.

    Raises
    ------
    CalcError
        If an argument is not a positive whole number.

    Notes
    -----
    Without speculative decoding, which writes draft positions that may be thrown away.

    Examples
    --------
    >>> positions_written(prompt=1000, generated=1), positions_written(prompt=1000, generated=200)
    (1000, 1199)
    """
    positions_written = prompt + generated - 1
    return positions_written


@dimensions("byte", bytes_per_position="byte", generated="count>0", output="count>0")
def room_bytes(*, bytes_per_position, generated, output):
    """Cache bytes that a response still needs where all layers keep every position.

    Every token from the newest on is written once more before the response ends, except the last.

    Parameters
    ----------
    bytes_per_position : float
        Bytes one position leaves in all layers.
    generated, output : int
        Tokens sampled so far and in the whole response, at most `output` of them.

    Returns
    -------
    int or float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is not positive, or not a whole number where it counts tokens.

    Notes
    -----
    The short road to `room_to_finish_bytes`, which also knows windows and refuses more tokens than the
    output has.

    Examples
    --------
    >>> room_bytes(bytes_per_position=327680, generated=200, output=1024)
    270008320
    """
    room_bytes = bytes_per_position * (output - generated)
    return room_bytes


@dimensions("count", memory_bytes="byte", bytes_per_position="byte>0")
def positions_that_fit(*, memory_bytes, bytes_per_position):
    """Whole positions that a memory budget holds.

    Parameters
    ----------
    memory_bytes : float
        Memory given to the cache.
    bytes_per_position : float
        Bytes one position leaves in all layers, on the rank whose memory it is.

    Returns
    -------
    int
        Positions, rounded down.

    Raises
    ------
    CalcError
        If an argument is negative, or `bytes_per_position` is 0.

    Notes
    -----
    Position by position. A paged engine rounds down to whole blocks.

    Examples
    --------
    >>> positions_that_fit(memory_bytes=40 * 1024**3, bytes_per_position=327680)
    131072
    """
    positions_that_fit = memory_bytes // bytes_per_position
    return positions_that_fit


@dimensions("count", memory_bytes="byte", sequence_bytes="byte>0")
def sequences_that_fit(*, memory_bytes, sequence_bytes):
    """Whole sequences of one size that a memory budget holds.

    Parameters
    ----------
    memory_bytes : float
        Memory given to the cache.
    sequence_bytes : float
        Bytes of one sequence, on the rank whose memory it is.

    Returns
    -------
    int
        Sequences, rounded down.

    Raises
    ------
    CalcError
        If an argument is negative, or `sequence_bytes` is 0.

    Notes
    -----
    All sequences alike. Count with the bytes at the end of the response, or some can't finish.

    Examples
    --------
    >>> sequences_that_fit(memory_bytes=40 * 1024**3, sequence_bytes=1342177280)
    32
    """
    sequences_that_fit = memory_bytes // sequence_bytes
    return sequences_that_fit


@dimensions("count", positions="count", block_tokens="count>0")
def blocks(*, positions, block_tokens):
    """Blocks that hold a number of positions: the last one may be partly empty.

    Parameters
    ----------
    positions : int
        Positions held.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    int
        Blocks, rounded up.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or `block_tokens` is 0.

    Notes
    -----
    For one sequence; shared prefixes are not deducted.

    Examples
    --------
    >>> blocks(positions=17, block_tokens=16)
    2
    """
    blocks = ceil(positions / block_tokens)
    return blocks


@dimensions("byte", bytes_per_position="byte", block_tokens="count>0")
def block_bytes(*, bytes_per_position, block_tokens):
    """Bytes of one block in all layers together.

    Parameters
    ----------
    bytes_per_position : float
        Bytes one position leaves in all layers.
    block_tokens : int
        Positions in a block.

    Returns
    -------
    int or float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `block_tokens` is 0.

    Notes
    -----
    Valid where all layers share one block table entry, as in models with layers of one kind.

    Examples
    --------
    >>> block_bytes(bytes_per_position=131072, block_tokens=16)
    2097152
    """
    block_bytes = bytes_per_position * block_tokens
    return block_bytes
