"""The formulas of quantization, one function each, on plain numbers in base units."""

from math import ceil

from calc.units import CalcError, dimensions


@dimensions("", element_bits="", scale_bits="", zero_bits="", group="count>0")
def effective_bits(*, element_bits, scale_bits, zero_bits, group):
    """Stored bits per weight when each group of weights carries a scale and perhaps a zero point.

    Parameters
    ----------
    element_bits : float
        Bits of a weight itself.
    scale_bits, zero_bits : float
        Bits of one scale, and of one zero point (0 for symmetric quantization).
    group : int
        Weights that share them.

    Returns
    -------
    float
        Bits per weight.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or `group` is 0.

    Notes
    -----
    Valid where groups are full. What a format stores once for every matrix or column comes on top: see `stored`.

    References
    ----------
    Frantar et al., "GPTQ", ICLR 2023, section 5, counts groups of 128 the same way.

    Examples
    --------
    >>> effective_bits(element_bits=4, scale_bits=16, zero_bits=4, group=128)
    4.15625
    >>> effective_bits(element_bits=4, scale_bits=8, zero_bits=0, group=32)
    4.25
    """
    effective_bits = element_bits + (scale_bits + zero_bits) / group
    return effective_bits


@dimensions(
    "byte",
    output_dim="count",
    input_dim="count",
    block_out="count>0",
    block_in="count>0",
    element_bits="",
    scale_bits="",
    zero_bits="",
)
def matrix_bytes(*, output_dim, input_dim, block_out, block_in, element_bits, scale_bits, zero_bits):
    """Bytes of one matrix whose blocks carry a scale and perhaps a zero point each.

    Parameters
    ----------
    output_dim, input_dim : int
        Rows and columns of the matrix.
    block_out, block_in : int
        Rows and columns of the block that shares a scale: 1 × 128 for a group, 1 × the width for a channel,
        the whole matrix for a tensor.
    element_bits : float
        Bits of a weight itself.
    scale_bits, zero_bits : float
        Bits of one scale, and of one zero point (0 for symmetric quantization).

    Returns
    -------
    float
        Bytes.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or a block has no side.

    Notes
    -----
    A block at the edge counts whole for its scale. The format's own additions (a tensor's global scale, the
    order of columns) come on top: see `stored`.

    Examples
    --------
    A DeepSeek-V3 expert's projection in fp8 with an fp32 scale for each 128 × 128:

    >>> matrix_bytes(output_dim=2048, input_dim=7168, block_out=128, block_in=128, element_bits=8,
    ...     scale_bits=32, zero_bits=0)
    14683648.0
    """
    all_scale_bytes = ceil(output_dim / block_out) * ceil(input_dim / block_in) * (scale_bits + zero_bits) / 8
    matrix_bytes = output_dim * input_dim * element_bits / 8 + all_scale_bytes
    return matrix_bytes


@dimensions("byte", quantized_parameters="", stored_bits="", kept_parameters="", element_bytes="byte")
def model_bytes(*, quantized_parameters, stored_bits, kept_parameters, element_bytes):
    """Bytes of a model of which some weights are quantized and some stay as they were.

    Parameters
    ----------
    quantized_parameters, kept_parameters : float
        Weights that are quantized, and those that are not.
    stored_bits : float
        Stored bits per quantized weight, its share of scales included.
    element_bytes : float
        Bytes per weight that is kept: 2 for bf16.

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
    The file's header, tokenizer and other files are not counted.

    Examples
    --------
    gpt-oss-20b: experts in MXFP4, the rest in bf16.

    >>> model_bytes(quantized_parameters=19110297600, stored_bits=4.25, kept_parameters=1804459584,
    ...     element_bytes=2)
    13761264768.0
    """
    model_bytes = quantized_parameters * stored_bits / 8 + kept_parameters * element_bytes
    return model_bytes


@dimensions("second", slow="second", fast="second", speedup=">0")
def fixed_overhead(*, slow, fast, speedup):
    """Time that two steps have in common, from their floors and how many times faster one was seen to be.

    Solves (slow + overhead) / (fast + overhead) = speedup.

    Parameters
    ----------
    slow, fast : float
        Floors of the two steps, seconds.
    speedup : float
        Measured ratio of their times, above 1 and below slow / fast.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    CalcError
        If an argument is negative or not finite, or the speed-up not above 1.

    Notes
    -----
    Charges all that the floors leave out to one constant: the host, launches, sampling, attention.

    Examples
    --------
    >>> round(fixed_overhead(slow=0.0134, fast=0.0037, speedup=1.3) * 1000, 1)
    28.6
    """
    if speedup <= 1:
        raise CalcError("fixed_overhead: the faster step was not faster: wanted a speedup above 1")
    fixed_overhead = (slow - fast * speedup) / (speedup - 1)
    return fixed_overhead


@dimensions("", spacing="")
def rounding_error(*, spacing):
    """Root mean square error of rounding to the nearest of equally spaced values.

    Parameters
    ----------
    spacing : float
        Distance between neighboring values.

    Returns
    -------
    float
        In the unit of `spacing`.

    Raises
    ------
    CalcError
        If the argument is negative or not finite.

    Notes
    -----
    Valid where the values are spread evenly over a spacing and none is cut off: the error is then uniform
    between plus and minus half a spacing.

    Examples
    --------
    >>> round(rounding_error(spacing=1), 4)
    0.2887
    """
    rounding_error = spacing / 12**0.5
    return rounding_error
