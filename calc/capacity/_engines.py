"""What each engine means by its memory setting, and the pool that follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from calc.capacity._formulas import pool_bytes, remainder_pool_bytes, static_pool_bytes
from calc.sources import load_json
from calc.units import UNITS, CalcError


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySetting:
    """An engine's memory setting.

    Attributes
    ----------
    slug, engine, version : str
    setting : str
        Its name.
    default : float or None
        None where the engine works it out at start.
    default_text : str
    rule : str
        How the setting becomes a pool; "none" where it is no share of a memory.
    assumed : float or None
        What this book takes where the engine works it out at start; a guess.
    margin_bytes : float or None
        What an engine without a share leaves free.
    share_of : str
        What it is a share of, and what the share is for.
    outside : str
        What the rest must hold.
    admission : str
        When a request may start, empty where that was not looked up.
    source, url, checked : str
    """

    slug: str
    engine: str
    version: str
    setting: str
    default: float | None
    default_text: str
    rule: str
    assumed: float | None
    margin_bytes: float | None
    share_of: str
    outside: str
    admission: str
    source: str
    url: str
    checked: str


def engines() -> tuple[str, ...]:
    """Slugs of the engines whose setting is known."""
    return tuple(load_json("memory_settings.json")["engines"])


def memory_setting(engine: str) -> MemorySetting:
    """Look an engine's memory setting up.

    Raises
    ------
    CalcError
        If the engine is unknown; the message offers the closest.

    Examples
    --------
    >>> memory_setting("lmdeploy").setting
    'cache_max_entry_count'
    """
    entry = _entry(engine)
    margin = entry.get("margin_mib")
    named = (
        "version",
        "setting",
        "default",
        "default_text",
        "rule",
        "share_of",
        "outside",
        "admission",
        "source",
        "url",
    )
    return MemorySetting(
        slug=engine,
        engine=entry["name"],
        checked=load_json("memory_settings.json")["checked"],
        assumed=entry.get("assumed"),
        margin_bytes=None if margin is None else margin * UNITS["MiB"].factor,
        **{name: entry[name] for name in named},
    )


def engine_pool_bytes(
    engine: str,
    *,
    total_bytes: float,
    fraction: float | None = None,
    weight_bytes: float,
    activation_bytes: float,
    graph_bytes: float,
    communication_bytes: float,
) -> float:
    """The pool that an engine allocates on one GPU, by its own meaning of its setting.

    Parameters
    ----------
    engine : str
        One of `engines`.
    total_bytes : float
        Memory of the GPU as a program sees it.
    fraction : float or None
        The setting; None takes the engine's default.
    weight_bytes, activation_bytes, graph_bytes, communication_bytes : float
        What the rank holds besides, as in `pool_bytes`.

    Returns
    -------
    float
        Bytes; below 0 where the model doesn't fit.

    Raises
    ------
    CalcError
        If the engine is unknown, has no default and no fraction is given, or a fraction is given to one that
        takes none.

    Notes
    -----
    Communication buffers and the driver's context are taken to be there before an engine first looks at
    free memory. For llama.cpp it is the largest cache that leaves its margin free.

    Examples
    --------
    Four engines told "0.9-ish" on an 80 GB card with 54 GiB of weights and a peak of 3 GiB:

    >>> gib = 1024**3
    >>> held = {"weight_bytes": 54 * gib, "activation_bytes": 3 * gib, "graph_bytes": 0, "communication_bytes": 0}
    >>> settings = {"vllm": 0.9, "sglang": 0.93, "tensorrt-llm": 0.95, "lmdeploy": 0.8}
    >>> [round(engine_pool_bytes(e, total_bytes=79.1 * gib, fraction=f, **held) / gib, 1) for e, f in settings.items()]
    [14.2, 19.6, 21.0, 20.1]
    """
    known = {
        "total_bytes": total_bytes,
        "fraction": fraction,
        "weight_bytes": weight_bytes,
        "activation_bytes": activation_bytes,
        "graph_bytes": graph_bytes,
        "communication_bytes": communication_bytes,
    }
    found = engine_pool_formula(engine, **known)
    if found is None:
        margin = _entry(engine)["margin_mib"] * UNITS["MiB"].factor
        return total_bytes - margin - weight_bytes - activation_bytes - communication_bytes
    formula, arguments = found
    return formula(**arguments)


def engine_pool_formula(
    engine: str,
    *,
    total_bytes: float,
    fraction: float | None = None,
    weight_bytes: float,
    activation_bytes: float,
    graph_bytes: float,
    communication_bytes: float,
) -> tuple[Callable, dict] | None:
    """The formula of an engine's pool and its arguments; None for an engine that takes no share of a memory.

    Parameters
    ----------
    engine, total_bytes, fraction, weight_bytes, activation_bytes, graph_bytes, communication_bytes
        As for `engine_pool_bytes`.

    Returns
    -------
    tuple of (callable, dict) or None

    Raises
    ------
    CalcError
        As for `engine_pool_bytes`.
    """
    entry = _entry(engine)
    fraction = entry["default"] if fraction is None else fraction
    rule = entry["rule"]
    if rule == "none":
        return None
    if fraction is None:
        raise CalcError(f"{entry['name']} has no fixed default: give fraction, as {entry['setting']}")
    if not 0 < fraction <= 1:
        raise CalcError(f"fraction is {fraction!r:.40}, wanted above 0 and at most 1")
    held = {"total_bytes": total_bytes, "fraction": fraction, "weight_bytes": weight_bytes}
    if rule == "static":
        free = total_bytes - communication_bytes
        return static_pool_bytes, {"free_bytes": free, "fraction": fraction, "weight_bytes": weight_bytes}
    if rule == "remainder":
        workspace = activation_bytes + graph_bytes + communication_bytes
        return remainder_pool_bytes, held | {"workspace_bytes": workspace}
    if rule == "after_loading":
        return remainder_pool_bytes, held | {"workspace_bytes": communication_bytes}
    rest = {"activation_bytes": activation_bytes, "communication_bytes": communication_bytes}
    if rule == "wiggle":
        return pool_bytes, held | {"fraction": fraction * entry["wiggle"], "graph_bytes": 0} | rest
    return pool_bytes, held | {"graph_bytes": graph_bytes} | rest


def _entry(engine: str) -> dict:
    known = load_json("memory_settings.json")["engines"]
    if engine not in known:
        close = " or ".join(get_close_matches(str(engine)[:80].lower(), known))
        raise CalcError(
            f"no engine {engine!r:.40}; " + (f"did you mean {close}?" if close else f"known are {', '.join(known)}")
        )
    return known[engine]
