"""What work costs when it is spread: over ranks that add their parts up, over experts that a batch picks."""

from calc.units import dimensions


@dimensions("byte", step_tokens="", hidden="count", element_bytes="byte")
def message_bytes(*, step_tokens, hidden, element_bytes):
    """Bytes that tensor-parallel ranks add up at once: the hidden states of a step.

    Parameters
    ----------
    step_tokens : float
        Tokens in the step.
    hidden : int
        Width of the hidden state.
    element_bytes : float
        Bytes of one of its elements.

    Returns
    -------
    float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    Every rank holds a partial sum of all of it, after the attention and after the MLP of every layer.

    Examples
    --------
    >>> message_bytes(step_tokens=1, hidden=8192, element_bytes=2)
    16384
    """
    message_bytes = step_tokens * hidden * element_bytes
    return message_bytes


@dimensions("byte", message_bytes="byte", ranks="count>0")
def ring_bytes(*, message_bytes, ranks):
    """Bytes that each rank sends in a ring all-reduce; it receives as many.

    A ring first adds up: each rank sends all but one of the message's parts. Then it hands the sums round: as many
    again.

    Parameters
    ----------
    message_bytes : float
        What is added up, from `message_bytes`.
    ranks : int
        Ranks in the ring.

    Returns
    -------
    float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `ranks` is 0.

    Notes
    -----
    The least that any algorithm without help from the switch can do: the message once with two ranks, almost twice with
    many. With a switch that adds (NVLink SHARP) a rank sends the message and its share of the sum: little more than
    half for many ranks, and no less for two. One-shot algorithms for small messages send more, in fewer steps.

    References
    ----------
    Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", Journal of Parallel
    and Distributed Computing 69(2), 2009.

    Examples
    --------
    >>> ring_bytes(message_bytes=16384, ranks=8), ring_bytes(message_bytes=16384, ranks=1)
    (28672.0, 0.0)
    """
    ring_bytes = 2 * (ranks - 1) / ranks * message_bytes
    return ring_bytes


@dimensions("second", sent_bytes="byte", one_direction="byte/second>0", start="second", all_reduces="")
def all_reduce_seconds(*, sent_bytes, one_direction, start=0, all_reduces=1):
    """Least time of all-reduces that follow one another.

    Parameters
    ----------
    sent_bytes : float
        Bytes that each rank sends in one of them, from `ring_bytes`.
    one_direction : float
        What a rank can send, B/s: its link in one direction.
    start : float
        Time that one takes however little it moves, seconds; 0 leaves the bytes alone.
    all_reduces : float
        How many: two for each layer of a step.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or a divisor is 0.

    Notes
    -----
    A floor as far as `start` is one. At one token the start is nearly all of it.

    Examples
    --------
    >>> round(all_reduce_seconds(sent_bytes=28672, one_direction=450e9, all_reduces=160) * 1e6, 1)
    10.2
    """
    all_reduce_seconds = all_reduces * (start + sent_bytes / one_direction)
    return all_reduce_seconds


@dimensions("second", model_bytes="byte", bandwidth="byte/second>0", ranks="count>0", all_reduces=">0")
def break_even_all_reduce(*, model_bytes, bandwidth, ranks, all_reduces):
    """Longest all-reduce for which splitting a model still shortens a step at batch 1.

    The weights that a rank no longer reads save time; each all-reduce may use up its part of it.

    Parameters
    ----------
    model_bytes : float
        Weights of the whole model, which one GPU alone would read.
    bandwidth : float
        Memory bandwidth of one GPU, B/s.
    ranks : int
        Tensor-parallel ranks.
    all_reduces : float
        All-reduces in a step: two for each layer.

    Returns
    -------
    float
        Seconds for each all-reduce.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or a divisor is 0.

    Notes
    -----
    Valid where the weights are most of what a step reads, and all of them are split. The all-reduces can't overlap with
    the reading: each waits for a product and the next product waits for it.

    Examples
    --------
    Llama-3.1-70B on eight H100:

    >>> round(break_even_all_reduce(model_bytes=139e9, bandwidth=3.35e12, ranks=8, all_reduces=160) * 1e6)
    227
    """
    break_even_all_reduce = model_bytes * (1 - 1 / ranks) / (bandwidth * all_reduces)
    return break_even_all_reduce


@dimensions("", experts="count>0", experts_per_token="count", step_tokens="count")
def experts_touched(*, experts, experts_per_token, step_tokens):
    """Experts of a layer that a step's tokens pick, on average: those whose weights it must read.

    Parameters
    ----------
    experts, experts_per_token : int
        Routed experts in the layer, and those that one token picks.
    step_tokens : int
        Tokens in the step.

    Returns
    -------
    float
        Expected value.

    Raises
    ------
    CalcError
        If an argument is negative or not whole, or there are no experts.

    Notes
    -----
    Each token picks different experts, all sets being equally likely, and tokens pick independently of each other. An
    expert is passed over by one token with probability ``1 − experts_per_token/experts``. Real routers have
    favorites, and tokens of one text resemble each other: they touch fewer.

    Examples
    --------
    Mixtral, two of eight:

    >>> [round(experts_touched(experts=8, experts_per_token=2, step_tokens=n), 2) for n in (1, 2, 4, 16)]
    [2.0, 3.5, 5.47, 7.92]
    """
    experts_touched = experts * (1 - (1 - experts_per_token / experts) ** step_tokens)
    return experts_touched
