"""A model's geometry: what its configuration says about its layers, and nothing else."""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from calc.models.families import open_config, read_frame, read_layers
from calc.models.fields import MOST_POSITIONS, ConfigError, Fields, mapping, read_file, shown
from calc.models.layers import Layer, Mixer

ELEMENT_NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGeometry:
    """A decoder's shape, from which parameters and cache follow.

    Attributes
    ----------
    name : str
        For display.
    architecture : str
        The configuration's ``model_type``.
    hidden : int
        Elements of the hidden state.
    vocab : int
        Rows of the embedding, padding included.
    layers : tuple of Layer
        From the bottom up.
    tied_embeddings : bool
        Whether the output layer reuses the embedding.
    max_positions : int or None
        Longest sequence the file states, in tokens; None where it states none.
    element : str or None
        Type of the checkpoint's elements that aren't quantized: "bf16", "fp16", "fp32" or "fp8"; None where
        the file doesn't say.
    streams : int
        Residual streams that hyper-connections mix around every block; 0 for a residual that is only added to.
    positions : int
        Rows of a matrix of learned positions; 0 where positions are computed.
    final_norms : int
        Weights of the last norm, in hidden states: 1 for a scale, 2 for a scale and a shift, 0 for no such norm.
    head_bias : bool
        Whether the output layer adds a bias.
    source : str
        Where the facts come from.

    Notes
    -----
    Layers for multi-token prediction (``num_nextn_predict_layers``), vision parts, and quantization with
    its scales are not part of the geometry.
    """

    name: str
    architecture: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...] = field(repr=False)
    tied_embeddings: bool
    max_positions: int | None = None
    element: str | None = None
    streams: int = 0
    positions: int = field(default=0, repr=False)
    final_norms: int = field(default=1, repr=False)
    head_bias: bool = field(default=False, repr=False)
    source: str = ""

    @classmethod
    def from_config(cls, config: str | PathLike[str] | dict[str, Any], *, name: str | None = None) -> ModelGeometry:
        """Read a Hugging Face ``config.json``.

        Parameters
        ----------
        config : path or dict
            The file (at most 5 MB), or its parsed content.
        name : str, optional
            Name to show: up to 80 letters, digits, spaces and ``._+:()/-``. The model type if left out.

        Returns
        -------
        ModelGeometry

        Raises
        ------
        UnsupportedArchitecture
            If the model type, the architecture, or a structural field is not one the library knows.
        ConfigError
            If a field is missing, has the wrong type or range, or contradicts another.

        Notes
        -----
        Read as transformers 5.24.0 reads it. What a file leaves out is taken from that release's
        configuration class only where published files of the family leave it out
        (``data/families.json``); anything else that is missing is an error.

        Examples
        --------
        >>> model = ModelGeometry.from_config({
        ...     "model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "vocab_size": 131072,
        ...     "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        ...     "intermediate_size": 14336, "sliding_window": None, "max_position_embeddings": 131072})
        >>> model.layers[0].mixer.key_dim, model.hidden // 32
        (128, 160)
        """
        if isinstance(config, (str, PathLike)):
            data, source = read_file(config), "a config.json"
        else:
            data, source = mapping(config, "the configuration"), "a configuration given as a dict"
        f = open_config(data)
        return cls(
            name=_checked_name(name or data["model_type"]),
            architecture=data["model_type"],
            hidden=f.count("hidden_size"),
            vocab=f.count("vocab_size"),
            layers=read_layers(f),
            tied_embeddings=f.flag("tie_word_embeddings"),
            max_positions=f.optional_count("max_position_embeddings", most=MOST_POSITIONS, required=False),
            element=_element(f),
            streams=f.optional_count("hc_mult", required=False) or 0,
            source=source,
            **read_frame(f),
        )

    def __hash__(self) -> int:
        """Of what tells models apart, quickly: results are kept by model, and a hundred layers take their time."""
        ends = (self.layers[0], self.layers[-1]) if self.layers else ()
        return hash((self.name, self.architecture, self.hidden, self.vocab, len(self.layers), ends))

    def kinds(self) -> tuple[tuple[Mixer, int], ...]:
        """The distinct mixers with the number of layers that have them, in order of first appearance."""
        return _kinds(self)

    def _repr_html_(self) -> str:
        kinds = ", ".join(f"{count} {mixer.kind if mixer else 'without attention'}" for mixer, count in self.kinds())
        rows = (
            ("model", f"{self.name} ({self.architecture})"),
            ("layers", f"{len(self.layers)}: {kinds}"),
            ("hidden size", f"{self.hidden:,}"),
            ("vocabulary", f"{self.vocab:,}{', shared with the output layer' if self.tied_embeddings else ''}"),
            ("longest sequence", f"{self.max_positions:,} tokens" if self.max_positions else "not stated"),
        )
        body = "".join(f"<tr><th>{label}</th><td>{text}</td></tr>" for label, text in rows)
        return f'<table class="calc-table"><tbody>{body}</tbody></table>'


@functools.lru_cache(maxsize=512)
def _kinds(model: ModelGeometry) -> tuple[tuple[Mixer, int], ...]:
    return tuple(Counter(layer.mixer for layer in model.layers).items())


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9 ._+:()/-]{1,80}", name):
        raise ConfigError(f"name is {shown(name)}: use up to 80 letters, digits, spaces and ._+:()/-")
    return name


def _element(f: Fields) -> str | None:
    stated = f.value("dtype", "torch_dtype")
    if stated is None:
        return None
    name = stated.removeprefix("torch.") if isinstance(stated, str) else stated
    if not isinstance(name, str) or name not in ELEMENT_NAMES:
        raise f.error(f"dtype is {shown(stated)}: it must be one of {', '.join(ELEMENT_NAMES)}")
    return ELEMENT_NAMES[name]
