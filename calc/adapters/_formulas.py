"""The formulas of low-rank adapters, one function each, on plain numbers in base units."""

from calc.units import dimensions


@dimensions("count", rank="count", input_dim="count", output_dim="count")
def pair_parameters(*, rank, input_dim, output_dim):
    """Parameters of one low-rank pair: A takes the input down to the rank, B takes the rank up to the output.

    Parameters
    ----------
    rank : int
        Width between A and B.
    input_dim, output_dim : int
        Width of the adapted matrix's input and output, or as much of either as one GPU holds.

    Returns
    -------
    int

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    The matrix itself has ``input_dim · output_dim``; the pair is smaller while the rank is below
    ``input_dim · output_dim / (input_dim + output_dim)``. Magnitude vectors (DoRA) and biases come on top.

    References
    ----------
    Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022, section 4.1.

    Examples
    --------
    >>> pair_parameters(rank=16, input_dim=8192, output_dim=28672)
    589824
    """
    pair_parameters = rank * (input_dim + output_dim)
    return pair_parameters


@dimensions(
    "byte", low_rank_parameters="count", element_bytes="byte", saved_parameters="count", saved_element_bytes="byte"
)
def stored_bytes(*, low_rank_parameters, element_bytes, saved_parameters, saved_element_bytes):
    """Bytes of everything an adapter stores: its low-rank pairs and the matrices it keeps whole.

    Parameters
    ----------
    low_rank_parameters : int
        Parameters of all pairs.
    element_bytes : float
        Bytes of one of their elements; trainers often leave 4.
    saved_parameters : int
        Parameters of embeddings and heads stored whole; 0 in most adapters.
    saved_element_bytes : float
        Bytes of one of theirs.

    Returns
    -------
    int or float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Examples
    --------
    A rank-16 adapter of Gemma-3-270m that keeps the embedding (huggingface/peft issue 2898):

    >>> stored_bytes(low_rank_parameters=737280, element_bytes=4, saved_parameters=167772160, saved_element_bytes=2)
    338493440
    """
    stored_bytes = low_rank_parameters * element_bytes + saved_parameters * saved_element_bytes
    return stored_bytes


@dimensions("byte", header_bytes="byte", stored_bytes="byte")
def file_bytes(*, header_bytes, stored_bytes):
    """Bytes of a safetensors file: the length of the header in eight bytes, the header, the elements.

    Parameters
    ----------
    header_bytes : int
        Length of the JSON header, padded to a multiple of eight.
    stored_bytes : float
        Bytes of all tensors.

    Returns
    -------
    int or float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    References
    ----------
    The safetensors format, huggingface/safetensors, README, "Format".

    Examples
    --------
    >>> file_bytes(header_bytes=7200, stored_bytes=581632)
    588840
    """
    file_bytes = 8 + header_bytes + stored_bytes
    return file_bytes


@dimensions("byte", slots="count", slot_parameters="count", element_bytes="byte")
def reserved_bytes(*, slots, slot_parameters, element_bytes):
    """Bytes that an engine sets aside for adapters before the first one is loaded.

    Parameters
    ----------
    slots : int
        Adapters that can be on the GPU at once.
    slot_parameters : int
        Parameters one slot has room for on this GPU, at the highest rank the engine admits.
    element_bytes : float
        Bytes per element of a slot, whatever type the files have.

    Returns
    -------
    int or float
        Bytes on one GPU.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    Valid for engines with fixed slots (vLLM, SGLang). One that pages adapters together with the cache, as
    S-LoRA does, holds what is loaded.

    Examples
    --------
    >>> reserved_bytes(slots=4, slot_parameters=828375040 // 8, element_bytes=2)
    828375040
    """
    reserved_bytes = slots * slot_parameters * element_bytes
    return reserved_bytes


@dimensions("byte", active="count", parameters_held="count", element_bytes="byte")
def step_bytes(*, active, parameters_held, element_bytes):
    """Adapter bytes that one step reads: every adapter in the batch once, however many rows it has.

    Parameters
    ----------
    active : int
        Different adapters in the batch.
    parameters_held : int
        Parameters of one adapter on this GPU, or of a slot where kernels read the padding too.
    element_bytes : float
        Bytes per element.

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
    A lower bound: kernels that group rows by adapter read each once (Punica's SGMV); one that gathers a copy
    per row reads as many as there are rows. Activations are not counted; see `grouped_bytes`.

    Examples
    --------
    >>> step_bytes(active=8, parameters_held=207093760, element_bytes=2)
    3313500160
    """
    step_bytes = active * parameters_held * element_bytes
    return step_bytes


@dimensions("FLOP", rows="count", parameters_held="count")
def step_flop(*, rows, parameters_held):
    """Arithmetic that adapters add to one step: a multiply and an add for each parameter and row.

    Parameters
    ----------
    rows : int
        Rows of the batch that have an adapter.
    parameters_held : int
        Parameters of one adapter on this GPU: it multiplies what it holds, copied or not.

    Returns
    -------
    int
        FLOP.

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    For adapters of equal size, padding not counted.

    Examples
    --------
    >>> step_flop(rows=64, parameters_held=207093760)
    26508001280
    """
    step_flop = 2 * rows * parameters_held
    return step_flop


@dimensions("byte", rows="count", active="count", input_dim="count", output_dim="count", element_bytes="byte")
def grouped_bytes(*, rows, active, input_dim, output_dim, element_bytes):
    """Bytes that one grouped matrix-vector kernel moves: rows in and out, and each adapter's matrix once.

    Parameters
    ----------
    rows : int
        Rows of the batch.
    active : int
        Different adapters among them.
    input_dim, output_dim : int
        Width of A's or B's input and output; one of the two is the rank.
    element_bytes : float
        Bytes per element.

    Returns
    -------
    int or float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    References
    ----------
    Chen et al., "Punica: Multi-Tenant LoRA Serving", 2023, arXiv:2310.18547, section 7.1.

    Examples
    --------
    >>> grouped_bytes(rows=64, active=64, input_dim=16, output_dim=4096, element_bytes=2)
    8914944
    """
    grouped_bytes = (rows * (input_dim + output_dim) + active * input_dim * output_dim) * element_bytes
    return grouped_bytes


@dimensions("second", moved_bytes="byte", bytes_per_second="byte/second>0")
def move_seconds(*, moved_bytes, bytes_per_second):
    """Time to move bytes over a link or out of memory at its full rate.

    Parameters
    ----------
    moved_bytes : float
        Bytes.
    bytes_per_second : float
        Rate in one direction.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the rate is 0.

    Notes
    -----
    A floor: nothing runs at its printed rate, and many small copies run far below it.

    Examples
    --------
    >>> move_seconds(moved_bytes=79953920, bytes_per_second=32e9)
    0.00249856
    """
    move_seconds = moved_bytes / bytes_per_second
    return move_seconds
