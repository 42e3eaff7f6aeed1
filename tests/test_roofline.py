"""Work and floors against a real implementation's counter, counts by hand, properties, and measured kernels."""

from __future__ import annotations

import importlib.util
import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc import kv_cache, models, parameters, roofline
from calc.hardware import accelerator
from calc.models import FixedState, FullAttention, Layer, ModelGeometry, WindowAttention
from calc.panel import render
from calc.parallel import Parallel, weights_on_rank
from calc.sources import load_json
from calc.units import CalcError, UnitError, registry

ROOT = Path(__file__).parent.parent
FLOPS = json.loads((ROOT / "tests" / "fixtures" / "transformers_5.24.0.json").read_text())["flops"]
PROFILES = ROOT.parent / "shared" / "profiles"
H100, A100 = accelerator("h100-sxm"), accelerator("a100-80gb-sxm")
LLAMA = models.load("llama-3.1-70b")
COUNTED = ("llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b")
WHOLE = {"causal": False, "head": "every"}  # what a counter of matrix products sees
SLUGS = models.catalogue()
PAIRS = st.tuples(st.integers(1, 3000), st.integers(0, 9000))


def possible_ranks(slug: str) -> list[int]:
    found = []
    for ranks in (1, 2, 4, 8, 16):
        try:
            weights_on_rank(models.load(slug), Parallel(tensor=ranks))
        except CalcError:
            continue
        found.append(ranks)
    return found


# --- against transformers' own counter -----------------------------------------------------------


@pytest.mark.parametrize("slug", COUNTED)
@pytest.mark.parametrize(
    ("case", "sequences"),
    [
        ("prefill_512", {(512, 0): 1}),
        ("prefill_2048", {(2048, 0): 1}),
        ("decode_ctx2048", {(1, 2047): 1}),
        ("decode_b8_ctx2048", {(1, 2047): 8}),
    ],
)
def test_arithmetic_equals_the_counter_of_matrix_products(slug, case, sequences):
    """With the masked half and every token's logits, as the counter runs the model."""
    work = roofline.step_work(models.load(slug), sequences=sequences, **WHOLE)
    assert work.flop == FLOPS[slug][case]["total"]
    scores = work.group("attention").flop + (work.group("routed_experts").flop if slug == "mixtral-8x7b" else 0)
    assert scores == FLOPS[slug][case]["by_op"]["aten.bmm"]
    assert work.flop - scores == FLOPS[slug][case]["by_op"]["aten.mm"]


@pytest.mark.parametrize("slug", COUNTED)
def test_decode_needs_no_convention(slug):
    """One new token has no masked half, and its logits are the last token's."""
    model = models.load(slug)
    assert roofline.step_work(model, sequences=[(1, 2047)]).flop == FLOPS[slug]["decode_ctx2048"]["total"]


@pytest.mark.parametrize("slug", COUNTED)
def test_causal_work_is_the_counted_work_less_what_is_masked_and_all_but_one_row_of_logits(slug):
    model, prompt = models.load(slug), 2048
    causal = roofline.step_work(model, sequences=[(prompt, 0)])
    masked = causal.group("attention").flop * (prompt - 1) // (prompt + 1)
    rows = 2 * (prompt - 1) * model.vocab * model.hidden
    assert causal.flop + masked + rows == FLOPS[slug][f"prefill_{prompt}"]["total"]


# --- counts by hand ------------------------------------------------------------------------------


def tiny(**changed) -> ModelGeometry:
    mixer = FullAttention(query_heads=4, kv_heads=2, key_dim=8, value_dim=8)
    layers = (Layer(mixer=mixer, mlp=models.DenseMLP(intermediate=64), norms=2),) * 3
    fields = {"name": "made by hand", "architecture": "llama", "hidden": 32, "vocab": 128, "layers": layers}
    return ModelGeometry(**fields | {"tied_embeddings": False} | changed)


def test_a_small_model_counted_by_hand():
    work = roofline.step_work(tiny(), sequences=[(5, 10), (1, 3)])
    projections = 32 * 32 + 2 * 32 * 16 + 32 * 32
    assert work.group("projections").flop == 2 * 6 * 3 * projections
    assert work.group("mlp").flop == 2 * 6 * 3 * 3 * 32 * 64
    assert work.group("head").flop == 2 * 2 * 128 * 32
    read = (11 + 12 + 13 + 14 + 15) + 4
    assert work.group("attention").flop == 3 * 4 * read * 2 * (8 + 8)
    assert work.cache_bytes == 3 * 13 * 2 * (8 + 8) * 2
    assert work.written_bytes == 3 * 6 * 2 * (8 + 8) * 2
    assert work.weight_bytes == 2 * (3 * (projections + 3 * 32 * 64 + 64) + 32 + 128 * 32)
    states = 2 * (3 * (6 * (32 + 32 + 32) + 6 * (32 + 32) + 6 * (2 * 32 + 3 * 64) + 6 * 64) + 2 * (32 + 128))
    assert work.activation_bytes == states
    assert work.moved_bytes(activations=True) == work.moved_bytes() + states
    assert (work.tokens, work.sequences, work.all_reduces, work.sent_bytes) == (6, 2, 0, 0)


def test_tied_embeddings_are_read_by_the_head():
    tied, own = (roofline.step_work(tiny(tied_embeddings=t), sequences=[(1, 0)]) for t in (True, False))
    assert tied.group("head") == own.group("head")


@pytest.mark.parametrize(
    "mixer",
    [
        FullAttention(query_heads=4, kv_heads=2, key_dim=8, value_dim=8, output_gate=True),
        FullAttention(query_heads=4, kv_heads=2, key_dim=8, value_dim=8, values_are_keys=True),
    ],
)
@pytest.mark.parametrize(
    "mlp",
    [
        models.MixtureOfExperts(experts=8, experts_per_token=2, expert_intermediate=16, dense_intermediate=48),
        models.MixtureOfExperts(experts=8, experts_per_token=2, expert_intermediate=16, latent_dim=8, gated=False),
    ],
)
def test_later_families_multiply_with_the_parameters_they_have(mixer, mlp):
    model = tiny(layers=(Layer(mixer=mixer, mlp=mlp, norms=0),) * 2)
    for ranks in (1, 2):
        work = roofline.step_work(model, sequences=[(1, 0)], ranks=ranks)
        held = weights_on_rank(model, Parallel(tensor=ranks))
        products = {g.name: g.flop / 2 for g in work.groups}
        assert (products["projections"], products["mlp"]) == (held.attention, held.mlp)
        assert products["routed_experts"] == held.routed_experts * 2 / 8
        assert products["router"] == held.router


CHUNKS = models.ChunkAttention(query_heads=4, kv_heads=2, key_dim=8, value_dim=8, window=16)
SPARSE = {"query_heads": 4, "query_rank": 16, "latent_dim": 8, "rope_dim": 4, "nope_dim": 8, "value_dim": 8}
SPARSE = models.IndexedLatentAttention(**SPARSE, index_heads=2, index_dim=8, picked=10)
DELTA = models.GatedDeltaNet(key_heads=2, value_heads=4, key_dim=8, value_dim=6, conv_kernel=4)
SCAN = models.Mamba2(heads=4, head_dim=8, groups=2, state_dim=16, conv_kernel=4)


def alone(mixer):
    return tiny(layers=(Layer(mixer=mixer, mlp=None, norms=0),))


@pytest.mark.parametrize("mixer", [DELTA, SCAN, SPARSE, CHUNKS], ids=lambda m: type(m).__name__)
def test_every_kind_of_layer_multiplies_with_the_parameters_it_has(mixer):
    """Up to what is added or scales: biases, norms, decays."""
    for ranks in (1, 2):
        work = roofline.step_work(alone(mixer), sequences=[(1, 0)], ranks=ranks)
        held = weights_on_rank(alone(mixer), Parallel(tensor=ranks))
        there = held.attention + held.recurrent + held.indexer
        small = {DELTA: 8 // ranks + 6, SCAN: (96 + 12 + 32) // ranks, SPARSE: 16 + 8 + 2 * 8, CHUNKS: 0}[mixer]
        assert there - work.group("projections").flop / 2 == small
        assert work.group("projections").weight_bytes == 2 * there


@pytest.mark.parametrize(("new", "cached"), [(1, 0), (1, 15), (1, 16), (40, 0), (5, 30), (33, 7)])
def test_chunks_are_read_up_to_the_token_itself(new, cached):
    seen = [(cached + i) % 16 + 1 for i in range(new)]
    assert roofline.pairs_of(CHUNKS, new=new, cached=cached) == sum(seen)
    work = roofline.step_work(alone(CHUNKS), sequences=[(new, cached)])
    assert work.group("attention").flop == sum(seen) * 2 * 4 * (8 + 8)
    assert work.cache_bytes == cached % 16 * 2 * (8 + 8) * 2


@pytest.mark.parametrize(("new", "cached"), [(1, 0), (1, 9), (1, 500), (30, 0), (4, 200)])
def test_sparse_attention_reads_what_is_picked_and_the_indexer_all(new, cached):
    seen = [cached + i + 1 for i in range(new)]
    pairs = sum(min(s, 10) for s in seen)
    assert roofline.pairs_of(SPARSE, new=new, cached=cached) == pairs
    work = roofline.step_work(alone(SPARSE), sequences=[(new, cached)])
    kept = min(cached, 9)
    absorbed, expanded = pairs * 2 * 4 * (2 * 8 + 4), pairs * 2 * 4 * (12 + 8) + kept * 2 * 4 * 8 * (8 + 8)
    index = 2 * 2 * 8 * sum(seen)
    assert work.group("attention").flop == min(absorbed, expanded) + index
    key = kv_cache.index_bytes(SPARSE)
    assert work.cache_bytes == kept * 12 * 2 + cached * key
    assert work.written_bytes == new * (12 * 2 + key)
    shared = replace(SPARSE, own_index=False)
    assert roofline.step_work(alone(shared), sequences=[(new, cached)]).group("attention").flop == min(
        absorbed, expanded
    )


@pytest.mark.parametrize(
    ("mixer", "state", "flop"),
    [
        (DELTA, 3 * (2 * 2 * 8 + 4 * 6) * 2 + 4 * 8 * 6 * 4, 3 * 2 * 4 * 8 * 6),
        (SCAN, 3 * (32 + 2 * 2 * 16) * 2 + 32 * 16 * 4, 2 * 2 * 32 * 16),
    ],
    ids=["gated delta net", "Mamba-2"],
)
def test_a_recurrent_layer_reads_and_writes_one_state(mixer, state, flop):
    for new, cached in ((1, 0), (1, 7), (1, 7000), (64, 0), (64, 64)):
        work = roofline.step_work(alone(mixer), sequences=[(new, cached)] * 3)
        assert work.cache_bytes == 3 * state * (cached > 0)
        assert work.written_bytes == 3 * state
        assert work.group("attention").flop == 3 * new * flop
    half = roofline.step_work(alone(mixer), sequences=[(1, 7)], ranks=2)
    assert half.cache_bytes == state / 2
    assert half.group("attention").flop == flop / 2


def test_weights_may_differ_in_width_by_group():
    model = tiny()
    plain = roofline.step_work(model, sequences=[(1, 5)])
    mixed = roofline.step_work(model, sequences=[(1, 5)], bytes_per_weight={"mlp": 0.5})
    assert mixed.group("mlp").weight_bytes == plain.group("mlp").weight_bytes / 4
    assert mixed.group("projections") == plain.group("projections")
    with pytest.raises(CalcError, match="bytes_per_weight"):
        roofline.step_work(model, sequences=[(1, 5)], bytes_per_weight={"mlp": 0})


LATER = json.loads((ROOT / "tests" / "fixtures" / "later_families.json").read_text())["models"]


@pytest.mark.parametrize("entry", LATER, ids=lambda e: e["name"])
def test_one_token_of_a_later_family_is_multiplied_with_its_active_parameters(entry):
    model = models.ModelGeometry.from_config(entry["config"])
    work = roofline.step_work(model, sequences=[(1, 0)])
    multiplied = sum(g.flop for g in work.groups if g.name != "attention") / 2
    active = parameters.count(model).active_excluding_embedding
    assert 0.995 * active < multiplied <= active
    longer = [roofline.step_work(model, sequences=[(1, cached)]) for cached in (1, 1000, 100_000)]
    for a, b in pairwise(longer):
        assert a.flop <= b.flop and a.cache_bytes <= b.cache_bytes


@pytest.mark.parametrize(("new", "cached"), [(1, 0), (1, 7), (7, 0), (5, 9), (12, 3)])
@pytest.mark.parametrize("window", [1, 2, 6, 50])
def test_positions_read_are_those_counted_one_by_one(new, cached, window):
    seen = [cached + i + 1 for i in range(new)]
    assert roofline.positions_read(new=new, cached=cached) == sum(seen)
    assert roofline.window_positions_read(new=new, cached=cached, window=window) == sum(min(s, window) for s in seen)


def test_a_window_layer_reads_and_writes_no_more_than_its_window():
    mixer = WindowAttention(query_heads=4, kv_heads=2, key_dim=8, value_dim=8, window=10)
    model = tiny(layers=(Layer(mixer=mixer, mlp=None, norms=1),))
    for new, cached, read, written in ((1, 4, 4, 1), (1, 500, 9, 1), (30, 0, 0, 10)):
        work = roofline.step_work(model, sequences=[(new, cached)])
        assert (work.cache_bytes / 64, work.written_bytes / 64) == (read, written)


def test_a_latent_takes_the_order_with_less_arithmetic():
    latent = models.load("deepseek-v3").kinds()[0][0]
    absorbed, _ = roofline.attention_of(latent, cached=4095, pairs=4096)
    expanded, _ = roofline.attention_of(latent, cached=0, pairs=4096 * 4097 // 2)
    assert (absorbed, expanded) == (roofline.latent_decode_flop, roofline.decode_flop)


def test_a_layer_without_heads_is_refused():
    with pytest.raises(CalcError, match="FixedState"):
        roofline.step_work(tiny(layers=(Layer(mixer=FixedState(parts=()), mlp=None, norms=1),)), sequences=[(1, 0)])
    with pytest.raises(CalcError, match="not counted"):
        roofline.pairs_of(FixedState(parts=()), new=1, cached=0)


# --- every model, every rank ---------------------------------------------------------------------


@pytest.mark.parametrize("slug", SLUGS)
def test_one_token_is_multiplied_with_the_active_parameters(slug):
    """Up to norms, biases and sinks, which are read and added but not multiplied with in a matrix product."""
    model = models.load(slug)
    work = roofline.step_work(model, sequences=[(1, 0)])
    products = (work.flop - work.group("attention").flop) / 2
    active = parameters.count(model).active_excluding_embedding
    assert 0.997 < products / active <= 1.0001
    assert work.weight_bytes == pytest.approx(2 * active, rel=1e-6)


@pytest.mark.parametrize("slug", SLUGS)
def test_ranks_together_do_the_work_of_one_and_what_is_copied(slug):
    model = models.load(slug)
    alone = roofline.step_work(model, sequences=[(3, 900), (1, 4000)])
    for ranks in possible_ranks(slug):
        work = roofline.step_work(model, sequences=[(3, 900), (1, 4000)], ranks=ranks)
        assert ranks * work.flop >= 0.9999 * alone.flop
        assert ranks * work.moved_bytes() >= 0.9999 * alone.moved_bytes()
        assert work.flop <= alone.flop and work.moved_bytes() <= alone.moved_bytes()
        assert work.group("attention").flop * ranks == pytest.approx(alone.group("attention").flop, rel=1e-9)
        cache = kv_cache.layout(model, ranks=ranks)
        assert work.cache_bytes <= kv_cache.resident_bytes(cache, positions=900) + kv_cache.resident_bytes(
            cache, positions=4000
        )
        sums = 0 if ranks == 1 else sum((x.mixer is not None) + (x.mlp is not None) for x in model.layers)
        assert work.all_reduces == sums


def test_kv_heads_and_latents_are_copied_where_they_do_not_divide():
    eight, sixteen = (roofline.step_work(LLAMA, sequences=[(1, 4095)], ranks=r) for r in (8, 16))
    assert eight.cache_bytes == sixteen.cache_bytes == 4095 * 327680 / 8
    latent = [roofline.step_work(models.load("deepseek-v3"), sequences=[(1, 4095)], ranks=r) for r in (1, 8)]
    assert latent[0].cache_bytes == latent[1].cache_bytes


@given(st.sampled_from(SLUGS), st.lists(PAIRS, min_size=1, max_size=6))
def test_a_step_is_its_sequences_added_up_but_for_the_weights(slug, sequences):
    model = models.load(slug)
    together = roofline.step_work(model, sequences=sequences)
    apart = [roofline.step_work(model, sequences=[pair]) for pair in sequences]
    for value in ("flop", "cache_bytes", "written_bytes", "activation_bytes"):
        assert math.isclose(getattr(together, value), sum(getattr(a, value) for a in apart), rel_tol=1e-9)
    assert max(a.weight_bytes for a in apart) <= together.weight_bytes * (1 + 1e-12)
    assert together == roofline.step_work(model, sequences=Counter(sequences))


@given(st.sampled_from(SLUGS), PAIRS, st.integers(1, 2999))
def test_chunks_do_the_arithmetic_of_the_whole_prompt_and_read_its_beginning_again(slug, pair, cut):
    model, (new, cached) = models.load(slug), pair
    cut = min(cut, new - 1)
    if not cut:
        return
    whole = roofline.step_work(model, sequences=[(new, cached)])
    first, rest = (roofline.step_work(model, sequences=[s]) for s in ((cut, cached), (new - cut, cached + cut)))
    if not any(mixer.kind == "latent" for mixer, _ in model.kinds()):  # a latent may change its order of products
        attention = first.group("attention").flop + rest.group("attention").flop
        assert attention == whole.group("attention").flop
    assert first.cache_bytes + rest.cache_bytes >= whole.cache_bytes
    assert first.weight_bytes + rest.weight_bytes > whole.weight_bytes


@given(st.sampled_from(SLUGS), PAIRS, st.sampled_from(["bf16", "fp8", "int8"]), st.booleans())
def test_floors_grow_with_work_and_lie_within_their_bounds(slug, pair, element, activations):
    model, (new, cached) = models.load(slug), pair
    work = roofline.step_work(model, sequences=[(new, cached)], element=element, cache_element=element)
    more = roofline.step_work(model, sequences=[(new, cached), (1, 5)], element=element, cache_element=element)
    floor, larger = (roofline.step_floor(w, H100, activations=activations) for w in (work, more))
    assert floor.seconds <= larger.seconds
    assert floor.seconds <= floor.apart_s * (1 + 1e-12) <= 2 * floor.seconds * (1 + 1e-12)
    assert floor.bound == ("memory" if work.intensity(activations=activations) < floor.balance else "arithmetic")
    rate = roofline.attainable_rate(
        intensity=work.intensity(activations=activations), peak=H100.peak("bf16").value, bandwidth=H100.bandwidth.value
    )
    assert math.isclose(floor.seconds, work.flop / rate, rel_tol=1e-9)


# --- where decode turns --------------------------------------------------------------------------


@pytest.mark.parametrize("slug", ["llama-3.1-8b", "llama-3.1-70b", "qwen2.5-72b", "llama-2-13b"])
@pytest.mark.parametrize("cached", [0, 40])
def test_the_crossing_is_the_formula_s(slug, cached):
    model = models.load(slug)
    one = roofline.step_work(model, sequences=[(1, cached)])
    exact = roofline.crossing_sequences(
        weight_bytes=one.weight_bytes,
        weights=(one.flop - one.group("attention").flop) / 2,
        attention_flop=one.group("attention").flop,
        sequence_bytes=one.cache_bytes + one.written_bytes,
        balance=roofline.machine_balance(peak=A100.peak("bf16").value, bandwidth=A100.bandwidth.value),
    )
    assert roofline.decode_crossover(model, A100, cached=cached) == math.floor(exact) + 1


def test_without_a_cache_the_crossing_is_the_weights_own():
    peak, bandwidth = H100.peak("bf16").value, H100.bandwidth.value
    alone = roofline.crossover_tokens(peak=peak, bandwidth=bandwidth, bytes_per_weight=2)
    balance = roofline.machine_balance(peak=peak, bandwidth=bandwidth)
    with_nothing = roofline.crossing_sequences(
        weight_bytes=2e9, weights=1e9, attention_flop=0, sequence_bytes=0, balance=balance
    )
    assert with_nothing == pytest.approx(alone) == pytest.approx(balance)


@pytest.mark.parametrize("slug", ["llama-3.1-8b", "llama-3.1-70b", "qwen2.5-72b", "llama-2-13b"])
def test_from_a_length_on_no_batch_crosses(slug):
    model = models.load(slug)
    never = roofline.never_crosses(model, H100)
    assert roofline.decode_crossover(model, H100, cached=never) is None
    assert roofline.decode_crossover(model, H100, cached=never - 1) is not None
    one = roofline.step_work(model, sequences=[(1, 0)])
    attention = one.group("attention").flop
    formula = roofline.longest_crossing(
        weights=(one.flop - attention) / 2,
        bytes_per_position=kv_cache.layout(model).bytes_per_position,
        position_flop=attention,
        balance=roofline.machine_balance(peak=H100.peak("bf16").value, bandwidth=H100.bandwidth.value),
    )
    assert never + 1 == math.ceil(formula)  # the new token's own position is written, and takes as long


@pytest.mark.parametrize("slug", ["deepseek-v3", "qwen3-30b-a3b", "gpt-oss-20b"])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_one_position_below_a_batch_crosses_however_large_on_every_rank(slug, ranks):
    """A mixture's crossing there takes more sequences than any memory holds; it is found, not refused."""
    model, on = models.load(slug), {"ranks": ranks}
    never = roofline.never_crosses(model, H100, **on)
    assert roofline.decode_crossover(model, H100, cached=never, **on) is None
    batch = roofline.decode_crossover(model, H100, cached=never - 1, **on)
    at, before = (roofline.decode_floor(model, H100, sequences=n, cached=never - 1, **on) for n in (batch, batch - 1))
    assert at.multiply_s > at.move_s and before.multiply_s <= before.move_s


def test_each_rank_reads_the_whole_latent_so_the_length_falls_with_the_ranks():
    """By hand, without the search: a layer's latent is 576 elements, and each of 128 / ranks heads does 2,176 FLOP."""
    model, chip = models.load("deepseek-v3"), accelerator("h200-sxm")
    balance = roofline.machine_balance(peak=chip.peak("bf16").value, bandwidth=chip.bandwidth.value)
    for ranks in (2, 4, 8):
        one = roofline.step_work(model, sequences=[(1, 4096)], ranks=ranks)
        products = one.flop - one.group("attention").flop
        length = products / (61 * (balance * 576 * 2 - 128 / ranks * 2176))
        assert abs(roofline.never_crosses(model, chip, ranks=ranks) - length) <= 1
    assert roofline.never_crosses(model, chip) is None


def test_where_attention_has_arithmetic_enough_every_length_crosses():
    """DeepSeek-V3's absorbed attention does 242 FLOP a byte; an A100 needs 153."""
    assert roofline.never_crosses(models.load("deepseek-v3"), A100) is None
    assert roofline.decode_crossover(models.load("deepseek-v3"), A100, cached=100_000) is not None


@given(st.integers(1, 4000), st.integers(0, 200_000))
def test_attention_keeps_its_intensity_whatever_the_batch_and_the_length(sequences, cached):
    group = roofline.step_work(LLAMA, sequences={(1, cached): sequences}).group("attention")
    read = group.cache_bytes + group.written_bytes
    assert math.isclose(group.flop / read, roofline.decode_intensity(query_heads=64, kv_heads=8, element_bytes=2))


# --- formulas ------------------------------------------------------------------------------------


@given(st.floats(1, 1e18), st.floats(1, 1e12))
def test_a_floor_is_the_work_over_the_rate_in_reach(flop, moved):
    rates = {"peak": 989.5e12, "bandwidth": 3.35e12}
    at = roofline.intensity(flop=flop, moved_bytes=moved)
    floor = roofline.floor_seconds(flop=flop, moved_bytes=moved, **rates)
    assert math.isclose(floor, flop / roofline.attainable_rate(intensity=at, **rates), rel_tol=1e-9)
    share = roofline.compute_share(intensity=at, balance=roofline.machine_balance(**rates))
    assert math.isclose(roofline.attainable_rate(intensity=at, **rates), share * rates["peak"], rel_tol=1e-9)
    each = {"read": moved / rates["bandwidth"], "multiply": flop / rates["peak"]}
    assert math.isclose(floor, roofline.overlapped_seconds(**each), rel_tol=1e-9)


def test_units_are_checked_at_the_door():
    q = registry().Quantity
    floor = roofline.floor_seconds(
        flop=q(140, "GFLOP"), moved_bytes=q(140, "GB"), peak=q(1, "PFLOP/s"), bandwidth=q(3.5, "TB/s")
    )
    assert floor.to("ms").magnitude == pytest.approx(40)
    with pytest.raises(UnitError, match="bandwidth"):
        roofline.floor_seconds(flop=1, moved_bytes=1, peak=1, bandwidth=q(1, "s"))
    with pytest.raises(CalcError, match="above 0"):
        roofline.intensity(flop=1, moved_bytes=0)


@given(st.integers(1, 512), st.data(), st.integers(0, 600))
def test_experts_touched_are_those_that_not_every_token_passes_over(experts, data, tokens):
    picked = data.draw(st.integers(1, experts))
    found = roofline.experts_touched(experts=experts, experts_per_token=picked, step_tokens=tokens)
    passed_over = math.comb(experts - 1, picked) / math.comb(experts, picked)
    assert math.isclose(found, experts * (1 - passed_over**tokens), rel_tol=1e-9, abs_tol=1e-9)
    assert found <= min(experts, tokens * picked) + 1e-9


def test_experts_touched_agree_with_drawing_them():
    import random

    draw, layers = random.Random(5), 4000
    seen = [len({e for _ in range(12) for e in draw.sample(range(128), 8)}) for _ in range(layers)]
    expected = roofline.experts_touched(experts=128, experts_per_token=8, step_tokens=12)
    assert sum(seen) / layers == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_a_ring_sends_what_its_steps_send(ranks):
    """Reduce-scatter and all-gather, one part of the message in each of ranks − 1 steps."""
    sent = sum(960 / ranks for _ in range(ranks - 1)) * 2
    assert roofline.ring_bytes(message_bytes=960, ranks=ranks) == pytest.approx(sent)


def test_a_ring_of_two_sends_the_message_once_and_a_long_one_almost_twice():
    sent = [roofline.ring_bytes(message_bytes=1, ranks=ranks) for ranks in (2, 4, 8, 1000)]
    assert sent[:3] == [1, 1.5, 1.75] and 1.99 < sent[3] < 2


def test_at_the_break_even_splitting_saves_nothing():
    rates = {"model_bytes": 139e9, "bandwidth": 3.35e12}
    each = roofline.break_even_all_reduce(**rates, ranks=8, all_reduces=160)
    assert 139e9 / 8 / 3.35e12 + 160 * each == pytest.approx(139e9 / 3.35e12)


def test_links_and_the_start_of_an_all_reduce_add_up():
    work = roofline.step_work(LLAMA, sequences=[(1, 100)], ranks=8)
    assert work.message_bytes == 8192 * 2 and work.all_reduces == 160
    floor = roofline.step_floor(work, H100, link="nvlink", start_s=20e-6)
    assert floor.links_s == pytest.approx(160 * (20e-6 + 2 * 7 / 8 * 16384 / 450e9))
    assert floor.apart_s == pytest.approx(sum(g.seconds for g in floor.groups) + floor.links_s)
    assert roofline.step_floor(work, H100).links_s == 0
    with pytest.raises(CalcError, match="no link"):
        roofline.step_floor(work, H100, link="ethernet")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"sequences": []}, "at least one sequence"),
        ({"sequences": [(0, 5)]}, "new tokens"),
        ({"sequences": [(1, -1)]}, "cached positions"),
        ({"sequences": [(1, 2, 3)]}, "is a pair"),
        ({"sequences": {(1, 5): 1.5}}, "number of sequences"),
        ({"sequences": [(1, 5)], "element": "fp8 + head scales"}, "the weights"),
        ({"sequences": [(1, 5)], "element": "int3"}, "unknown"),
        ({"sequences": [(1, 5)], "ranks": 3}, "3 ranks"),
        ({"sequences": [(1, 5)], "bytes_per_weight": 0}, "above 0"),
        ({"sequences": [(1, 5)], "head": "all"}, '"every"'),
    ],
)
def test_impossible_steps_are_refused(arguments, says):
    with pytest.raises(CalcError, match=says):
        roofline.step_work(LLAMA, **arguments)


def test_unknown_groups_and_kinds_are_named():
    work = roofline.step_work(LLAMA, sequences=[(1, 5)])
    with pytest.raises(CalcError, match="projections, attention, mlp"):
        work.group("router")
    with pytest.raises(CalcError, match="all-reduce, 8 ranks"):
        roofline.kernel_check("gemm")
    assert "<th>total</th>" in work._repr_html_()
    assert "<th>step</th>" in roofline.step_floor(work, H100)._repr_html_()


# --- against measured kernels --------------------------------------------------------------------


def test_every_row_was_held_against_the_floor():
    checks = roofline.kernel_checks()
    rows = Counter()
    for check in checks.values():
        rows[check.file] += check.rows
        assert sum(count for *_, count in check.cells) == check.rows == sum(band.rows for band in check.bands)
    assert rows["h100_sxm_vllm0.24_gemm.parquet"] == 107_188
    assert rows["h100_sxm_vllm0.24_decode_attention.parquet"] == 62_166
    assert rows["h100_llama2_70b_mlp.csv"] == 4 * 1044
    assert rows["h100_dgx_all_reduce.csv"] == 2982


def test_what_beat_the_floor_of_memory_lay_in_the_cache_of_the_chip():
    for check in roofline.kernel_checks().values():
        assert check.beat_the_floor <= 60
        assert check.of_them_in_cache == check.beat_the_floor
        assert (check.largest_that_beat_bytes or 0) <= roofline.last_level_cache_bytes()
        assert check.of_them_hold_with_input_at_hand == check.beat_the_floor
        assert (check.least_beyond_cache or 1) >= 1  # of what can't lie in the cache, nothing beats the floor
    products = roofline.kernel_check("product, bfloat16")
    assert products.beat_the_floor == 49 and products.rows - products.in_cache == 16_071
    assert products.most_arithmetic < 0.5 < 0.75 < products.least_input_share
    assert products.fastest_read > H100.bandwidth.value  # more than memory gives: some of it came from nearer


def test_the_figures_are_what_the_rows_give():
    """Runs the tool again where the public files are at hand; the Parquet ones need pyarrow besides."""
    if not PROFILES.is_dir():
        pytest.skip("the measured profiles are not on this machine")
    specification = importlib.util.spec_from_file_location("roofline_check", ROOT / "tools" / "roofline_check.py")
    tool = importlib.util.module_from_spec(specification)
    import sys

    sys.modules["roofline_check"] = tool
    specification.loader.exec_module(tool)
    readable = importlib.util.find_spec("pyarrow") is not None
    names = tuple(name for name in tool.SOURCES if readable or name.endswith(".csv"))
    found = json.loads(json.dumps(tool.check(PROFILES, names)))
    recorded = load_json("roofline_check.json")["kinds"]
    assert found == {kind: entry for kind, entry in recorded.items() if entry["file"] in names}


# --- the panel -----------------------------------------------------------------------------------

CHOICES = {"model": "llama-3.1-70b", "chip": "h100-sxm", "ranks": 8, "weights": "bf16", "cache": "bf16"}
CHOICES |= {"sequences": 16, "new_tokens": 1, "cached_tokens": 4095}


def shown(**changed) -> dict:
    return json.loads(render("calc.roofline:roofline_panel", json.dumps(CHOICES | changed)))


def test_the_panel_says_what_the_library_says():
    found = shown()
    texts = {row["label"]: row["text"] for row in found["rows"]}
    assert texts["Least time of the step"] == "5.989 ms"
    assert "waits for memory" in found["meaning"] and "no number of sequences" in found["meaning"]
    assert "waits for arithmetic from" in shown(cached_tokens=256)["meaning"]
    assert "waits for arithmetic, which" in shown(sequences=1, new_tokens=8192, cached_tokens=0)["meaning"]


def test_the_panel_survives_its_largest_inputs():
    found = shown(sequences=4096, new_tokens=131_072, cached_tokens=131_072)
    assert found["ok"] and "EFLOP" in found["rows"][0]["text"]
    assert "the MLP" in shown()["meaning"]


@pytest.mark.parametrize("slug", SLUGS)
def test_the_panel_survives_every_model(slug):
    found = shown(model=slug, ranks=1)
    assert found["ok"] and all(row["text"] and "nan" not in row["text"] for row in found["rows"])


def test_the_panel_refuses_what_is_impossible():
    assert not shown(model="llama-3.1-8b", ranks=64)["ok"]
    assert not shown(sequences=0)["ok"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: roofline.read_seconds(weight_bytes=1, bandwidth=0), "bandwidth is 0, wanted .* above 0"),
        (lambda: roofline.multiply_seconds(step_tokens=1, weights=1, peak=0), "peak is 0, wanted .* above 0"),
        (lambda: roofline.crossover_tokens(peak=1, bandwidth=0, bytes_per_weight=2), "bandwidth is 0"),
        (
            lambda: roofline.crossing_sequences(
                weight_bytes=1, weights=0, attention_flop=0, sequence_bytes=0, balance=1
            ),
            "no batch crosses",
        ),
        (
            lambda: roofline.longest_crossing(weights=1, bytes_per_position=1, position_flop=300, balance=300),
            "every length crosses",
        ),
        (
            lambda: roofline.intensity_of(models.load("llama-3.1-8b").kinds()[0][0], element="bf16", ranks=0),
            "ranks is 0",
        ),
    ],
)
def test_what_divides_by_nothing_is_refused(call, message):
    with pytest.raises(CalcError, match=message):
        call()


@pytest.mark.parametrize("name", ["cached", "sequences"])
def test_an_array_is_refused_where_one_step_is_meant(name):
    numpy = pytest.importorskip("numpy")
    model, chip = models.load("llama-3.1-8b"), accelerator("h100-sxm")
    given = {"cached": 100, "sequences": 1} | {name: numpy.array([1, 2])}
    with pytest.raises(CalcError, match=f"{name} is an array, wanted one number"):
        roofline.decode_floor(model, chip, **given)
    with pytest.raises(CalcError, match=f"{name} is an array, wanted one number"):
        roofline.prefill_floor(model, chip, prompt=10, **given)
