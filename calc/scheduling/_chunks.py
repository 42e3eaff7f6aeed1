"""A prompt in chunks: how it is cut, and what is read again."""

from math import ceil

from calc.units import CalcError, dimensions


@dimensions("count", token_budget="count>0", decode_tokens="count")
def chunk(*, token_budget, decode_tokens):
    """Prompt tokens that one step has room for.

    Requests that decode come first and take one token each, or one and their drafts. The prompt gets the rest.

    Parameters
    ----------
    token_budget : int
        Tokens in a step.
    decode_tokens : int
        Tokens of the requests that decode in it.

    Returns
    -------
    int
        Tokens; 0 where the others fill the step.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or the budget is 0.

    Notes
    -----
    For one prompt that is behind. A limit for long prompts (``long_prefill_token_threshold``) may leave less.

    References
    ----------
    ``vllm/v1/core/sched/scheduler.py`` of vLLM 0.32: running requests are scheduled in order of admission, so a
    prompt admitted before other prompts is served before them.

    Examples
    --------
    >>> chunk(token_budget=2048, decode_tokens=3)
    2045
    """
    chunk = max(token_budget - decode_tokens, 0)
    return chunk


@dimensions("count", prompt="count", chunk="count>0")
def chunks(*, prompt, chunk):
    """Steps that compute a prompt.

    Parameters
    ----------
    prompt : int
        Prompt tokens.
    chunk : int
        Prompt tokens in a step.

    Returns
    -------
    int
        Steps. The last one samples the first token of the answer.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or the chunk is 0.

    Notes
    -----
    As long as no request beside it starts or ends: the room in a step is then the same in all of them.

    Examples
    --------
    >>> chunks(prompt=20_000, chunk=2045)
    10
    """
    chunks = ceil(prompt / chunk)
    return chunks


@dimensions("count", prompt="count>0", chunk="count>0", chunks="count>0")
def last_chunk(*, prompt, chunk, chunks):
    """Tokens of the last chunk, which is whole only where the prompt divides evenly.

    Parameters
    ----------
    prompt, chunk : int
        Prompt tokens, and those in a step.
    chunks : int
        Steps, from `chunks`.

    Returns
    -------
    int
        Tokens.

    Raises
    ------
    CalcError
        If an argument is not a positive whole number.

    Examples
    --------
    >>> last_chunk(prompt=20_000, chunk=2045, chunks=10)
    1595
    """
    last_chunk = prompt - (chunks - 1) * chunk
    return last_chunk


@dimensions("count", chunk="count", chunks="count")
def reread_positions(*, chunk, chunks):
    """Cached positions that the chunks of a prompt read, all chunks together.

    The first chunk finds nothing, the second reads one chunk, the third two: 0 + 1 + 2 + … chunks.

    Parameters
    ----------
    chunk : int
        Prompt tokens in a step.
    chunks : int
        Steps of the prompt.

    Returns
    -------
    int
        Positions. A prompt in one step reads none.

    Raises
    ------
    CalcError
        If an argument is negative or not whole.

    Notes
    -----
    Each chunk counts its prefix once. A kernel that works through the chunk in several tiles reads the prefix once for
    each tile, from the cache of the chip where it fits. The last chunk's own length does not matter.

    Examples
    --------
    >>> reread_positions(chunk=2045, chunks=10), sum(2045 * i for i in range(10))
    (92025, 92025)
    """
    reread_positions = chunk * chunks * (chunks - 1) / 2
    return reread_positions


@dimensions("byte", bytes_per_position="byte", reread_positions="count")
def reread_bytes(*, bytes_per_position, reread_positions):
    """Cache bytes that the chunks of a prompt read again.

    Parameters
    ----------
    bytes_per_position : float
        Cache bytes of one position.
    reread_positions : int
        From `reread_positions`.

    Returns
    -------
    float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative, or positions are not whole.

    Notes
    -----
    For layers that attend to every position. A sliding window reads less.

    Examples
    --------
    >>> reread_bytes(bytes_per_position=327_680, reread_positions=92_025)
    30154752000
    """
    reread_bytes = bytes_per_position * reread_positions
    return reread_bytes


@dimensions("byte", model_bytes="byte", chunks="count>0")
def reloaded_bytes(*, model_bytes, chunks):
    """Weight bytes that a prompt in chunks reads beyond those of a prompt in one step.

    Parameters
    ----------
    model_bytes : float
        Weights that a step reads.
    chunks : int
        Steps of the prompt.

    Returns
    -------
    float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative, or the steps are no positive whole number.

    Notes
    -----
    Charged to the prompt. Where others decode, they need their own steps anyway, and these are the same steps.

    Examples
    --------
    >>> reloaded_bytes(model_bytes=141e9, chunks=10)
    1269000000000.0
    """
    reloaded_bytes = (chunks - 1) * model_bytes
    return reloaded_bytes


@dimensions("", chunk="count", members="count>0")
def prompt_per_output(*, chunk, members):
    """Prompt tokens for each output token at which every step can carry a full chunk and a full batch.

    Parameters
    ----------
    chunk : int
        Prompt tokens in a step.
    members : int
        Requests in it: one prompt, the others decode.

    Returns
    -------
    float
        Ratio of prompt to output tokens.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or there is no request but the prompt.

    Notes
    -----
    A request gives one step a chunk and takes one place in `members` − 1 others for each output token. With fewer
    prompt tokens some steps lack a chunk, with more some lack decode tokens.

    References
    ----------
    Agrawal et al., "SARATHI: Efficient LLM Inference by Piggybacking Decodes with Chunked Prefills", 2023,
    section 5.1.3.

    Examples
    --------
    >>> prompt_per_output(chunk=256, members=6)
    51.2
    """
    if members <= 1:
        raise CalcError("prompt_per_output: members is 1: a prompt alone has no output beside it, take at least 2")
    others = members - 1
    prompt_per_output = chunk / others
    return prompt_per_output
