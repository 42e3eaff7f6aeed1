"""Cache bytes against hand-derived values, an engine's own specifications, and properties."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc import kv_cache, models
from calc.kv_cache import ELEMENTS, layout
from calc.models import FixedState, FullAttention, Layer, ModelGeometry, StatePart, WindowAttention
from calc.units import CalcError, UnitError, registry

FIXTURES = Path(__file__).parent / "fixtures"
VLLM = json.loads((FIXTURES / "vllm_0.32.0_kv_specs.json").read_text())
COUNTS = st.integers(1, 5000)

# Derived by hand from each configuration: layers × heads × (key + value) × 2 bytes.
TWELVE = {
    "llama-3.1-8b": 32 * 8 * 256 * 2,
    "llama-3.1-70b": 80 * 8 * 256 * 2,
    "llama-2-13b": 40 * 40 * 256 * 2,
    "qwen2.5-72b": 80 * 8 * 256 * 2,
    "mixtral-8x7b": 32 * 8 * 256 * 2,
    "gemma-2-9b": 42 * 8 * 512 * 2,
    "gemma-3-27b": 62 * 16 * 256 * 2,
    "mistral-nemo": 40 * 8 * 256 * 2,
    "deepseek-v3": 61 * 576 * 2,
    "qwen3-30b-a3b": 48 * 4 * 256 * 2,
    "phi-3-mini": 32 * 32 * 192 * 2,
    "gpt-oss-20b": 24 * 8 * 128 * 2,
}


def geometry(*layers, architecture="llama"):
    return ModelGeometry(
        name="made by hand",
        architecture=architecture,
        hidden=1024,
        vocab=1000,
        layers=layers,
        tied_embeddings=False,
        max_positions=None,
        element="bf16",
        source="this test",
    )


def attention(query_heads=8, kv_heads=8, key_dim=128, value_dim=128, window=None):
    sizes = {"query_heads": query_heads, "kv_heads": kv_heads, "key_dim": key_dim, "value_dim": value_dim}
    mixer = FullAttention(**sizes) if window is None else WindowAttention(**sizes, window=window)
    return Layer(mixer=mixer, mlp=None, norms=2)


@pytest.mark.parametrize(("slug", "expected"), TWELVE.items())
def test_twelve_models_by_hand(slug, expected):
    assert layout(models.load(slug)).bytes_per_position == expected


@pytest.mark.parametrize("row", VLLM["rows"], ids=lambda r: f"{r['model']}-{r['ranks']}-{r['element']}")
def test_equals_what_vllm_allocates(row):
    model = models.load(row["model"])
    if "refused" in row:
        with pytest.raises(CalcError, match="ranks"):
            layout(model, element=row["element"], ranks=row["ranks"])
        return
    cache = layout(model, element=row["element"], ranks=row["ranks"])
    assert cache.bytes_per_position == row["bytes_per_token_all_growing"]
    assert cache.unbounded_bytes_per_position == row["bytes_per_token_unbounded_kinds"]
    for positions, resident in row["resident_bytes"].items():
        assert kv_cache.resident_bytes(cache, positions=int(positions)) == resident
    ours = sorted((k.layers, k.window or 0, k.bytes_per_position) for k in cache.kinds)
    assert ours == sorted((layers, window or 0, size) for _, layers, window, size in row["kinds"])


def test_vllm_rows_cover_refusal_windows_latents_and_replication():
    rows = VLLM["rows"]
    assert sum("refused" in row for row in rows) == 2
    assert {kind[0] for row in rows for kind in row.get("kinds", [])} >= {"full", "sliding", "mla"}


@pytest.mark.parametrize(
    ("heads", "ranks", "per_rank"), [(8, 1, 8), (8, 2, 4), (8, 8, 1), (8, 16, 1), (1, 8, 1), (10, 4, 2)]
)
def test_heads_per_rank(heads, ranks, per_rank):
    assert kv_cache.kv_heads_per_rank(kv_heads=heads, ranks=ranks) == per_rank


def test_heads_that_do_not_divide_are_refused_or_floored():
    uneven = geometry(attention(query_heads=40, kv_heads=10))
    with pytest.raises(CalcError, match="can't run on 4 ranks: its 10 KV heads don't divide. Use 1, 2, 5, 10, 20, 40"):
        layout(uneven, ranks=4)
    assert layout(uneven, ranks=4, remainder="floor").bytes_per_position == 2 * 256 * 2
    with pytest.raises(CalcError, match="its 40 query heads don't divide"):
        layout(uneven, ranks=16)
    with pytest.raises(CalcError, match="its 6 KV heads don't divide. Use 1, 2, 3, 6, 12, 24"):
        layout(geometry(attention(query_heads=24, kv_heads=6)), ranks=8)
    with pytest.raises(CalcError, match='wanted "refuse" or "floor"'):
        layout(uneven, remainder="ceil")
    for ranks in (0, -1, 2.0, True, "2"):
        with pytest.raises(CalcError, match="ranks is"):
            layout(uneven, ranks=ranks)


def test_a_latent_is_held_whole_by_every_rank():
    latent = models.load("deepseek-v3")
    assert layout(latent, ranks=8).bytes_per_position == layout(latent).bytes_per_position == 70_272


@pytest.mark.parametrize(
    ("element", "expected"),
    [("fp32", 655_360), ("bf16", 327_680), ("fp16", 327_680), ("fp8", 163_840), ("int8", 163_840)],
)
def test_element_types(element, expected):
    assert layout(models.load("llama-3.1-70b"), element=element).bytes_per_position == expected


def test_stored_scales_are_counted():
    # one fp32 scale beside each of 2 · 8 vectors in 80 layers
    scaled = layout(models.load("llama-3.1-70b"), element="fp8 + head scales").bytes_per_position
    assert scaled == 163_840 + 80 * 8 * 2 * 4
    latent = layout(models.load("deepseek-v3"), element="int8 + head scales").bytes_per_position
    assert latent == 61 * (576 + 4)
    odd = layout(geometry(attention(key_dim=96, value_dim=96)), element="fp8 + head scales")
    assert odd.bytes_per_position == 8 * (2 * 96 + 2 * 4)
    with pytest.raises(CalcError, match="use one of fp32, bf16"):
        layout(models.load("llama-3.1-70b"), element="fp7")


def test_keys_and_values_of_different_width():
    assert layout(geometry(attention(key_dim=192, value_dim=128))).bytes_per_position == 8 * 320 * 2


def test_fixed_state_does_not_grow():
    state = FixedState(parts=(StatePart(elements=1024, element_bytes=4), StatePart(elements=64, element_bytes=None)))
    hybrid = layout(geometry(Layer(mixer=state, mlp=None, norms=1), attention()))
    assert hybrid.fixed_bytes == 1024 * 4 + 64 * 2
    assert kv_cache.resident_bytes(hybrid, positions=0) == hybrid.fixed_bytes
    grown = kv_cache.resident_bytes(hybrid, positions=100) - hybrid.fixed_bytes
    assert grown == 100 * hybrid.bytes_per_position == 100 * 8 * 256 * 2
    halved = layout(geometry(Layer(mixer=state, mlp=None, norms=1)), ranks=2)
    assert halved.fixed_bytes == hybrid.fixed_bytes / 2
    with pytest.raises(CalcError, match="leaves nothing per position"):
        kv_cache.formula_of(state, layers=1, element="bf16")


def test_windows_stop_growing_and_uniform_pages_do_not():
    mixed = layout(geometry(attention(window=100), attention()))
    layer = 8 * 256 * 2
    assert kv_cache.resident_bytes(mixed, positions=50) == 2 * 50 * layer
    assert kv_cache.resident_bytes(mixed, positions=500) == (100 + 500) * layer
    assert kv_cache.uniform_page_bytes(mixed, positions=500, block_tokens=16) == 2 * 512 * layer
    assert mixed.unbounded_bytes_per_position == layer


def test_now_and_at_the_end_are_different_questions():
    cache = layout(models.load("llama-3.1-70b"))
    now = kv_cache.present_bytes(cache, prompt=2048, generated=200)
    room = kv_cache.room_to_finish_bytes(cache, prompt=2048, generated=200, output=1024)
    assert now == 2247 * 327_680
    assert room == 824 * 327_680
    assert kv_cache.room_to_finish_bytes(cache, prompt=2048, generated=1024, output=1024) == 0
    with pytest.raises(CalcError, match="raise output or lower generated"):
        kv_cache.room_to_finish_bytes(cache, prompt=2048, generated=1025, output=1024)
    with pytest.raises(CalcError, match="generated is 0"):
        kv_cache.present_bytes(cache, prompt=2048, generated=0)


def test_pages_round_up_to_whole_blocks():
    cache = layout(models.load("llama-3.1-8b"))
    assert kv_cache.present_bytes(cache, prompt=17, generated=1, block_tokens=16) == 32 * 131_072
    assert kv_cache.blocks(positions=0, block_tokens=16) == 0


def test_general_form_equals_special_form():
    special = kv_cache.bytes_per_position(layers=3, kv_heads=5, head_dim=7, element_bytes=2)
    general = kv_cache.unequal_bytes_per_position(layers=3, kv_heads=5, key_dim=7, value_dim=7, element_bytes=2)
    assert special == general


def test_layout_renders_as_a_table_without_markup_from_names():
    html = layout(models.load("gemma-3-27b"))._repr_html_()
    assert "the last 1,024 positions" in html and "every position" in html


def test_in_words_covers_every_kind():
    state = FixedState(parts=(StatePart(elements=8, element_bytes=4),))
    hybrid = geometry(Layer(mixer=state, mlp=None, norms=1), attention(kv_heads=1), attention(key_dim=192, window=10))
    words = kv_cache.in_words(hybrid)
    assert "the one KV head" in words and "a key of 192 elements and a value of 128" in words and "fixed state" in words
    assert "one latent of 512 elements" in kv_cache.in_words(models.load("deepseek-v3"))


@given(prompt=COUNTS, output=COUNTS, window=st.none() | COUNTS, data=st.data())
def test_a_request_only_grows_and_ends_where_it_should(prompt, output, window, data):
    cache = layout(geometry(attention(window=window), attention()))
    generated = data.draw(st.integers(1, output))
    now = kv_cache.present_bytes(cache, prompt=prompt, generated=generated)
    room = kv_cache.room_to_finish_bytes(cache, prompt=prompt, generated=generated, output=output)
    assert room >= 0
    assert now + room == kv_cache.resident_bytes(cache, positions=prompt + output - 1)
    assert now <= kv_cache.present_bytes(cache, prompt=prompt, generated=generated, block_tokens=16)


@given(st.sampled_from(sorted(TWELVE)), st.sampled_from(sorted(ELEMENTS)), st.integers(1, 100_000))
def test_resident_never_exceeds_uniform_pages(slug, element, positions):
    cache = layout(models.load(slug), element=element)
    resident = kv_cache.resident_bytes(cache, positions=positions)
    assert 0 < resident <= kv_cache.uniform_page_bytes(cache, positions=positions)


@given(st.integers(0, 10**12), st.integers(1, 10**6))
def test_what_fits_fits_and_one_more_does_not(memory, size):
    fit = kv_cache.positions_that_fit(memory_bytes=memory, bytes_per_position=size)
    assert fit * size <= memory < (fit + 1) * size
    assert kv_cache.sequences_that_fit(memory_bytes=memory, sequence_bytes=size) == fit


@given(st.sampled_from(["llama-3.1-70b", "qwen3-30b-a3b", "mixtral-8x7b"]), st.sampled_from([1, 2, 4, 8, 16]))
def test_ranks_together_never_hold_less_than_the_model(slug, ranks):
    model = models.load(slug)
    assert ranks * layout(model, ranks=ranks).bytes_per_position >= layout(model).bytes_per_position


@given(st.sampled_from(sorted(TWELVE)), st.integers(1, 64))
def test_the_ranks_a_refusal_names_are_accepted(slug, ranks):
    model = models.load(slug)
    try:
        layout(model, ranks=ranks)
    except CalcError as refusal:
        for good in str(refusal).rpartition("Use ")[2].split(", "):
            assert layout(model, ranks=int(good)).ranks == int(good)


def test_narrow_integers_do_not_overflow():
    import numpy as np

    cache = layout(models.load("llama-3.1-8b"))
    assert kv_cache.resident_bytes(cache, positions=np.int32(20_000)) == 2_621_440_000
    size = kv_cache.sequence_bytes(bytes_per_position=np.int32(327_680), positions=np.array([131_072], dtype=np.int32))
    assert size.tolist() == [327_680 * 131_072]


def test_arrays_pass_through_every_formula_element_by_element():
    import numpy as np

    positions = np.array([10, 2000])
    assert kv_cache.resident_positions(positions=positions, window=1024).tolist() == [10, 1024]
    assert kv_cache.blocks(positions=positions, block_tokens=16).tolist() == [1, 125]
    assert kv_cache.kv_heads_per_rank(kv_heads=8, ranks=np.array([4, 16])).tolist() == [2, 1]


def test_quantities_are_converted_at_the_door_of_a_layout():
    quantity = registry().Quantity
    cache = layout(models.load("llama-3.1-8b"))
    assert kv_cache.uniform_page_bytes(cache, positions=quantity(17, "token")) == 32 * 131_072
    assert kv_cache.present_bytes(cache, prompt=quantity(17, "token"), generated=1, block_tokens=16) == 32 * 131_072
    with pytest.raises(UnitError, match="positions is B"):
        kv_cache.resident_bytes(cache, positions=quantity(17, "byte"))


def test_growth_visits_every_token():
    cache = layout(models.load("llama-3.1-8b"))
    steps = list(kv_cache.growth(cache, prompt=10, output=5))
    assert [g for g, _ in steps] == [1, 2, 3, 4, 5]
    assert [size / 131_072 for _, size in steps] == [10, 11, 12, 13, 14]
