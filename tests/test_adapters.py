"""Adapters: counts and files against PEFT, slots and admission against vLLM, hit ratios against exact ones."""

from __future__ import annotations

import json
import math
import shutil
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc import adapters
from calc.adapters import AdapterError, adapter, read_adapter, read_header, reserve
from calc.models import FixedState, Layer, ModelGeometry, StatePart, UnsupportedArchitecture, catalogue, load
from calc.panel import render
from calc.sources import data_path
from calc.units import CalcError

FIXTURES = Path(__file__).parent / "fixtures"
PEFT = json.loads((FIXTURES / "peft_0.21.2_adapters.json").read_text())["cases"]
BUFFERS = json.loads((FIXTURES / "vllm_0.32.0_adapter_slots.json").read_text())["cases"]
ADMISSION = json.loads((FIXTURES / "vllm_0.32.0_adapter_admission.json").read_text())["cases"]
SAMPLE = data_path() / "adapters" / "tiny-llama"

GPT3 = {
    **{"model_type": "llama", "hidden_size": 12288, "num_hidden_layers": 96, "num_attention_heads": 96},
    **{"intermediate_size": 49152, "vocab_size": 50257, "tie_word_embeddings": True},
}  # the shape of GPT-3's attention; q and v don't see the rest


def of(case) -> adapters.Adapter:
    experts = [f"experts.{name.rpartition('.')[2]}" for name in case["experts"]]
    return adapter(
        ModelGeometry.from_config(case["config"]),
        rank=case["rank"],
        targets=case["targets"] + experts,
        element=case["element"],
        saved=case["saved"],
        saved_element=case["saved_element"],
    )


# --- counts and files -------------------------------------------------------------------------------------------


def name(case) -> str:
    return f"{case['config']['model_type']}-r{case['rank']}-{len(case['targets'])}-{case['element']}"


@pytest.mark.parametrize("case", PEFT, ids=name)
def test_counts_and_file_equal_peft(case):
    one = of(case)
    assert one.trainable_parameters == case["trainable"]
    assert one.header_bytes == case["header_bytes"]
    assert one.file_bytes == case["file_bytes"]


def test_the_shared_oracle():
    """Recorded apart from the other cases, with transformers 5.24.0."""
    oracle = json.loads((FIXTURES / "transformers_5.24.0.json").read_text())["lora"]["small-saved"]
    config = {
        **{"model_type": "llama", "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 4},
        **{"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 1000},
    }
    one = adapter(ModelGeometry.from_config(config | {"tie_word_embeddings": False}), rank=16)
    assert (one.trainable_parameters, one.stored_bytes) == (oracle["trainable"], oracle["payload"])
    assert one.file_bytes == oracle["file_bytes"]


@pytest.mark.parametrize(("rank", "printed"), [(1, 4_718_592), (4, 18_874_368), (8, 37_748_736)])
def test_gpt3_counts_of_the_paper(rank, printed):
    """Hu et al., table 4 and section 4.2: rank times two projections of 12,288 by 12,288 in 96 layers."""
    one = adapter(ModelGeometry.from_config(GPT3), rank=rank, targets=["q_proj", "v_proj"])
    assert one.low_rank_parameters == printed


def test_70b_by_hand():
    """161,792 for each layer and unit of rank, as in vllm-project/vllm#15039."""
    one = adapter(load("llama-3.1-70b"), rank=8)
    q, kv, o, mlp = 8192 + 8192, 8192 + 1024, 8192 + 8192, 8192 + 28672
    assert one.low_rank_parameters == 80 * 8 * (q + 2 * kv + o + 3 * mlp) == 80 * 8 * 161_792


def test_a_pair_is_smaller_than_its_matrix_below_the_break_even_rank():
    for input_dim, output_dim in ((8192, 1024), (8192, 28672), (640, 256)):
        even = input_dim * output_dim // (input_dim + output_dim)
        sizes = {"input_dim": input_dim, "output_dim": output_dim}
        assert adapters.pair_parameters(rank=even, **sizes) <= input_dim * output_dim
        assert adapters.pair_parameters(rank=even + 1, **sizes) > input_dim * output_dim


def test_every_model_of_the_catalogue_can_carry_an_adapter():
    for slug in catalogue():
        model = load(slug)
        one, two = (adapter(model, rank=rank) for rank in (4, 8))
        assert 0 < one.low_rank_parameters * 2 == two.low_rank_parameters
        assert adapter(model, rank=4, targets="attention").low_rank_parameters < one.low_rank_parameters or not any(
            ".mlp." in site.path for site in one.sites
        )


def test_names_order_and_group():
    model = load("llama-3.1-8b")
    assert adapter(model, rank=4, targets=["v_proj", "q_proj"]) == adapter(model, rank=4, targets=["q_proj", "v_proj"])
    assert adapter(model, rank=4, targets="attention").targets == ("q_proj", "k_proj", "v_proj", "o_proj")
    assert adapters.target_group(load("deepseek-v3"), "attention")[0] == "q_a_proj"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 0}, "rank is 0, wanted a whole number of at least 1"),
        ({"rank": True}, "rank is True"),
        ({"rank": 8.5}, "rank is 8.5"),
        ({"targets": []}, "no target modules"),
        ({"targets": "everything"}, "write all-linear or attention"),
        ({"targets": ["q_proj", "q_proj"]}, "named twice"),
        ({"targets": ["wq"]}, "has no module 'wq': it has embed_tokens, q_proj"),
        ({"element": "int4"}, "use fp32, bf16, fp16, fp8"),
        ({"saved_element": "int4"}, "use fp32"),
        ({"saved": ["norm"]}, "cannot save 'norm' whole"),
        ({"saved": ["lm_head", "lm_head"]}, "may be named once"),
        ({"saved": ["lm_head"], "targets": ["lm_head"]}, "both adapted and saved whole"),
    ],
)
def test_impossible_adapters_are_refused(change, message):
    with pytest.raises(CalcError, match=message):
        adapter(load("llama-3.1-8b"), **({"rank": 8} | change))


def test_a_model_without_attention_is_refused():
    state = Layer(mixer=FixedState(parts=(StatePart(elements=8),)), mlp=None, norms=1)
    model = ModelGeometry(name="x", architecture="x", hidden=8, vocab=8, layers=(state,), tied_embeddings=False)
    with pytest.raises(UnsupportedArchitecture, match="FixedState"):
        adapter(model, rank=4)


# --- tensor parallelism and slots -------------------------------------------------------------------------------


def buffers(case) -> str:
    shape = "sharded" if case["fully_sharded"] else "default"
    return f"{case['config']['model_type']}-{case['ranks']}-{shape}"


@pytest.mark.parametrize("case", BUFFERS, ids=buffers)
def test_slots_equal_the_buffers_of_vllm(case):
    """The bytes of the stacked tensors that vLLM allocates on each rank; its routers', which are not modeled, apart."""
    model = ModelGeometry.from_config(case["config"])
    experts = [name for name in adapters.target_names(model) if name.startswith("experts.")]
    made = reserve(
        model,
        targets=[*adapters.buffered(model), *(experts if case["experts"] else [])],
        slots=case["slots"],
        rank=case["max_rank"],
        ranks=case["ranks"],
        fully_sharded=case["fully_sharded"],
    )
    assert [made.bytes_per_gpu + case["routers"]] * case["ranks"] == case["bytes"]


def test_a_pair_split_among_ranks_still_gives_the_whole_product():
    """Why the default layout copies what it copies: whole numbers, so equal means equal."""
    draw = np.random.default_rng(0)
    ranks, rank, hidden, wide = 4, 3, 8, 12
    x = draw.integers(-3, 4, (5, hidden))
    down, up = draw.integers(-3, 4, (hidden, rank)), draw.integers(-3, 4, (rank, wide))
    column = [(x @ down) @ part for part in np.split(up, ranks, axis=1)]  # all of A, a part of B
    assert np.array_equal(np.concatenate(column, axis=1), x @ down @ up)
    parts = zip(np.split(x, ranks, axis=1), np.split(down, ranks, axis=0), strict=True)
    row = [(inputs @ part) @ up for inputs, part in parts]  # a part of A, all of B
    assert np.array_equal(sum(row), x @ down @ up)


@pytest.mark.parametrize("slug", ["llama-3.1-8b", "llama-3.1-70b", "qwen2.5-72b", "gemma-2-27b", "mixtral-8x7b"])
def test_ranks_hold_together_at_least_the_whole(slug):
    one = adapter(load(slug), rank=16)
    whole = one.low_rank_parameters
    for ranks in (1, 2, 4, 8):
        divided, copied = one.on_rank(ranks=ranks, fully_sharded=True), one.on_rank(ranks=ranks)
        assert ranks * divided == whole
        assert divided <= copied <= whole
    assert one.on_rank(ranks=1) == whole


def test_kv_heads_are_copied_once_ranks_outnumber_them():
    one = adapter(load("llama-3.1-70b"), rank=16, targets=["k_proj"])
    assert [one.on_rank(ranks=r, fully_sharded=True) // (80 * 16) for r in (8, 16)] == [1024 + 128, 512 + 128]


def test_reservation_ignores_what_is_loaded_and_knows_what_it_admits():
    model = load("llama-3.1-70b")
    made = reserve(model, slots=4, rank=64, ranks=8)
    assert made.bytes_per_gpu == 4 * made.slot_bytes
    assert made.admits(adapter(model, rank=64)) and not made.admits(adapter(model, rank=65))
    narrow = reserve(model, slots=4, rank=64, targets=["q_proj"])
    assert not narrow.admits(adapter(model, rank=8, targets=["q_proj", "k_proj"]))


def test_nothing_is_copied_on_one_gpu_or_when_both_halves_are_divided():
    model = load("qwen3-30b-a3b")
    assert reserve(model, slots=2, rank=16).copied_bytes == 0
    assert reserve(model, slots=2, rank=16, ranks=4, fully_sharded=True).copied_bytes == 0
    assert reserve(model, slots=2, rank=16, ranks=4).copied_bytes > 0


@pytest.mark.parametrize(("highest", "slot"), [(1, 1), (2, 8), (8, 8), (9, 16), (24, 32), (300, 320), (512, 512)])
def test_slot_rank(highest, slot):
    assert adapters.slot_rank(highest) == slot


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": 0}, "slots is 0"),
        ({"ranks": 0}, "ranks is 0"),
        ({"ranks": 3}, "doesn't divide among 3 ranks"),
        ({"rank": 4, "ranks": 8, "fully_sharded": True}, "use a multiple of 8"),
        ({"targets": ["wq"]}, "has no module"),
    ],
)
def test_impossible_reservations_are_refused(change, message):
    with pytest.raises(CalcError, match=message):
        reserve(load("llama-3.1-8b"), **({"slots": 2, "rank": 16} | change))


def test_no_slot_is_wide_enough():
    with pytest.raises(CalcError, match="the widest is 512"):
        adapters.slot_rank(513)


# --- a stored adapter -------------------------------------------------------------------------------------------


def test_the_sample_is_read_and_equals_the_formulas():
    """Written by PEFT: pairs trained in fp32 beside a bf16 embedding."""
    stored = read_adapter(SAMPLE)
    assert (stored.rank, stored.scale, stored.modules, stored.saved) == (
        4,
        2.0,
        ("q_proj", "v_proj"),
        ("embed_tokens",),
    )
    assert stored.elements == {"fp32": 7168, "bf16": 16384}
    config = {
        **{"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2},
        **{"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128, "tie_word_embeddings": False},
    }
    saved = {"saved": ["embed_tokens"], "saved_element": "bf16"}
    one = adapter(ModelGeometry.from_config(config), rank=4, targets=["q_proj", "v_proj"], element="fp32", **saved)
    assert one.file_bytes == stored.header.file_bytes == (SAMPLE / "adapter_model.safetensors").stat().st_size
    assert sum(tensor.parameters for tensor in stored.low_rank) == one.low_rank_parameters
    assert sum(tensor.parameters for tensor in stored.others) == one.saved_parameters
    assert "lm_head" not in stored._repr_html_() and "embed_tokens" in stored._repr_html_()


@pytest.fixture
def stored(tmp_path):
    """A copy of the sample, and how to write another header or configuration into it."""
    folder = tmp_path / "adapter"
    shutil.copytree(SAMPLE, folder)

    class Stored:
        path = folder / "adapter_model.safetensors"
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + length])

        def write(self, header, payload=None, length=None):
            text = header if isinstance(header, bytes) else json.dumps(header).encode()
            size = len(text) if length is None else length
            body = self.raw[8 + self.length :] if payload is None else payload
            self.path.write_bytes(size.to_bytes(8, "little") + text + body)

        def configure(self, **changes):
            config = json.loads((folder / "adapter_config.json").read_text()) | changes
            (folder / "adapter_config.json").write_text(json.dumps(config))

    made = Stored()
    made.folder = folder
    return made


Q_DOWN = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
Q_UP = Q_DOWN.replace("lora_A", "lora_B")


def damaged(**entries):
    """A change of some of the header's entries; None leaves one out."""

    def change(header):
        merged = header | entries
        return {key: value for key, value in merged.items() if value is not None}

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: b"", "no JSON"),
        (lambda h: b"[]", "must be a JSON object"),
        (lambda h: b"\xff\xfe", "no JSON text in UTF-8"),
        (lambda h: b"[" * 100_000, "no JSON"),
        (lambda h: b'{"a": 1, "a": 2}', "'a' is stated 2 times"),
        (lambda h: b'{"a": ' + b"9" * 5000 + b"}", "no JSON"),
        (damaged(x=3), "'x' in the header is 3: it needs dtype"),
        (damaged(x={"dtype": "BF16", "shape": [1]}), "needs dtype, shape and data_offsets"),
        (damaged(x={"dtype": "Q4", "shape": [1], "data_offsets": [0, 1]}), "dtype 'Q4': known are"),
        (damaged(x={"dtype": [], "shape": [1], "data_offsets": [0, 1]}), "known are"),
        (damaged(x={"dtype": "U8", "shape": [-1], "data_offsets": [0, 1]}), "whole numbers"),
        (damaged(x={"dtype": "U8", "shape": [True], "data_offsets": [0, 1]}), "whole numbers"),
        (damaged(x={"dtype": "U8", "shape": [1.0], "data_offsets": [0, 1]}), "whole numbers"),
        (damaged(x={"dtype": "U8", "shape": [1] * 9, "data_offsets": [0, 1]}), "at most 8"),
        (damaged(x={"dtype": "U8", "shape": [2**70], "data_offsets": [0, 1]}), "whole numbers"),
        (damaged(x={"dtype": "U8", "shape": [2**62] * 8, "data_offsets": [0, 1]}), "the header is wrong"),
        (damaged(x={"dtype": "U8", "shape": [1], "data_offsets": [0]}), "two whole numbers"),
        (damaged(x={"dtype": "U8", "shape": [1], "data_offsets": [1, 0]}), "the header is wrong"),
        (damaged(x={"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}), "must begin at"),
        (damaged(x={"dtype": "U8", "shape": [1], "data_offsets": [99_999, 100_000]}), "leaves a hole"),
        (damaged(**{Q_DOWN: None}), "leaves a hole"),
        (damaged(**{"<img src=x>": 1}), r"\\x3cimg"),
    ],
)
def test_damaged_headers_are_refused_by_name(stored, change, message):
    stored.write(change(stored.header))
    with pytest.raises(AdapterError, match=message):
        read_header(stored.path)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "cut short"),
        (b"1234567", "cut short"),
        ((2**63).to_bytes(8, "little") + b"{}", "cut short"),
        ((100).to_bytes(8, "little") + b"{}", "announces a header of 100"),
        (b"PK\x03\x04" + b"\0" * 40, "cut short"),
    ],
)
def test_files_of_another_kind_are_refused(stored, raw, message):
    stored.path.write_bytes(raw)
    with pytest.raises(AdapterError, match=message):
        read_header(stored.path)


def test_a_header_longer_than_the_format_admits_is_not_read(stored):
    with stored.path.open("wb") as file:
        file.write((100_000_001).to_bytes(8, "little"))
        file.truncate(100_000_100)  # sparse
    with pytest.raises(AdapterError, match="100 MB"):
        read_header(stored.path)


def test_missing_bytes_and_appended_bytes_are_noticed(stored):
    stored.path.write_bytes(stored.raw[:-1])
    with pytest.raises(AdapterError, match="cut short"):
        read_header(stored.path)
    stored.path.write_bytes(stored.raw + b"\0")
    with pytest.raises(AdapterError, match="something appended"):
        read_header(stored.path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"r": 8}, "has rank 4, but adapter_config.json states 8"),
        ({"r": 0}, "'r' is 0"),
        ({"r": "4"}, "'r' is '4'"),
        ({"lora_alpha": None}, "lora_alpha is None"),
        ({"lora_alpha": float("nan")}, "lora_alpha is nan"),
        ({"peft_type": "IA3"}, "only LORA"),
        ({"rank_pattern": [1]}, "rank_pattern"),
        ({"rank_pattern": {"v_proj": 2.5}}, "'v_proj' is 2.5"),
    ],
)
def test_settings_that_contradict_the_file_are_refused(stored, changes, message):
    stored.configure(**changes)
    with pytest.raises(AdapterError, match=message):
        read_adapter(stored.folder)


def test_rank_pattern_and_rslora(stored):
    stored.configure(r=16, rank_pattern={"q_proj": 4, "v_proj": 4}, use_rslora=True)
    found = read_adapter(stored.folder)
    assert (found.ranks, found.scale) == ((4,), 8 / 4)


def test_half_a_pair_and_pairs_that_do_not_meet(stored):
    one = stored.header[Q_DOWN]
    renamed = {("base_model.model.x.weight" if key == Q_UP else key): value for key, value in stored.header.items()}
    stored.write(renamed)
    with pytest.raises(AdapterError, match="has no lora_B"):
        read_adapter(stored.folder)
    stored.write(stored.header | {Q_DOWN: one | {"shape": [8, 32]}})
    with pytest.raises(AdapterError, match="as many rows as B has columns"):
        read_adapter(stored.folder)


def test_no_adapter_in_the_folder(stored, tmp_path):
    with pytest.raises(AdapterError, match="no adapter_config.json"):
        read_adapter(tmp_path)
    with pytest.raises(AdapterError, match="no file at"):
        read_header(tmp_path)
    with pytest.raises(AdapterError, match="cannot read|no file at"):
        read_header("a\0b")
    stored.path.rename(stored.folder / "adapter_model.bin")
    with pytest.raises(AdapterError, match="pickle"):
        read_adapter(stored.folder)


def test_no_pair_is_no_adapter(stored):
    stored.write({"w": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}, payload=b"\0\0")
    with pytest.raises(AdapterError, match="no LoRA adapter"):
        read_adapter(stored.folder)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.data())
def test_any_file_is_read_or_refused(tmp_path_factory, data):
    """Random bytes, random JSON, and the sample with some bytes changed."""
    path = tmp_path_factory.mktemp("any") / "x.safetensors"
    sample = (SAMPLE / "adapter_model.safetensors").read_bytes()
    kind = data.draw(st.sampled_from(["bytes", "json", "flipped"]))
    if kind == "bytes":
        raw = data.draw(st.binary(max_size=64))
    elif kind == "json":
        text = json.dumps(data.draw(JSON)).encode()
        raw = len(text).to_bytes(8, "little") + text + data.draw(st.binary(max_size=8))
    else:
        raw = bytearray(sample)
        for at in data.draw(st.lists(st.integers(0, 1127), min_size=1, max_size=4)):
            raw[at] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        header = read_header(path)
    except AdapterError as refused:
        assert len(str(refused)) < 400 and "<" not in str(refused)
    else:
        assert header.file_bytes == len(raw)


# --- traffic ----------------------------------------------------------------------------------------------------


def by_chain(popularity: list[Fraction], slots: int) -> Fraction:
    """Hit ratio from the stationary order of an LRU stack, solved as a Markov chain over all its states."""
    states = list(permutations(range(len(popularity)), slots))
    place = {state: i for i, state in enumerate(states)}
    step = np.zeros((len(states), len(states)))
    for state, asked in product(states, range(len(popularity))):
        rest = tuple(item for item in state if item != asked)
        step[place[state], place[(asked, *rest)[:slots]]] += float(popularity[asked])
    odds = np.linalg.lstsq(
        np.vstack([step.T - np.eye(len(states)), np.ones(len(states))]), [0] * len(states) + [1], rcond=None
    )[0]
    return sum(p * sum(float(popularity[item]) for item in state) for p, state in zip(odds, states, strict=True))


@pytest.mark.parametrize(
    ("weights", "slots"), [([3, 1], 1), ([6, 3, 2], 1), ([6, 3, 2], 2), ([12, 6, 4, 3], 2), ([5, 5, 1, 1, 1], 3)]
)
def test_exact_hit_ratio_equals_the_markov_chain(weights, slots):
    popularity = [Fraction(weight, sum(weights)) for weight in weights]
    ours = adapters.exact_hit_ratio([float(p) for p in popularity], slots=slots)
    assert math.isclose(ours, by_chain(popularity, slots), rel_tol=1e-9)


def test_three_adapters_by_hand():
    """Popularity 6:3:2, two slots: a miss is the adapter left out of the last two different ones."""
    p = [Fraction(6, 11), Fraction(3, 11), Fraction(2, 11)]
    miss = sum(p[i] * p[j] / (1 - p[i]) * p[k] for i, j, k in permutations(range(3)))
    assert math.isclose(adapters.exact_hit_ratio(adapters.zipf(adapters=3, exponent=1), slots=2), 1 - miss)


@given(adapters_=st.integers(2, 12), exponent=st.floats(0, 2), data=st.data())
def test_hit_ratios_agree_and_keep_their_order(adapters_, exponent, data):
    slots = data.draw(st.integers(1, adapters_))
    popularity = adapters.zipf(adapters=adapters_, exponent=exponent)
    exact = adapters.exact_hit_ratio(popularity, slots=slots)
    assert exact <= adapters.pinned_hit_ratio(popularity, slots=slots) + 1e-12
    # the largest gap found over this range, with one slot and a steep popularity, is just below
    assert abs(exact - adapters.hit_ratio(popularity, slots=slots)) < 0.06
    if slots > 1:
        assert exact >= adapters.exact_hit_ratio(popularity, slots=slots - 1)


def test_equal_popularity_hits_in_proportion():
    popularity = adapters.zipf(adapters=10, exponent=0)
    for slots in range(1, 11):
        assert math.isclose(adapters.exact_hit_ratio(popularity, slots=slots), slots / 10)
        assert math.isclose(adapters.hit_ratio(popularity, slots=slots), slots / 10, rel_tol=1e-9)


def test_simulation_lies_on_the_exact_ratio():
    popularity = adapters.zipf(adapters=8, exponent=1)
    for slots in (1, 3, 6):
        exact = adapters.exact_hit_ratio(popularity, slots=slots)
        drawn = adapters.simulated_hit_ratio(popularity, slots=slots, requests=40_000)
        spread = math.sqrt(exact * (1 - exact) / 40_000)
        assert abs(drawn - exact) < 6 * spread  # hits of neighbors are not independent


def test_a_large_set_by_che_and_by_simulation():
    popularity = adapters.zipf(adapters=1000, exponent=1)
    for slots in (8, 100, 400):
        drawn = adapters.simulated_hit_ratio(popularity, slots=slots, requests=40_000)
        assert abs(drawn - adapters.hit_ratio(popularity, slots=slots)) < 0.012


def test_a_slot_for_everyone_always_hits():
    popularity = (0.5, 0.5, 0.0)
    for ratio in (adapters.hit_ratio, adapters.exact_hit_ratio, adapters.pinned_hit_ratio):
        assert ratio(popularity, slots=2) == 1
    assert adapters.simulated_hit_ratio(popularity, slots=2, requests=10) == 1


def test_expected_distinct_by_counting_every_draw():
    popularity = adapters.zipf(adapters=4, exponent=1)
    total = sum(math.prod(popularity[i] for i in draw) * len(set(draw)) for draw in product(range(4), repeat=5))
    assert math.isclose(adapters.expected_distinct(popularity, requests=5), total)


@pytest.mark.parametrize("case", ADMISSION, ids=lambda case: f"{case['slots']}-{case['seats']}-{len(case['queue'])}")
def test_admission_equals_vllm(case):
    started = adapters.admitted(case["queue"], slots=case["slots"], seats=case["seats"])
    assert list(started) == case["started"]


@given(queue=st.lists(st.none() | st.integers(0, 6), max_size=30), slots=st.integers(1, 7), seats=st.integers(1, 30))
def test_admission_keeps_its_limits_and_leaves_nobody_out_for_nothing(queue, slots, seats):
    started = adapters.admitted(queue, slots=slots, seats=seats)
    used = {queue[i] for i in started} - {None}
    assert len(started) <= seats and len(used) <= slots and list(started) == sorted(set(started))
    for place, wanted in enumerate(queue):
        if place not in started:
            assert len(started) == seats or (len(used) == slots and wanted is not None and wanted not in used)


def test_expected_running_between_its_bounds():
    popularity = adapters.zipf(adapters=50, exponent=1)
    runs = [adapters.expected_running(popularity, requests=32, slots=slots) for slots in (1, 4, 16, 32)]
    assert runs == sorted(runs)
    assert runs[-1] == 32 and runs[0] > 1


def test_fewer_slots_leave_the_same_queues_earlier():
    popularity = adapters.zipf(adapters=50, exponent=1)
    curve = adapters.expected_running_by_slots(popularity, requests=32, slots=40)
    one_by_one = [adapters.expected_running(popularity, requests=32, slots=slots) for slots in range(1, 41)]
    assert list(curve) == one_by_one == sorted(curve)
    assert curve[31:] == (32,) * 9  # a slot for every request


def test_with_one_slot_those_run_who_want_what_the_first_wants():
    popularity = adapters.zipf(adapters=1000, exponent=1)
    exact = 1 + 63 * sum(share**2 for share in popularity)
    assert math.isclose(adapters.expected_running(popularity, requests=64, slots=1), exact, rel_tol=0.01)


@pytest.mark.parametrize(("weights", "requests", "slots"), [([3, 2, 1], 4, 2), ([5, 1, 1, 1], 5, 1), ([1, 1, 1], 3, 2)])
def test_expected_running_by_every_queue(weights, requests, slots):
    """All queues there are, each through the scheduler's rule."""
    popularity = [weight / sum(weights) for weight in weights]
    exact = sum(
        math.prod(popularity[i] for i in queue) * len(adapters.admitted(queue, slots=slots, seats=requests))
        for queue in product(range(len(weights)), repeat=requests)
    )
    ours = adapters.expected_running(popularity, requests=requests, slots=slots, draws=4000)
    assert math.isclose(ours, exact, rel_tol=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: adapters.zipf(adapters=0, exponent=1), "adapters is 0"),
        (lambda: adapters.zipf(adapters=2**21, exponent=1), "from 1 to 1,048,576"),
        (lambda: adapters.zipf(adapters=3, exponent=-1), "exponent is -1"),
        (lambda: adapters.zipf(adapters=3, exponent=float("nan")), "exponent is nan"),
        (lambda: adapters.hit_ratio([0.5, 0.4], slots=1), "sum to 1"),
        (lambda: adapters.hit_ratio([1.5, -0.5], slots=1), "sum to 1"),
        (lambda: adapters.hit_ratio([], slots=1), "sum to 1"),
        (lambda: adapters.hit_ratio([1.0], slots=0), "slots is 0"),
        (lambda: adapters.characteristic_time([0.5, 0.5], slots=2), "from 1 to 1"),
        (lambda: adapters.exact_hit_ratio(adapters.zipf(adapters=60, exponent=1), slots=20), "use hit_ratio"),
        (lambda: adapters.admitted([1], slots=0, seats=1), "slots is 0"),
        (lambda: adapters.admitted([1], slots=1, seats=0), "seats is 0"),
        (lambda: adapters.expected_distinct([1.0], requests=-1), "requests is -1"),
    ],
)
def test_impossible_traffic_is_refused(call, message):
    with pytest.raises(CalcError, match=message):
        call()


# --- the panel --------------------------------------------------------------------------------------------------

INPUTS = {
    **{"model": "llama-3.1-70b", "rank": 16, "targets": "all-linear", "slots": 8, "slot_rank": 64, "ranks": 8},
    **{"adapters": 1000, "exponent": 1.0, "waiting": 64, "accelerator_slug": "h100-sxm"},
}


def panel(**changes):
    return json.loads(render("calc.adapters:multi_lora_panel", json.dumps(INPUTS | changes)))


def test_panel_says_what_the_library_says():
    shown = panel()
    texts = {row["label"]: row["text"] for row in shown["rows"]}
    assert texts["One adapter, stored"] == "395 MiB"
    assert texts["Slots reserved, each GPU"] == "5.631 GiB"
    assert shown["ok"] and len(shown["working"]) == 3 and "hold back" in shown["meaning"]


def test_panel_with_slots_for_all_and_with_slots_too_narrow():
    assert "nobody waits" in panel(adapters=8)["meaning"]
    assert "refuse" in panel(rank=128)["meaning"]
    refused = panel(ranks=3)
    assert not refused["ok"] and "3 ranks" in refused["error"]


@pytest.mark.parametrize("name", ["rank", "slots", "slot_rank", "waiting"])
@pytest.mark.parametrize("bad", [0, 1.5])
def test_panel_refuses_in_the_words_of_its_labels(name, bad):
    labels = json.dumps({key: f"The {key}" for key in INPUTS})
    answer = json.loads(render("calc.adapters:multi_lora_panel", json.dumps(INPUTS | {name: bad}), labels))
    assert answer["error"] == f"“The {name}” is {bad}, wanted a whole number above 0"
    assert answer["inputs"] == [name]


def test_a_steep_popularity_is_simulated_although_its_resident_set_never_fills():
    popularity = adapters.zipf(adapters=1000, exponent=8)
    hits = adapters.simulated_hit_ratio(popularity, slots=200, requests=2000)
    assert hits == pytest.approx(adapters.hit_ratio(popularity, slots=200), abs=0.01)
