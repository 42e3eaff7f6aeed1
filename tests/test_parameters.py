"""Parameter counts against transformers' own, against printed figures, and against hand counts."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.models import (
    DenseMLP,
    FixedState,
    FullAttention,
    Layer,
    MixtureOfExperts,
    ModelGeometry,
    StatePart,
    catalogue,
    load,
)
from calc.parameters import (
    attention_parameters,
    count,
    embedding_parameters,
    latent_attention_parameters,
    latent_query_parameters,
    mlp_parameters,
)
from calc.sources import load_json
from calc.units import CalcError

FIXTURES = Path(__file__).parent / "fixtures"
MORE = json.loads((FIXTURES / "transformers_5.24.0_more.json").read_text())
PUBLISHED = json.loads((FIXTURES / "transformers_5.24.0_parameters.json").read_text())["models"]
FIRST = json.loads((FIXTURES / "transformers_5.24.0.json").read_text())["params"]
HUB_NAMES = {
    "llama-3.1-8b": "meta-llama--Meta-Llama-3.1-8B",
    "llama-3.1-70b": "meta-llama--Meta-Llama-3.1-70B",
    "llama-3.1-405b": "meta-llama--Meta-Llama-3.1-405B",
    "mixtral-8x7b": "mistralai--Mixtral-8x7B-v0.1",
    "qwen3-0.6b": "Qwen--Qwen3-0.6B",
    "qwen3-8b": "Qwen--Qwen3-8B",
    "qwen3-30b-a3b": "Qwen--Qwen3-30B-A3B",
    "qwen3-235b-a22b": "Qwen--Qwen3-235B-A22B",
    "gpt-oss-20b": "openai--gpt-oss-20b",
    "gpt-oss-120b": "openai--gpt-oss-120b",
    "kimi-k2": "moonshotai--Kimi-K2-Instruct",
}


def published_count(slug):
    return load_json("models", f"{slug}.json").get("published_parameters")


@pytest.mark.parametrize("slug", catalogue())
def test_catalogue_equals_transformers_to_the_last_parameter(slug):
    ours, theirs = count(load(slug)), MORE["catalogue"][slug]
    assert ours.groups == theirs["groups"]
    assert ours.total == theirs["total"]
    assert ours.active == theirs.get("active", theirs["total"])


@pytest.mark.parametrize("case", MORE["geometries"], ids=lambda case: case["config"]["model_type"])
def test_random_geometry_equals_transformers_to_the_last_parameter(case):
    ours = count(ModelGeometry.from_config(case["config"]))
    assert ours.groups == case["groups"]
    assert ours.total == case["total"]
    assert ours.active == case.get("active", case["total"])


@pytest.mark.parametrize(("slug", "hub_name"), HUB_NAMES.items())
def test_published_file_equals_transformers_to_the_last_parameter(slug, hub_name):
    ours, theirs = count(load(slug)), PUBLISHED[hub_name]
    assert ours.groups == theirs["groups"]
    assert ours.total == theirs["text_total"]
    assert ours.active == theirs["active_incl_embedding"]
    assert ours.active_excluding_embedding == theirs["active_excl_input_embedding"]


@pytest.mark.parametrize("slug", FIRST)
def test_bf16_bytes_equal_transformers_own(slug):
    assert 2 * count(load(slug)).total == FIRST[slug]["bf16_bytes"]


@pytest.mark.parametrize("slug", [slug for slug in catalogue() if published_count(slug)])
def test_printed_count_of_somebody_else(slug):
    assert count(load(slug)).total == published_count(slug)["value"]


@pytest.mark.parametrize(
    ("slug", "printed", "digits", "source"),
    [
        ("gpt-oss-120b", 5.13, 2, "gpt-oss model card, arXiv:2508.10925, table 1"),
        ("gpt-oss-20b", 3.61, 2, "gpt-oss model card, arXiv:2508.10925, table 1"),
    ],
)
def test_printed_active_parameters_without_the_input_embedding(slug, printed, digits, source):
    counted = count(load(slug))
    assert round(counted.active_excluding_embedding / 1e9, digits) == printed
    assert round(counted.active / 1e9, digits) != printed


def test_printed_active_parameters_with_the_input_embedding():
    counted = count(load("qwen1.5-moe-a2.7b"))  # the name prints it
    assert round(counted.active / 1e9, 1) == 2.7
    assert round(counted.active_excluding_embedding / 1e9, 1) != 2.7


def test_one_layer_by_hand():
    attention = FullAttention(
        query_heads=4, kv_heads=2, key_dim=8, value_dim=6, qkv_bias=True, output_bias=True, qk_norm="head", sinks=True
    )
    experts = MixtureOfExperts(
        experts=3,
        experts_per_token=1,
        expert_intermediate=5,
        shared_intermediate=7,
        shared_gate=True,
        router_bias=True,
        expert_bias=True,
    )
    layers = (Layer(mixer=attention, mlp=experts, norms=2),)
    counted = count(
        ModelGeometry(name="x", architecture="x", hidden=10, vocab=11, layers=layers, tied_embeddings=False)
    )
    weights = 10 * (4 * 8) + 10 * (2 * 8) + 10 * (2 * 6) + (4 * 6) * 10
    assert counted.attention == weights + (4 * 8 + 2 * 8 + 2 * 6) + 10 + (8 + 8) + 4
    assert counted.routed_experts == 3 * (3 * 10 * 5 + 5 + 5 + 10)
    assert counted.shared_experts == 3 * 10 * 7 + 10
    assert counted.router == 3 * 10 + 3
    assert counted.norms == 2 * 10 + 10
    assert counted.embedding == counted.lm_head == 110
    assert counted.active == counted.total - 2 * (3 * 10 * 5 + 5 + 5 + 10)


def test_norm_over_all_heads_and_plain_networks():
    attention = FullAttention(query_heads=4, kv_heads=2, key_dim=8, value_dim=8, qk_norm="full")
    layer = Layer(mixer=attention, mlp=DenseMLP(intermediate=5, gated=False, bias=True), norms=1)
    alone = Layer(mixer=None, mlp=None, norms=1)
    model = ModelGeometry(name="x", architecture="x", hidden=10, vocab=11, layers=(layer, alone), tied_embeddings=True)
    counted = count(model)
    assert counted.attention == 10 * (4 + 2) * 16 + (4 + 2) * 8
    assert counted.mlp == 2 * 10 * 5 + 5 + 10
    assert counted.norms == 3 * 10
    assert counted.lm_head == 0 and "lm_head" not in counted.groups
    assert counted.active_excluding_embedding == counted.active == counted.total


def test_recurrent_layer_is_refused_by_name():
    layer = Layer(mixer=FixedState(parts=(StatePart(elements=4),)), mlp=None, norms=1)
    model = ModelGeometry(name="hybrid", architecture="x", hidden=1, vocab=1, layers=(layer,), tied_embeddings=True)
    with pytest.raises(CalcError, match="hybrid: .* type FixedState are not counted"):
        count(model)


def test_table_has_the_active_row_only_for_mixtures():
    assert "active per token" in count(load("mixtral-8x7b"))._repr_html_()
    dense = count(load("llama-3.1-8b"))._repr_html_()
    assert "active per token" not in dense and "8,030,261,248" in dense


SIZE = st.integers(1, 5000)


@settings(deadline=None)
@given(SIZE, SIZE, SIZE, SIZE, SIZE)
def test_latent_attention_is_the_sum_of_its_matrices(hidden, heads, latent, rope, nope):
    sizes = {"hidden": hidden, "query_heads": heads, "rope_dim": rope, "nope_dim": nope}
    both = latent_attention_parameters(**sizes, latent_dim=latent, value_dim=nope)
    both += latent_query_parameters(**sizes, query_rank=latent)
    down = hidden * (latent + rope) + hidden * latent
    up = latent * heads * 2 * nope + latent * heads * (rope + nope)
    assert both == down + up + heads * nope * hidden


@pytest.mark.parametrize(
    ("formula", "arguments", "name"),
    [
        (embedding_parameters, {"vocab": -1, "hidden": 2}, "vocab"),
        (attention_parameters, {"hidden": 2, "query_heads": 1.5, "kv_heads": 1, "key_dim": 1, "value_dim": 1}, "query"),
        (mlp_parameters, {"hidden": "2", "intermediate": 3}, "hidden"),
    ],
)
def test_formula_names_a_bad_argument(formula, arguments, name):
    with pytest.raises(CalcError, match=f"{formula.__name__}: {name}"):
        formula(**arguments)
