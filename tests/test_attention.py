"""Decode attention against counts by hand, against a real implementation's own counter, and properties."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc import attention, kv_cache, models, parameters, roofline
from calc.models import FixedState, FullAttention, LatentAttention, Layer, ModelGeometry, WindowAttention
from calc.panel import render
from calc.units import CalcError, UnitError, registry

TRANSFORMERS = json.loads((Path(__file__).parent / "fixtures" / "transformers_5.24.0.json").read_text())["flops"]
SIZES = st.integers(1, 64)
HEADS = st.tuples(st.integers(1, 16), st.integers(1, 16)).map(lambda pair: (pair[0] * pair[1], pair[0]))
SHARED = [slug for slug in models.catalogue() if models.load(slug).kinds()[0][0].kind != "latent"]
LATENT = [slug for slug in models.catalogue() if slug not in SHARED]
ELEMENTS = st.sampled_from(sorted(kv_cache.ELEMENTS))


def mixer_of(slug):
    return models.load(slug).kinds()[0][0]


def call(formula):
    function, arguments = formula
    return function(**arguments)


def geometry(*mixers):
    layers = tuple(Layer(mixer=mixer, mlp=None, norms=2) for mixer in mixers)
    return ModelGeometry(
        name="made by hand", architecture="llama", hidden=64, vocab=100, layers=layers, tied_embeddings=False
    )


# --- against a real implementation ---------------------------------------------------------------


@pytest.mark.parametrize("slug", ["llama-3.1-8b", "llama-3.1-70b"])
def test_decode_arithmetic_equals_what_transformers_multiplies(slug):
    """PyTorch's counter of batched products: the scores and the sums of values, over heads that were repeated."""
    one = roofline.flop_of(mixer_of(slug), positions=2048)
    layers = len(models.load(slug).layers)
    assert layers * call(one) == TRANSFORMERS[slug]["decode_ctx2048"]["by_op"]["aten.bmm"]
    assert 8 * layers * call(one) == TRANSFORMERS[slug]["decode_b8_ctx2048"]["by_op"]["aten.bmm"]


@pytest.mark.parametrize("slug", ["llama-3.1-8b", "llama-3.1-70b"])
@pytest.mark.parametrize("prompt", [512, 2048])
def test_prefill_arithmetic_is_the_unmasked_half_of_what_transformers_multiplies(slug, prompt):
    counted = TRANSFORMERS[slug][f"prefill_{prompt}"]["by_op"]["aten.bmm"]  # with the masked half
    assert roofline.prefill_flop(models.load(slug), prompt=prompt) * 2 * prompt == counted * (prompt + 1)


# --- who reads what ------------------------------------------------------------------------------


@given(HEADS)
def test_groups_are_of_one_size_and_lie_side_by_side(heads):
    queries, stored = heads
    read = [attention.kv_head_of(query_head=h, query_heads=queries, kv_heads=stored) for h in range(queries)]
    assert read == list(np.repeat(range(stored), queries // stored))


@given(HEADS, st.sampled_from([1, 2, 4, 8, 16]))
def test_a_rank_stores_exactly_the_heads_that_its_query_heads_read(heads, ranks):
    queries, stored = heads
    if queries % ranks or (stored % ranks and ranks % stored):
        return  # engines refuse these
    share = queries // ranks
    for rank in range(ranks):
        mine = range(rank * share, (rank + 1) * share)
        read = {attention.kv_head_of(query_head=h, query_heads=queries, kv_heads=stored) for h in mine}
        assert len(read) == kv_cache.kv_heads_per_rank(kv_heads=stored, ranks=ranks)


def test_rules_of_sharing():
    rules = {slug: attention.sharing(mixer_of(slug)) for slug in models.catalogue()}
    assert rules["llama-2-13b"] == rules["phi-3-mini"] == rules["qwen1.5-moe-a2.7b"] == "MHA"
    assert rules["gemma-2b"] == rules["gemma-3-1b"] == "MQA"
    assert {slug for slug, rule in rules.items() if rule == "MLA"} == set(LATENT) != set()
    assert rules["gpt-oss-20b"] == "GQA"
    with pytest.raises(CalcError, match="no query heads to share"):
        attention.sharing(FixedState(parts=()))


# --- bytes and copies ----------------------------------------------------------------------------


def test_the_same_model_under_each_rule():
    latent = attention.main_mixer(models.load("deepseek-v3"), latent=True)
    rules = attention.variants(models.load("llama-3.1-70b"), latent)
    sizes = {rule: kv_cache.layout(model).bytes_per_position for rule, model in rules.items()}
    assert sizes == {"MHA": 80 * 64 * 512, "GQA": 80 * 8 * 512, "MQA": 80 * 512, "MLA": 80 * 576 * 2}
    assert rules["MLA"].layers[0].mixer.query_heads == 64
    assert list(attention.variants(models.load("llama-2-7b"), latent)) == ["MHA", "MQA", "MLA"]
    assert list(attention.variants(models.load("gemma-2b"), latent)) == ["MHA", "MQA", "MLA"]


@given(st.sampled_from(SHARED), st.sampled_from(LATENT), ELEMENTS)
def test_sharing_divides_the_cache_by_the_size_of_a_group(slug, latent, element):
    model, mixer = models.load(slug), mixer_of(slug)
    rules = attention.variants(model, mixer_of(latent))
    own, whole = (kv_cache.layout(m, element=element).bytes_per_position for m in (model, rules["MHA"]))
    assert own * (mixer.query_heads // mixer.kv_heads) == pytest.approx(whole, rel=1e-12)


def test_a_latent_in_heads_is_the_ratio_of_the_bytes():
    latent = kv_cache.latent_bytes_per_position(layers=7, latent_dim=512, rope_dim=64, element_bytes=2)
    head = kv_cache.bytes_per_position(layers=7, kv_heads=1, head_dim=128, element_bytes=2)
    assert attention.equivalent_kv_heads(latent_dim=512, rope_dim=64, head_dim=128) == latent / head == 2.25


@given(st.sampled_from(models.catalogue()), st.sampled_from([1, 2, 4, 8, 16]), ELEMENTS)
def test_no_group_stores_less_than_once(slug, ranks, element):
    model = models.load(slug)
    try:
        rank = kv_cache.layout(model, element=element, ranks=ranks)
    except CalcError:
        return
    whole = kv_cache.layout(model, element=element)
    times = attention.copies(
        ranks=ranks, rank_bytes=rank.bytes_per_position, bytes_per_position=whole.bytes_per_position
    )
    stored = getattr(mixer_of(slug), "kv_heads", 1)
    assert times == pytest.approx(max(1, ranks / stored), rel=1e-9)


def test_other_kv_heads_must_divide_the_query_heads():
    with pytest.raises(CalcError, match="64 query heads can't share 3 heads: use 1, 2, 4, 8, 16, 32, 64"):
        attention.with_kv_heads(models.load("llama-3.1-70b"), 3)
    with pytest.raises(CalcError, match="can't share 0 heads"):
        attention.with_kv_heads(models.load("llama-3.1-70b"), 0)


def test_what_a_model_lacks_is_said():
    with pytest.raises(CalcError, match="no layer with KV heads: choose a model that has, such as llama-3.1-70b"):
        attention.main_mixer(models.load("deepseek-v3"), latent=False)
    with pytest.raises(CalcError, match="no layer with latent attention: choose a model that has, such as deepseek-v3"):
        attention.main_mixer(models.load("llama-3.1-70b"), latent=True)


def test_the_main_mixer_is_that_of_most_layers():
    one = FullAttention(query_heads=8, kv_heads=2, key_dim=16, value_dim=16)
    other = WindowAttention(query_heads=8, kv_heads=4, key_dim=16, value_dim=16, window=9)
    assert attention.main_mixer(geometry(one, other, other), latent=False) == other
    assert attention.main_mixer(geometry(one, other), latent=False) == one  # a tie goes to the first


# --- arithmetic ----------------------------------------------------------------------------------


def naive(queries, keys, values):
    """Multi-head attention position by position, counting every multiply and every add."""
    flop, out = 0, []
    for query, own_keys, own_values in zip(queries, keys, values, strict=True):
        scores = []
        for key in own_keys:
            scores.append(sum(q * k for q, k in zip(query, key, strict=True)))
            flop += 2 * len(query)
        weights = np.exp(np.array(scores) - max(scores))
        total = np.zeros(len(own_values[0]))
        for weight, value in zip(weights / weights.sum(), own_values, strict=True):
            total = total + weight * np.array(value)
            flop += 2 * len(value)
        out.append(total)
    return np.array(out), flop


@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 6), st.integers(1, 9))
def test_decode_arithmetic_by_counting(heads, key_dim, value_dim, positions):
    draw = np.random.default_rng(1).standard_normal
    _, flop = naive(draw((heads, key_dim)), draw((heads, positions, key_dim)), draw((heads, positions, value_dim)))
    assert flop == roofline.decode_flop(query_heads=heads, key_dim=key_dim, value_dim=value_dim, positions=positions)


@given(st.integers(1, 4), st.integers(1, 8), st.integers(1, 4), st.integers(1, 9))
def test_absorbed_arithmetic_is_that_of_one_wide_shared_head(heads, latent, rope, positions):
    """Keys are the latent and the rotary key, values the latent."""
    wide = roofline.decode_flop(query_heads=heads, key_dim=latent + rope, value_dim=latent, positions=positions)
    assert wide == roofline.latent_decode_flop(
        query_heads=heads, latent_dim=latent, rope_dim=rope, positions=positions
    )


@given(SIZES, SIZES, SIZES, st.integers(0, 30))
def test_a_prompt_is_its_tokens_one_by_one(heads, key_dim, value_dim, prompt):
    sizes = {"query_heads": heads, "key_dim": key_dim, "value_dim": value_dim}
    one_by_one = sum(roofline.decode_flop(**sizes, positions=seen) for seen in range(1, prompt + 1))
    assert roofline.prefill_attention_flop(**sizes, prompt=prompt) == one_by_one


@given(st.integers(0, 40), st.integers(1, 12))
def test_a_window_bounds_what_a_prompt_token_reads(prompt, window):
    sizes = {"query_heads": 4, "key_dim": 3, "value_dim": 5}
    model = geometry(WindowAttention(kv_heads=2, window=window, **sizes))
    reads = sum(min(seen, window) for seen in range(1, prompt + 1))
    assert roofline.prefill_flop(model, prompt=prompt) == reads * roofline.decode_flop(**sizes, positions=1)


def test_a_prompt_expands_its_latents():
    model = models.load("deepseek-v3")
    assert roofline.prefill_flop(model, prompt=100) == 61 * 128 * (192 + 128) * 100 * 101
    with pytest.raises(CalcError, match="not counted"):
        roofline.prefill_flop(geometry(FixedState(parts=())), prompt=1)
    assert roofline.prefill_flop(geometry(None), prompt=5) == 0


@given(st.sampled_from(models.catalogue()), ELEMENTS, st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 10**6))
def test_intensity_is_arithmetic_over_bytes(slug, element, ranks, positions):
    """The two formulas that know nothing of each other, on one rank of several."""
    mixer = mixer_of(slug)
    if mixer.query_heads % ranks:
        return
    flop = call(roofline.flop_of(mixer, positions=positions, ranks=ranks))
    read = positions * call(kv_cache.formula_of(mixer, layers=1, element=element, ranks=ranks))
    assert call(roofline.intensity_of(mixer, element=element, ranks=ranks)) == pytest.approx(flop / read, rel=1e-9)


@given(st.sampled_from(SHARED), st.integers(1, 5))
def test_sharing_leaves_the_arithmetic_and_all_other_weights(slug, prompt):
    """Biases and norms included: what keys and values don't need, no rule of sharing changes."""
    rules = attention.variants(models.load(slug), mixer_of("deepseek-v3"))
    shared = [rules[rule] for rule in rules if rule != "MLA"]
    others = {parameters.count(model).total - attention.kv_parameters(model) for model in shared}
    assert len(others) == 1
    assert len({roofline.prefill_flop(model, prompt=prompt) for model in shared}) == 1


def test_norms_over_all_keys_belong_to_the_keys():
    one = FullAttention(query_heads=4, kv_heads=2, key_dim=8, value_dim=8, qkv_bias=True, qk_norm="full")
    few, many = geometry(one), geometry(replace(one, kv_heads=4))
    left = [parameters.count(model).total - attention.kv_parameters(model) for model in (few, many)]
    assert left[0] == left[1]


@given(st.sampled_from(LATENT), st.integers(1, 200_000))
def test_break_even_is_where_the_two_ways_cross(slug, positions):
    """Count both ways for the whole numbers on either side."""
    mixer = mixer_of(slug)
    sizes = {"latent_dim": mixer.latent_dim, "nope_dim": mixer.nope_dim, "value_dim": mixer.value_dim}
    once = roofline.expansion_flop(query_heads=mixer.query_heads, **sizes)

    def absorbed(tokens):
        return tokens * (call(roofline.flop_of(mixer, positions=positions)) + once)

    def expanded(tokens):
        heads = attention.as_multi_head(mixer)
        return positions * once + tokens * call(roofline.flop_of(heads, positions=positions))

    threshold = attention.break_even_tokens(**sizes, positions=positions)
    below, above = int(threshold), int(threshold) + 1
    assert absorbed(below) <= expanded(below)
    assert absorbed(above) > expanded(above)
    assert threshold <= positions


def test_printed_break_even():
    sizes = {"latent_dim": 512, "nope_dim": 128, "value_dim": 128}
    assert attention.break_even_tokens(**sizes, positions=10**9) == pytest.approx(512 * 256 / 768, rel=1e-6)


def test_a_latent_of_one_head_gains_nothing_from_sharing_but_its_double_use():
    alone = roofline.latent_decode_intensity(query_heads=1, latent_dim=512, rope_dim=0, element_bytes=2)
    assert alone == 2 * roofline.decode_intensity(query_heads=1, kv_heads=1, element_bytes=2)


@given(st.floats(0, 1e6), st.floats(0.1, 1e6))
def test_a_share_is_a_share(intensity, balance):
    share = roofline.compute_share(intensity=intensity, balance=balance)
    assert 0 <= share <= 1
    assert (share == 1) == (intensity >= balance)


def test_units_are_checked_at_the_door():
    quantity = registry().Quantity
    one = roofline.machine_balance(peak=quantity(1, "TFLOP/s"), bandwidth=quantity(2, "GB/s"))
    assert str(one.to("FLOP/byte")) == "500.0 FLOP / byte"
    with pytest.raises(UnitError, match="element_bytes is s, wanted byte"):
        roofline.decode_intensity(query_heads=8, kv_heads=1, element_bytes=quantity(2, "s"))
    with pytest.raises(CalcError, match="kv_heads is 0, wanted a whole number above 0"):
        roofline.decode_intensity(query_heads=8, kv_heads=0, element_bytes=2)
    with pytest.raises(CalcError, match="query_heads is 2.5"):
        roofline.decode_flop(query_heads=2.5, key_dim=1, value_dim=1, positions=1)


# --- the panel -----------------------------------------------------------------------------------

INPUTS = {
    "model": "llama-3.1-70b",
    "heads": "as published",
    "element": "bf16",
    "positions": 8192,
    "ranks": 8,
    "accelerator_slug": "h100-sxm",
}


def panel(**changes):
    return json.loads(render("calc.attention:attention_panel", json.dumps(INPUTS | changes)))


def row(answer, start):
    (found,) = [r["text"] for r in answer["rows"] if r["label"].startswith(start)]
    return found


@pytest.mark.parametrize(
    ("changes", "each", "times", "intensity", "says"),
    [
        ({}, "40 KiB", "1×", "8 FLOP/B", "Grouped-query attention: 64 query heads and 8 KV heads in a layer."),
        ({"ranks": 16}, "40 KiB", "2×", "4 FLOP/B", "at most 1.35%"),
        ({"heads": "one KV head for each query head"}, "320 KiB", "1×", "1 FLOP/B", "Multi-head attention"),
        ({"heads": "one KV head for all"}, "40 KiB", "8×", "8 FLOP/B", "64 query heads and 1 KV head in"),
        ({"model": "deepseek-v3"}, "68.62 KiB", "8×", "30.22 FLOP/B", "Multi-head latent attention"),
        ({"model": "gemma-3-27b", "ranks": 2}, "248 KiB", "1×", "2 FLOP/B", "Decode attention waits for memory"),
    ],
)
def test_panel_numbers(changes, each, times, intensity, says):
    answer = panel(**changes)
    ranks = (INPUTS | changes)["ranks"]
    assert row(answer, f"One position, each of {ranks} ranks") == each
    assert row(answer, "Times that the ranks") == times
    assert row(answer, "Arithmetic intensity") == intensity
    assert says in answer["meaning"]


def test_panel_expands_a_latent_and_knows_windows_and_arithmetic_bounds():
    expanded = panel(model="deepseek-v3", heads="one KV head for each query head", ranks=1)
    assert row(expanded, "One position") == "4.766 MiB"
    bound = panel(model="deepseek-v3", ranks=1, element="fp8")
    assert "limited by arithmetic" in bound["meaning"]
    windowed = panel(model="gpt-oss-20b", ranks=1, positions=8192)
    flop = 2 * 64 * 128 * (12 * 8192 + 12 * 128)
    assert row(windowed, "Attention arithmetic of the next token") == f"{flop / 1e9:.3f} GFLOP"


def test_panel_says_whose_numbers_it_puts_in_and_when_a_model_was_not_made_for_so_many():
    working = panel(model="gemma-2-27b", ranks=16, positions=8192)
    assert [line.partition(":")[0] for line in working["working"]] == [
        "23 window layers, each of 16 ranks",
        "23 full layers, each of 16 ranks",
        "Attention, each of 16 ranks",
    ]
    assert "n_rank" in working["working"][-1]
    assert "n_rank" not in "".join(panel(ranks=1)["working"])
    assert "made for" not in working["meaning"]
    longer = panel(model="gemma-2-27b", positions=8193)
    assert "Gemma-2-27B was made for 8,192 positions; this is more." in longer["meaning"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heads": "two"}, "use one of as published"),
        ({"model": "deepseek-v3", "heads": "one KV head for all"}, "already serves all heads: choose 'as published'"),
        ({"positions": 0}, "positions is 0, wanted a whole number above 0"),
        ({"ranks": 3}, "can't run on 3 ranks"),
        ({"accelerator_slug": "h100"}, "h100-sxm"),
        ({"element": "fp7"}, "unknown cache element"),
    ],
)
def test_panel_refusals(changes, says):
    answer = panel(**changes)
    assert not answer["ok"]
    assert says in answer["error"]


def test_a_latent_layer_may_lack_a_rotary_key():
    plain = LatentAttention(query_heads=4, query_rank=None, latent_dim=32, rope_dim=0, nope_dim=8, value_dim=8)
    assert call(roofline.intensity_of(plain, element="bf16")) == 2 * 4 * 64 / (32 * 2)
