"""Filter engines by exact compatibility: one "no" rejects, one "unknown" keeps an engine from passing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calc import models, quantization
from calc.hardware import Accelerator
from calc.hardware import accelerator as chip_of
from calc.selection._table import (
    NO,
    UNKNOWN,
    YES,
    Cell,
    cell,
    engine_name,
    engines,
    hardware_cell,
    options,
    quantization_cell,
    speculation_cell,
)
from calc.units import CalcError

NOTHING = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a deployment asks of an engine.

    Attributes
    ----------
    model : str
        A slug of `calc.models.catalogue`.
    accelerator : str
        A slug of `calc.hardware`.
    weights : str
        One of `calc.quantization.schemes`, or of `calc.quantization.gguf_mixes`; it decides the format of the
        checkpoint.
    adapters, structured, speculative, parallel : str
        One of the criterion's `options`, or "none". `parallel` may name two, as "tensor + pipeline".
    api : str
        One of its `options`.

    Raises
    ------
    CalcError
        If a name is unknown.
    """

    model: str
    accelerator: str
    weights: str = "bf16"
    adapters: str = NOTHING
    structured: str = NOTHING
    speculative: str = NOTHING
    parallel: str = NOTHING
    api: str = "chat"

    def __post_init__(self) -> None:
        models.load(self.model)
        chip_of(self.accelerator)
        known = (*quantization.schemes(), *quantization.gguf_mixes())
        if self.weights not in known:
            raise CalcError(f"weights is {self.weights!r:.40}, wanted one of {', '.join(known)}")
        for criterion in ("adapters", "structured", "speculative"):
            chosen = getattr(self, criterion)
            if chosen not in (NOTHING, *options(criterion)):
                raise CalcError(f"{criterion} is {chosen!r:.40}, wanted none or one of {', '.join(options(criterion))}")
        for way in self.ways:
            if way not in options("parallel"):
                raise CalcError(
                    f"parallel is {self.parallel!r:.40}, wanted none, or some of {', '.join(options('parallel'))}"
                )
        if self.api not in options("api"):
            raise CalcError(f"api is {self.api!r:.40}, wanted one of {', '.join(options('api'))}")

    @property
    def checkpoint(self) -> str:
        """Format of the files that hold the weights."""
        return "gguf" if self.weights in quantization.gguf_mixes() else "safetensors"

    @property
    def ways(self) -> tuple[str, ...]:
        """The kinds of parallelism that are asked for."""
        return () if self.parallel == NOTHING else tuple(self.parallel.split(" + "))

    @property
    def pairs(self) -> tuple[str, ...]:
        """The features that must work together, two by two."""
        asked = {"adapters": self.adapters, "structured": self.structured, "speculative": self.speculative}
        wanted = {name for name, chosen in asked.items() if chosen != NOTHING} | set(self.ways)
        return tuple(pair for pair in options("pairs") if set(pair.split(" + ")) <= wanted)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the table says about one engine and one deployment.

    Attributes
    ----------
    engine, name : str
    cells : tuple of Cell
        One for each thing that is asked, in the order of the filter.
    """

    engine: str
    name: str
    cells: tuple[Cell, ...]

    @property
    def rejecting(self) -> tuple[Cell, ...]:
        """The cells that say no."""
        return tuple(c for c in self.cells if c.value == NO)

    @property
    def open(self) -> tuple[Cell, ...]:
        """The cells that nobody could fill."""
        return tuple(c for c in self.cells if c.value == UNKNOWN)

    @property
    def reported(self) -> tuple[Cell, ...]:
        """The cells with open bugs beside them, whatever they say."""
        return tuple(c for c in self.cells if c.bugs)

    @property
    def result(self) -> str:
        """One of "passes", "open" and "rejected"."""
        return "rejected" if self.rejecting else "open" if self.open else "passes"

    @property
    def passes(self) -> bool:
        """Whether every cell says yes."""
        return all(c.value == YES for c in self.cells)


def screen(needs: Needs) -> tuple[Verdict, ...]:
    """Ask the table about every engine.

    Parameters
    ----------
    needs : Needs

    Returns
    -------
    tuple of Verdict
        In the table's order.

    Raises
    ------
    CalcError
        If the table has no such GPU or architecture.

    Notes
    -----
    The table has features one by one, and two by two where the makers say something about the pair. That three
    work together, that a quantized checkpoint of this very model loads, that a draft for it exists, and that any of
    it is fast, is not in it.

    Examples
    --------
    >>> asked = Needs(model="llama-3.1-70b", accelerator="h100-sxm", weights="fp8-channel", speculative="eagle-3")
    >>> {v.engine: v.result for v in screen(asked)}["llama.cpp"]
    'rejected'
    """
    chip = chip_of(needs.accelerator)
    return tuple(Verdict(e, engine_name(e), tuple(_asked(e, needs, chip))) for e in engines())


def _asked(engine: str, needs: Needs, chip: Accelerator) -> Iterator[Cell]:
    yield hardware_cell(engine, chip)
    architecture = models.load(needs.model).architecture
    yield cell(engine, "architecture", architecture)
    yield cell(engine, "checkpoint", needs.checkpoint)
    yield quantization_cell(engine, needs.weights, chip)
    for criterion in ("adapters", "structured"):
        if getattr(needs, criterion) != NOTHING:
            yield cell(engine, criterion, getattr(needs, criterion))
    if needs.speculative != NOTHING:
        yield speculation_cell(engine, needs.speculative, architecture)
    for way in needs.ways:
        yield cell(engine, "parallel", way)
    yield cell(engine, "api", needs.api)
    yield cell(engine, "license", "permissive")
    for pair in needs.pairs:
        yield cell(engine, "pairs", pair, method=needs.speculative)
