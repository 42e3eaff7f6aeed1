"""Real rounding, on numpy arrays: what a matrix looks like after it was stored by a scheme and read again."""

from __future__ import annotations

from typing import Any

from calc.quantization._schemes import Scheme
from calc.units import CalcError

# Exponent bits, mantissa bits and the largest value of the small float types (OCP OFP8 and MX specifications)
FLOATS = {"fp8": (4, 3, 448.0), "fp4": (2, 1, 6.0)}


def round_float(values: Any, element: str) -> Any:
    """Round to the nearest value of a small float type, ties to the even mantissa, and cut off at its largest.

    Parameters
    ----------
    values : numpy.ndarray
    element : {"fp8", "fp4"}
        E4M3 without infinities, or E2M1.

    Returns
    -------
    numpy.ndarray

    Raises
    ------
    CalcError
        If the type isn't known.

    Notes
    -----
    A cast that doesn't cut off gives NaN above the largest value instead.

    Examples
    --------
    >>> import numpy as np
    >>> round_float(np.array([0.3, 2.5, 100.0]), "fp4").tolist()
    [0.5, 2.0, 6.0]
    """
    import numpy as np

    if element not in FLOATS:
        raise CalcError(f"no float type {element!r:.40} here: use {', '.join(FLOATS)}")
    exponent_bits, mantissa_bits, largest = FLOATS[element]
    least = 2 - 2 ** (exponent_bits - 1)  # exponent of the smallest normal value; below it the spacing stays
    exponent = np.maximum(np.frexp(values)[1] - 1, least)
    spacing = np.ldexp(1.0, exponent - mantissa_bits)
    return np.clip(np.rint(values / spacing) * spacing, -largest, largest)


def representable(element: str) -> list[float]:
    """All values of an element type before scaling, from the least to the largest.

    Examples
    --------
    >>> representable("fp4")[-8:]
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    >>> len(representable("int4")), len(representable("fp8"))
    (16, 253)
    """
    if element.startswith("int"):
        half = 2 ** (int(element[3:]) - 1)
        return [float(v) for v in range(-half, half)]
    exponent_bits, mantissa_bits, largest = FLOATS[element]
    least = 2 - 2 ** (exponent_bits - 1)
    steps = range(2**mantissa_bits)
    positive = {2.0**least * s / 2**mantissa_bits for s in steps}
    positive |= {2.0**e * (1 + s / 2**mantissa_bits) for e in range(least, least + 2**exponent_bits) for s in steps}
    positive = {v for v in positive if v <= largest}
    return sorted(positive | {-v for v in positive if v})


def round_trip(values: Any, scheme: Scheme) -> Any:
    """Store a matrix by a scheme and read it back: round to nearest, nothing learned.

    Parameters
    ----------
    values : numpy.ndarray
        Rows (outputs, or tokens) by columns (inputs).
    scheme : Scheme
        Its block must divide the matrix.

    Returns
    -------
    numpy.ndarray
        What is multiplied instead of `values`.

    Raises
    ------
    CalcError
        If the block doesn't divide the matrix, or the scheme's element type isn't known.

    Notes
    -----
    Round-to-nearest with the scale that just fits the largest value of a block. GPTQ and AWQ store the same
    way but choose better values, so this is a bound for them, not a forecast. Scales of 16 bits and more
    are taken as exact; those of 8 bits are rounded as MXFP4 (powers of two) and NVFP4 (E4M3 below a scale
    for the tensor) do.

    Examples
    --------
    >>> import numpy as np
    >>> from calc.quantization import scheme
    >>> round_trip(np.array([[1.0, -7.0, 2.4, 3.6]]), Scheme(name="x", element="int4", bits=4)).tolist()
    [[1.0, -7.0, 2.0, 4.0]]
    """
    if scheme.element == "bf16":
        return values
    rows, columns = values.shape
    tall, wide = scheme.block[0] or rows, scheme.block[1] or columns
    if rows % tall or columns % wide:
        raise CalcError(
            f"a matrix of {rows} x {columns} is no multiple of blocks of {tall} x {wide}: choose its sides so"
        )
    blocks = values.reshape(rows // tall, tall, columns // wide, wide)
    if scheme.element.startswith("int"):
        rounded = _integers(blocks, int(scheme.element[3:]), asymmetric=bool(scheme.zero_bits))
    else:
        scale = _float_scales(blocks, scheme)
        rounded = round_float(blocks / scale, scheme.element) * scale
    return rounded.reshape(rows, columns)


def _integers(blocks: Any, bits: int, *, asymmetric: bool) -> Any:
    import numpy as np

    if not asymmetric:
        top = 2 ** (bits - 1) - 1
        scale = _nonzero(np.abs(blocks).max(axis=(1, 3), keepdims=True) / top)
        return np.clip(np.rint(blocks / scale), -top - 1, top) * scale
    low = np.minimum(blocks.min(axis=(1, 3), keepdims=True), 0)
    high = np.maximum(blocks.max(axis=(1, 3), keepdims=True), 0)
    scale = _nonzero((high - low) / (2**bits - 1))
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(blocks / scale) + zero, 0, 2**bits - 1) - zero) * scale


def _float_scales(blocks: Any, scheme: Scheme) -> Any:
    import numpy as np

    if scheme.element not in FLOATS:
        raise CalcError(f"no rounding for elements of type {scheme.element!r:.40}: use int4, int8, fp8 or fp4")
    top = FLOATS[scheme.element][2]
    largest = _nonzero(np.abs(blocks).max(axis=(1, 3), keepdims=True))
    if scheme.element != "fp4":
        return largest / top
    if not scheme.tensor_bytes:  # MXFP4: a power of two that brings the largest value below twice 4
        return np.ldexp(1.0, np.frexp(largest)[1] - 1 - 2)
    whole = largest.max() / (top * FLOATS["fp8"][2])
    return _nonzero(round_float(largest / top / whole, "fp8")) * whole


def _nonzero(scale: Any) -> Any:
    import numpy as np

    return np.where(scale == 0, 1.0, scale)


def relative_error(approximate: Any, exact: Any) -> float:
    """Size of the difference over the size of what was meant, root mean squares of both.

    Examples
    --------
    >>> import numpy as np
    >>> round(relative_error(np.array([1.1, 2.0]), np.array([1.0, 2.0])), 4)
    0.0447
    """
    import numpy as np

    size = float(np.linalg.norm(exact))
    if not size:
        raise CalcError("nothing but zeros: a relative error needs values")
    return float(np.linalg.norm(approximate - exact)) / size


def sample(rows: int, columns: int, *, seed: int, outliers: int = 0, outlier_size: float = 1) -> Any:
    """A matrix of normal values, some of whose columns are larger; the same one for a seed, everywhere.

    Parameters
    ----------
    rows, columns : int
    seed : int
        Which matrix.
    outliers : int
        Columns that are larger.
    outlier_size : float
        How many times as large they are.

    Returns
    -------
    numpy.ndarray

    Raises
    ------
    CalcError
        If a side is empty, there are more outliers than columns, or the seed is no whole number.
    """
    import numpy as np

    for name, value, least in (
        ("rows", rows, 1),
        ("columns", columns, 1),
        ("seed", seed, 0),
        ("outliers", outliers, 0),
    ):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**32:
            raise CalcError(f"sample: {name} is {value!r:.40}, wanted a whole number of at least {least}")
    if outliers > columns:
        raise CalcError(f"sample: {outliers} outliers in {columns} columns: use fewer")
    if not 0 < outlier_size < 2**20:
        raise CalcError(f"sample: outlier_size is {outlier_size!r:.40}, wanted a number above 0")
    random = np.random.RandomState(seed)  # its stream never changes
    values = random.standard_normal((rows, columns))
    values[:, random.permutation(columns)[:outliers]] *= outlier_size
    return values
