"""Accelerators and links: what a chip holds, how fast it reads it, how fast it multiplies.

The figures live in ``data/hardware.json``. Peaks are dense, never with sparsity. Bandwidths are
decimal. A link's speed is for one direction, also where the vendor prints both together.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from calc.sources import Figure, load_json
from calc.units import CalcError, dimensions, parse

# --- formulas ------------------------------------------------------------------------------------


@dimensions("FLOP/second", with_sparsity="FLOP/second")
def dense_peak(*, with_sparsity):
    """Dense peak of a chip whose vendor prints the one with 2:4 structured sparsity.

    Of every four weights two are zero and skipped, so the printed rate counts work that is not
    done. No weights of the models in this book are pruned that way.

    Parameters
    ----------
    with_sparsity : float
        Printed peak, FLOP/s.

    Returns
    -------
    float
        FLOP/s.

    Raises
    ------
    CalcError
        If the argument is negative or not finite.

    Notes
    -----
    Valid for figures marked "with sparsity". A few chips break the factor (B300 in fp4): their
    dense figure is printed and taken as it is.

    References
    ----------
    NVIDIA H100 product page: footnote "with sparsity" to every tensor-core figure.

    Examples
    --------
    >>> dense_peak(with_sparsity=1979e12)
    989500000000000.0
    """
    dense_peak = with_sparsity / 2
    return dense_peak


@dimensions("byte/second", both_directions="byte/second")
def one_direction(*, both_directions):
    """Speed of a full-duplex link in one direction, from the sum that vendors print.

    Parameters
    ----------
    both_directions : float
        Printed speed, B/s.

    Returns
    -------
    float
        B/s.

    Raises
    ------
    CalcError
        If the argument is negative or not finite.

    Notes
    -----
    Signaling rate less coding where the vendor deducts it, before protocol headers.

    Examples
    --------
    >>> one_direction(both_directions=900e9)
    450000000000.0
    """
    one_direction = both_directions / 2
    return one_direction


@dimensions("FLOP/second", clock="1/second", matrix_units="count", fma_per_cycle="count")
def peak_from_clock(*, clock, matrix_units, fma_per_cycle):
    """Dense peak from the clock: every matrix unit busy in every cycle.

    A fused multiply-add counts as two FLOP.

    Parameters
    ----------
    clock : float
        Cycles per second that the vendor counts with, not the highest the chip can reach.
    matrix_units : int
        Tensor cores or matrix cores on the chip.
    fma_per_cycle : int
        Fused multiply-adds of one unit in one cycle, for the element type.

    Returns
    -------
    float
        FLOP/s.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    An upper bound. Power limits lower the clock under load.

    References
    ----------
    Bekman, "Machine Learning Engineering", compute/accelerator.

    Examples
    --------
    H100 SXM in bf16:

    >>> peak_from_clock(clock=1830e6, matrix_units=528, fma_per_cycle=512)
    989429760000000.0
    """
    peak_from_clock = 2 * clock * matrix_units * fma_per_cycle
    return peak_from_clock


@dimensions("byte/second", bus_bits="count", clock="1/second", transfers_per_cycle="count")
def bandwidth_from_bus(*, bus_bits, clock, transfers_per_cycle):
    """Memory bandwidth from the width and the clock of the memory bus.

    Parameters
    ----------
    bus_bits : int
        Data lines of all memory stacks or chips together.
    clock : float
        Memory clock, cycles per second.
    transfers_per_cycle : int
        2 for double data rate.

    Returns
    -------
    float
        B/s.

    Raises
    ------
    CalcError
        If an argument is negative, not finite, or a count is not whole.

    Notes
    -----
    An upper bound: refresh, error correction and turnarounds are not deducted.

    References
    ----------
    pytorch/ao pull request 4002, for B200.

    Examples
    --------
    >>> bandwidth_from_bus(bus_bits=7680, clock=3996e6, transfers_per_cycle=2)
    7672320000000.0
    """
    bandwidth_from_bus = bus_bits / 8 * clock * transfers_per_cycle
    return bandwidth_from_bus


# --- the catalogue -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Link:
    """One way out of a chip.

    Attributes
    ----------
    name : str
        For example "NVLink 4".
    role : str
        "peer" to other accelerators, "host" to the CPU.
    bytes_per_second : Figure
        All of it, in one direction.
    to_one_peer : Figure
        What a single peer can get of it, in one direction: the whole behind a switch, one cable in a mesh
        or torus.
    joins : int or None
        Most chips that such links join: on one board, in one rack or pod; None where that is not listed.
    """

    name: str
    role: str
    bytes_per_second: Figure
    to_one_peer: Figure
    joins: int | None = None


@dataclass(frozen=True, slots=True)
class Accelerator:
    """One chip, as a program sees it.

    Attributes
    ----------
    slug, name : str
    memory_as_sold : str
        The vendor's words, for example "80GB".
    memory_bytes : Figure
        Total that the driver reports; its note says where only the label is known.
    nominal : bool
        Whether only the label is known: `memory_bytes` is then the label read in GiB.
    visible_bytes : Figure or None
        Total that a program is shown, where a public log records it: the driver keeps the difference.
    bandwidth : Figure
        Memory bandwidth, B/s.
    peaks : Mapping of str to Figure
        Dense peak by element type, FLOP/s (for int8, operations per second).
    links : Mapping of str to Link
        By family: "nvlink", "infinity-fabric", "ici", "pcie".
    """

    slug: str
    name: str
    memory_as_sold: str
    memory_bytes: Figure
    nominal: bool
    visible_bytes: Figure | None
    bandwidth: Figure
    peaks: Mapping[str, Figure]
    links: Mapping[str, Link]

    @property
    def noun(self) -> str:
        """What such a chip is called: "GPU" or "TPU"."""
        return "TPU" if "TPU" in self.name else "GPU"

    @property
    def sparse_printed(self) -> bool:
        """Whether a peak of its is printed with 2:4 sparsity, which no model of this book uses."""
        return any("sparsity" in peak.note for peak in self.peaks.values())

    @property
    def program_bytes(self) -> Figure:
        """Memory that a program sees, as well as it is known: measured, else the driver's total, else the label.

        Examples
        --------
        >>> [accelerator(s).program_bytes.kind for s in ("h100-sxm", "h200-sxm", "h100-pcie")]
        ['published', 'published', 'assumed']
        """
        if self.visible_bytes is not None:
            return self.visible_bytes
        if self.nominal:
            note = f"{self.memory_bytes.note} Assumed to be what a program sees, which is less."
            return replace(self.memory_bytes, kind="assumed", note=note)
        note = f"{self.memory_bytes.note} The driver's total, of which it keeps a little for itself."
        return replace(self.memory_bytes, note=note.strip())

    def peak(self, element: str) -> Figure:
        """Dense peak for an element type.

        Raises
        ------
        CalcError
            If no figure is on record: the chip has no matrix units for that type, or none was found in print.

        Examples
        --------
        >>> accelerator("h100-sxm").peak("bf16").value
        989500000000000.0
        >>> accelerator("a100-80gb-sxm").peak("fp8")
        Traceback (most recent call last):
            ...
        calc.units.CalcError: NVIDIA A100 80GB SXM has no peak for 'fp8' on record: it has bf16, fp16, int8
        """
        if element not in self.peaks:
            raise CalcError(f"{self.name} has no peak for {element!r:.40} on record: it has {', '.join(self.peaks)}")
        return self.peaks[element]

    def link(self, family: str) -> Link:
        """The link of a family.

        Raises
        ------
        CalcError
            If the chip has no such link.

        Examples
        --------
        >>> accelerator("h100-sxm").link("nvlink").bytes_per_second.value
        450000000000.0
        """
        if family not in self.links:
            raise CalcError(f"{self.name} has no link {family!r:.40}: it has {', '.join(self.links)}")
        return self.links[family]


def accelerators() -> tuple[str, ...]:
    """Slugs of all accelerators in the catalogue."""
    return tuple(load_json("hardware.json")["accelerators"])


def accelerator(slug: str) -> Accelerator:
    """Look an accelerator up.

    Parameters
    ----------
    slug : str
        One of `accelerators`.

    Returns
    -------
    Accelerator

    Raises
    ------
    CalcError
        If there is none of that name; the message offers the closest.

    Examples
    --------
    >>> accelerator("h200-sxm").memory_as_sold
    '141GB'
    >>> accelerator("h100")
    Traceback (most recent call last):
        ...
    calc.units.CalcError: no accelerator 'h100' in the catalogue; did you mean h100-sxm or h100-nvl or h100-pcie?
    """
    known = accelerators()
    if slug not in known:
        close = " or ".join(difflib.get_close_matches(str(slug)[:80].lower(), known))
        hint = f"did you mean {close}?" if close else f"it has {', '.join(known)}"
        raise CalcError(f"no accelerator {slug!r:.40} in the catalogue; {hint}")
    return _accelerator(slug)


@functools.cache
def _accelerator(slug: str) -> Accelerator:
    entry = load_json("hardware.json")["accelerators"][slug]
    memory = entry["memory"]
    return Accelerator(
        slug=slug,
        name=entry["name"],
        memory_as_sold=memory["sold_as"],
        memory_bytes=_figure(memory["total"], "B"),
        nominal=memory["total"].get("nominal", False),
        visible_bytes=_figure(memory["visible"], "B") if "visible" in memory else None,
        bandwidth=_figure(entry["bandwidth"], "B/s"),
        peaks=MappingProxyType({element: _figure(peak, "FLOP/s") for element, peak in entry["peaks"].items()}),
        links=MappingProxyType({family: _link(link) for family, link in entry["links"].items()}),
    )


def _link(entry: dict[str, Any]) -> Link:
    whole = _figure(entry, "B/s")
    cables = entry.get("cables", 1)
    one = Figure(whole.value / cables, "B/s", "derived", note=f"One of {cables} cables, each to another chip.")
    return Link(entry["name"], entry["role"], whole, whole if cables == 1 else one, entry.get("joins"))


def _figure(entry: dict[str, Any], unit: str) -> Figure:
    """Build a figure from what the vendor printed, halving sparsity and both-direction sums, and say so."""
    note = []
    if "amount" in entry:
        value = parse(entry["amount"]).value
        if "with_sparsity" in entry:
            note.append(f"Printed {entry['with_sparsity']} with sparsity.")
    elif "with_sparsity" in entry:
        value = dense_peak(with_sparsity=parse(entry["with_sparsity"]).value)
        note.append(f"Half of {entry['with_sparsity']}, which is printed with sparsity.")
    else:
        value = one_direction(both_directions=parse(entry["bidirectional"]).value)
        note.append(f"Half of {entry['bidirectional']}, which counts both directions.")
    note.append(entry.get("note", ""))
    table = load_json("hardware.json")
    origin = table["sources"][entry["source"]]
    return Figure(value, unit, "published", **{"checked": table["checked"]} | origin, note=" ".join(note).strip())
