"""The formulas of a start, one function each, on plain numbers in base units."""

from math import ceil

from calc.units import CalcError, dimensions


@dimensions("byte/second", moved_bytes="byte", elapsed="second>0")
def average_rate(*, moved_bytes, elapsed):
    """Rate at which bytes went from one place to another, or would have to.

    Parameters
    ----------
    moved_bytes : float
        Bytes.
    elapsed : float
        Seconds it took, or may take.

    Returns
    -------
    float
        B/s.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or no time passed.

    Notes
    -----
    Between the two ends of whatever was timed. A file that the page cache holds is "read" at the rate of
    memory.

    Examples
    --------
    A log line in vllm-project/vllm issue 20264, in GiB/s:

    >>> round(average_rate(moved_bytes=3.4213 * 1024**3, elapsed=0.69) / 1024**3, 2)
    4.96
    """
    average_rate = moved_bytes / elapsed
    return average_rate


@dimensions("byte/second", nominal_rate="byte/second", reached=">0")
def reached_rate(*, nominal_rate, reached):
    """What a loader gets of a printed rate.

    Parameters
    ----------
    nominal_rate : float
        Printed rate of the link or the device, B/s, in one direction.
    reached : float
        Share of it that arrives, above 0 and at most 1.

    Returns
    -------
    float
        B/s.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the share is 0 or above 1.

    Notes
    -----
    One share for all that is lost: protocol, copies through pageable memory, page faults, one thread where
    four are needed.

    Examples
    --------
    >>> reached_rate(nominal_rate=64e9, reached=0.5)
    32000000000.0
    """
    if reached > 1:
        raise CalcError(f"reached is {reached}, wanted at most 1: nothing gets more than the whole rate")
    reached_rate = nominal_rate * reached
    return reached_rate


@dimensions("byte/second", request_bytes="byte>0", delay="second", nominal_rate="byte/second>0")
def request_rate(*, request_bytes, delay, nominal_rate):
    """Rate of a reader that asks for one piece, waits for it, and only then asks for the next.

    Parameters
    ----------
    request_bytes : float
        Bytes of one request: 4,096 for a page fault.
    delay : float
        Seconds from asking to the first byte.
    nominal_rate : float
        Rate at which the bytes then flow, B/s.

    Returns
    -------
    float
        B/s.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the request or the rate is 0.

    Notes
    -----
    One request at a time. With q of them in flight it is q times as much, up to the nominal rate. Read-ahead
    makes requests larger than what was asked for.

    References
    ----------
    safetensors/safetensors issue 562: page faults on network disks.

    Examples
    --------
    Page faults of half a millisecond:

    >>> round(request_rate(request_bytes=4096, delay=0.0005, nominal_rate=5e9))
    8178600
    """
    request_rate = request_bytes / (delay + request_bytes / nominal_rate)
    return request_rate


@dimensions("byte", checkpoint_bytes="byte", readers="count>0")
def read_bytes(*, checkpoint_bytes, readers):
    """Bytes that storage delivers when several readers each read the whole checkpoint.

    Parameters
    ----------
    checkpoint_bytes : float
        Bytes of all weights.
    readers : int
        1 if each byte is read once, the tensor-parallel ranks if each of them reads everything.

    Returns
    -------
    float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no reader.

    Notes
    -----
    What the page cache can serve again does not reach the disk; it still passes through memory.

    Examples
    --------
    >>> read_bytes(checkpoint_bytes=144e9, readers=4)
    576000000000.0
    """
    read_bytes = checkpoint_bytes * readers
    return read_bytes


@dimensions("byte", checkpoint_bytes="byte", ranks="count>0")
def link_bytes(*, checkpoint_bytes, ranks):
    """Bytes that pass the host link of one GPU: its share of the weights.

    Parameters
    ----------
    checkpoint_bytes : float
        Bytes of all weights.
    ranks : int
        Tensor-parallel ranks, each with a link of its own.

    Returns
    -------
    float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no rank.

    Notes
    -----
    Tensors that every rank holds whole (norms, and KV heads when there are too few) are not counted again.

    Examples
    --------
    >>> link_bytes(checkpoint_bytes=144e9, ranks=8)
    18000000000.0
    """
    link_bytes = checkpoint_bytes / ranks
    return link_bytes


@dimensions("count", checkpoint_bytes="byte", piece_bytes="byte>0")
def pieces(*, checkpoint_bytes, piece_bytes):
    """Pieces that a checkpoint is moved in.

    Parameters
    ----------
    checkpoint_bytes : float
        Bytes of all weights.
    piece_bytes : float
        Bytes of one piece, at most.

    Returns
    -------
    int
        Pieces, rounded up.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or a piece is smaller than a byte.

    Notes
    -----
    The chain takes them as equal, so each is a little smaller than the limit.

    Examples
    --------
    >>> pieces(checkpoint_bytes=144e9, piece_bytes=64 * 1024**2)
    2146
    """
    if piece_bytes < 1:
        raise CalcError(f"pieces: piece_bytes is {piece_bytes}, wanted a byte at least")
    pieces = ceil(checkpoint_bytes / piece_bytes)
    return pieces


@dimensions("second", fill_seconds="second", pieces="count>0", slowest_seconds="second")
def pipelined_seconds(*, fill_seconds, pieces, slowest_seconds):
    """Time of a chain of hops that pass on equal pieces: the fill, then the slowest hop.

    The first piece goes through all hops. After it, one piece arrives each time that the slowest hop is done
    with one.

    Parameters
    ----------
    fill_seconds : float
        Time of one piece through all hops.
    pieces : int
        Pieces.
    slowest_seconds : float
        Time of one piece on the slowest hop.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or there is no piece.

    Notes
    -----
    Exact for equal pieces, one at a time on each hop, and room between the hops; `walk_chain` plays it
    through. A floor for real loaders: hops share memory bandwidth and CPUs.

    Examples
    --------
    >>> pipelined_seconds(fill_seconds=3, pieces=10, slowest_seconds=2)
    21
    """
    pipelined_seconds = fill_seconds + (pieces - 1) * slowest_seconds
    return pipelined_seconds


@dimensions("second", total_seconds="second", taken_seconds="second")
def seconds_left(*, total_seconds, taken_seconds):
    """What is left of a time when a part of it is accounted for.

    Parameters
    ----------
    total_seconds : float
        The whole: from start to first response, or a goal.
    taken_seconds : float
        What is known of it, or what all else on the path takes.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or more is taken than there is.

    Notes
    -----
    The parts must follow one another; parts that overlap can't be taken off twice.

    Examples
    --------
    Of 59 s to the first response a log explains 35 (vllm-project/vllm issue 20264):

    >>> round(seconds_left(total_seconds=59, taken_seconds=0.902 + 34.11), 3)
    23.988
    """
    if taken_seconds > total_seconds:
        raise CalcError(f"{taken_seconds:.4g} s are taken of {total_seconds:.4g} s: nothing is left")
    seconds_left = total_seconds - taken_seconds
    return seconds_left


@dimensions("second", probe_period="second")
def probe_wait(*, probe_period):
    """Mean wait of a ready server for the health check that notices it.

    Parameters
    ----------
    probe_period : float
        Seconds from one check to the next.

    Returns
    -------
    float
        Seconds. The longest wait is twice as much.

    Raises
    ------
    CalcError
        If the argument is negative or not finite.

    Notes
    -----
    Checks that go on regardless of the start, and one success that is enough.

    Examples
    --------
    >>> probe_wait(probe_period=10)
    5.0
    """
    probe_wait = probe_period / 2
    return probe_wait


@dimensions("", extra_seconds="second", saved_per_step="second>0")
def payback_steps(*, extra_seconds, saved_per_step):
    """Decode steps after which a slower start has paid for itself.

    Parameters
    ----------
    extra_seconds : float
        Seconds that the start takes longer.
    saved_per_step : float
        Seconds that each step then takes less.

    Returns
    -------
    float
        Steps.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or nothing is saved.

    Notes
    -----
    In the time of the replica. Users who wait for the start see it otherwise.

    Examples
    --------
    Compilation adds 25 s and makes a step of 10 ms 5% shorter:

    >>> round(payback_steps(extra_seconds=25.16, saved_per_step=0.0005))
    50320
    """
    payback_steps = extra_seconds / saved_per_step
    return payback_steps


@dimensions("", arrival_rate="1/second", served_rate="1/second", start_seconds="second")
def backlog(*, arrival_rate, served_rate, start_seconds):
    """Requests that pile up while a replica starts.

    Parameters
    ----------
    arrival_rate : float
        Requests per second that arrive.
    served_rate : float
        Requests per second that the replicas there are can finish; 0 when scaling from none.
    start_seconds : float
        Seconds until the new replica is ready.

    Returns
    -------
    float
        Requests waiting at the end of the start, on average.

    Raises
    ------
    CalcError
        If an argument is negative or not finite.

    Notes
    -----
    A flow: nobody gives up, no randomness. Where fewer arrive than are served, randomness alone makes queues
    and this is 0.

    Examples
    --------
    >>> backlog(arrival_rate=6, served_rate=4, start_seconds=300)
    600
    """
    backlog = max(0, arrival_rate - served_rate) * start_seconds
    return backlog


@dimensions("second", backlog="", served_rate="1/second", arrival_rate="1/second")
def drain_seconds(*, backlog, served_rate, arrival_rate):
    """Time to work off what has piled up, while requests go on arriving.

    Parameters
    ----------
    backlog : float
        Requests waiting.
    served_rate : float
        Requests per second that all replicas finish, the new one included.
    arrival_rate : float
        Requests per second that arrive.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or no more is served than arrives.

    Notes
    -----
    A flow, as in `backlog`: the floor of the time that users feel the start.

    Examples
    --------
    >>> drain_seconds(backlog=600, served_rate=8, arrival_rate=6)
    300.0
    """
    if served_rate <= arrival_rate:
        raise CalcError(
            f"{served_rate:.4g} requests are served a second and {arrival_rate:.4g} arrive: the queue never drains"
        )
    drain_seconds = backlog / (served_rate - arrival_rate)
    return drain_seconds
