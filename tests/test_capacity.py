"""Cache budgets against hand-derived values, vLLM's own counts and logs, published logs, and properties."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc import capacity, kv_cache, parameters
from calc.capacity import Arrival, Promises, read_log, reconcile, serve
from calc.models import FixedState, FullAttention, Layer, ModelGeometry, StatePart, WindowAttention, catalogue, load
from calc.panel import render
from calc.parallel import Parallel, split_layers, weights_on_rank
from calc.scheduling import Request, Scheduler, SchedulerConfig
from calc.sources import load_json
from calc.units import CalcError

FIXTURES = Path(__file__).parent / "fixtures"
POOLS = json.loads((FIXTURES / "vllm_0.32.0_pools.json").read_text())
STARTS = load_json("measured", "vllm_0.32.0_startup.json")["starts"]
GIB = 1024**3
DENSE, MIXTURE, LATENT = load("llama-3.1-70b"), load("qwen3-235b-a22b"), load("deepseek-v3")
EIGHT = load("llama-3.1-8b")


def geometry(*layers):
    return ModelGeometry(
        name="made by hand", architecture="llama", hidden=64, vocab=64, layers=layers, tied_embeddings=False
    )


def attention(kv_heads=2, dim=64, window=None):
    sizes = {"query_heads": 4, "kv_heads": kv_heads, "key_dim": dim, "value_dim": dim}
    mixer = FullAttention(**sizes) if window is None else WindowAttention(**sizes, window=window)
    return Layer(mixer=mixer, mlp=None, norms=2)


# --- what a rank holds ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "row", [r for r in POOLS["rows"] if r["parameters"]], ids=lambda r: f"{r['model']}-{r['ranks']}"
)
def test_weights_on_a_rank_equal_vllm(row):
    ours = weights_on_rank(load(row["model"]), Parallel(tensor=row["ranks"])).total
    steering = 60 * 384 if row["model"] == "kimi-k2" else 0  # e_score_correction_bias is a parameter in vLLM alone
    assert ours + steering == row["parameters"]


@pytest.mark.parametrize("slug", catalogue())
def test_one_rank_holds_the_model_and_the_padding_of_its_vocabulary(slug):
    model = load(slug)
    padding = -model.vocab % 64 * model.hidden * (1 if model.tied_embeddings else 2)
    assert weights_on_rank(model, Parallel()).total == parameters.count(model).total + padding


@pytest.mark.parametrize("model", [DENSE, MIXTURE, LATENT], ids=lambda m: m.name)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_stages_together_hold_the_model_once(model, stages):
    parallel = Parallel(pipeline=stages)
    parts = [weights_on_rank(model, parallel, stage=s) for s in range(stages)]
    assert sum(p.total for p in parts) == parameters.count(model).total
    assert [bool(p.embedding) for p in parts] == [s == 0 for s in range(stages)]
    assert [bool(p.lm_head) for p in parts] == [s == stages - 1 for s in range(stages)]


def test_a_tied_matrix_is_on_both_ends():
    tied = load("llama-3.2-1b")
    parts = [weights_on_rank(tied, Parallel(pipeline=4), stage=s) for s in range(4)]
    assert [p.embedding for p in parts] == [128_256 * 2048, 0, 0, 128_256 * 2048]
    assert not any(p.lm_head for p in parts)


def test_replicated_groups_stay_whole_and_the_others_divide():
    one, eight = (weights_on_rank(MIXTURE, Parallel(tensor=t)) for t in (1, 8))
    assert (eight.norms, eight.router) == (one.norms, one.router)
    assert eight.routed_experts * 8 == one.routed_experts
    assert eight.attention * 8 > one.attention  # 4 KV heads on 8 ranks
    latent = (weights_on_rank(LATENT, Parallel(tensor=t)).attention for t in (1, 8))
    whole, share = latent
    copied = 61 * (7168 * (512 + 64) + 7168 * 1536 + 512 + 1536)  # into the latents, and their norms
    assert (whole - copied) == 8 * (share - copied)


def test_whole_experts_and_sliced_experts_weigh_the_same():
    sliced = weights_on_rank(MIXTURE, Parallel(tensor=8))
    whole = weights_on_rank(MIXTURE, Parallel(tensor=8, experts=True))
    assert sliced == whole


def test_data_parallel_attention_is_copied_and_experts_are_not():
    spread = weights_on_rank(LATENT, Parallel(data=8, experts=True))
    one = parameters.count(LATENT)
    assert spread.attention == one.attention and spread.shared_experts == one.shared_experts
    assert spread.routed_experts * 8 == one.routed_experts


def test_experts_that_do_not_divide_go_to_the_first_ranks():
    odd = Parallel(data=3, experts=True)
    held = [weights_on_rank(load("mixtral-8x7b"), odd, expert_rank=r).routed_experts for r in range(3)]
    assert held[0] == held[1] == 3 / 2 * held[2]
    assert sum(held) == parameters.count(load("mixtral-8x7b")).routed_experts


@pytest.mark.parametrize(
    ("model", "parallel", "message"),
    [
        (DENSE, {"tensor": 3}, "64 query heads"),
        (load("gpt-oss-20b"), {"tensor": 16}, "can't run on 16 ranks"),
        (MIXTURE, {"tensor": 1, "data": 7}, "1,536 elements of an expert don't divide among 7 ranks"),
        (load("mixtral-8x7b"), {"data": 16, "experts": True}, "16 ranks can't share 8 experts: use at most 8"),
        (DENSE, {"pipeline": 81}, "80 layers don't make 81 stages"),
        (DENSE, {"pipeline": 2, "layers": (40, 41)}, "wanted 80 in all"),
        (DENSE, {"pipeline": 2, "layers": (80, 0)}, "none empty"),
        (DENSE, {"pipeline": 2, "layers": (80,)}, "wanted one for each of 2"),
        (DENSE, {"tensor": 0}, "tensor is 0, wanted a whole number"),
        (DENSE, {"tensor": 2.0}, "tensor is 2.0"),
        (DENSE, {"data": True}, "data is True"),
    ],
)
def test_impossible_cuts_are_refused_by_name(model, parallel, message):
    with pytest.raises(CalcError, match=message):
        weights_on_rank(model, Parallel(**parallel))


def test_no_such_rank():
    with pytest.raises(CalcError, match="no stage 2"):
        weights_on_rank(DENSE, Parallel(pipeline=2), stage=2)


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [(80, 1, (80,)), (80, 3, (27, 27, 26)), (126, 4, (31, 32, 32, 31)), (61, 2, (31, 30)), (62, 4, (15, 16, 16, 15))],
)
def test_layers_are_split_as_vllm_splits_them(layers, stages, expected):
    assert split_layers(layers, stages) == expected


# --- the pool -------------------------------------------------------------------------------------


def model_of(start):
    """The model of a recorded start; its recurrent layers, if any, from the sizes recorded with it."""
    if "recurrent" not in start:
        return ModelGeometry.from_config(start["config"])
    facts = start["recurrent"]
    state = FixedState(parts=(StatePart(elements=facts["state_bytes"], element_bytes=1),))
    layers = [Layer(mixer=state, mlp=None, norms=1)] * facts["state_layers"]
    return geometry(*layers, *[attention()] * facts["attention_layers"])


def pool_of(start):
    recurrent = start.get("recurrent", {})
    extra = {k: recurrent[k] for k in ("kernel_multiple", "state_blocks") if k in recurrent}
    return capacity.pool(model_of(start), block_tokens=start["block_size"], **extra)


@pytest.mark.parametrize("start", STARTS, ids=lambda s: s["id"])
def test_recorded_starts_print_what_we_compute(start):
    ours = capacity.printed(
        pool_of(start),
        memory_bytes=start["memory_bytes"],
        length=start["max_model_len"],
        in_flight=start["in_flight_tokens"],
    )
    assert ours.blocks == start["num_blocks"]
    assert start["log"][-1] == (
        f"CPU KV cache size: {ours.tokens:,} tokens, Maximum concurrency for {start['max_model_len']:,} tokens per "
        f"request: {ours.concurrency:.2f}x"
    )


@pytest.mark.parametrize("start", [s for s in STARTS if "recurrent" in s], ids=lambda s: s["id"])
def test_a_state_enlarges_the_block_as_the_log_says(start):
    groups = pool_of(start).groups
    assert {g.block_tokens for g in groups if g.kind == "full"} == {start["block_size"]}
    assert f"Setting attention block size to {start['block_size']} tokens" in start["log"][0]
    facts = start["recurrent"]
    padding = 100 * (groups[0].page_bytes[0] / facts["state_bytes"] - 1)
    assert f"by {padding:.2f}%" in start["log"][1]


@pytest.mark.parametrize("row", POOLS["rows"], ids=lambda r: f"{r['model']}-{r['ranks']}-{r['element']}")
def test_pools_equal_what_vllm_allocates(row):
    pool = capacity.pool(load(row["model"]), element=row["element"], ranks=row["ranks"], block_tokens=row["block_size"])
    assert pool.block_bytes() == row["bytes_per_block"]
    assert sorted((len(g.layers), g.block_tokens) for g in pool.groups) == sorted((n, b) for n, b, _ in row["groups"])
    ours = capacity.printed(
        pool, memory_bytes=row["memory"], length=row["length"], in_flight=POOLS["meta"]["in_flight_tokens"]
    )
    assert (ours.blocks, ours.tokens, ours.concurrency) == (row["blocks"], row["tokens"], row["concurrency"])


def test_layers_of_unequal_width_share_a_table_or_a_page():
    full = capacity.pool(geometry(attention(), attention(kv_heads=4)))
    assert len(full.groups) == 1 and full.block_bytes() == 16 * (512 + 1024)
    mixed = capacity.pool(geometry(attention(window=64, kv_heads=4), attention(kv_heads=2)))
    wide, narrow = mixed.groups
    assert (wide.block_tokens, narrow.block_tokens) == (16, 32)  # a narrower layer puts more positions in a page
    padded = capacity.pool(geometry(attention(window=64, kv_heads=4, dim=48), attention(kv_heads=2)))
    assert {g.block_tokens for g in padded.groups} == {16}
    assert padded.block_bytes() == 16 * 4 * 2 * 48 * 2


def test_groups_are_as_large_as_the_rarer_kind_unless_the_two_are_close():
    sizes = {
        (4, 2): [2, 2, 2],
        (5, 4): [5, 4],  # close: vLLM pads the smaller
        (3, 2): [2, 1, 2],
    }
    for (windows, fulls), expected in sizes.items():
        pool = capacity.pool(geometry(*[attention(window=64)] * windows, *[attention()] * fulls))
        assert [len(g.layers) for g in pool.groups] == expected


def test_latent_layers_beside_others_are_refused():
    with pytest.raises(CalcError, match="no common block"):
        capacity.pool(geometry(attention(), Layer(mixer=LATENT.layers[0].mixer, mlp=None, norms=2)))


@given(
    st.sampled_from(["llama-3.1-8b", "gpt-oss-20b", "deepseek-v3", "gemma-2-9b"]),
    st.integers(1, 100_000),
    st.integers(0, 20_000),
)
def test_a_longer_request_never_holds_fewer_blocks(slug, length, in_flight):
    pool = capacity.pool(load(slug))
    now = pool.request_blocks(length=length, in_flight=in_flight)
    assert now <= pool.request_blocks(length=length + 1, in_flight=in_flight)
    assert now <= pool.request_blocks(length=length, in_flight=in_flight + 1)
    if pool.invertible:
        assert now == kv_cache.blocks(positions=length, block_tokens=16)


# --- budgets --------------------------------------------------------------------------------------


def node(model=DENSE, parallel=None, **changed):
    given = {"total_bytes": 80 * GIB, "fraction": 0.9} | changed
    return capacity.plan(model, parallel or Parallel(tensor=8), **given)


def test_a_budget_by_hand():
    (rank, *_) = node(activation_bytes=GIB, graph_bytes=GIB / 2, communication_bytes=GIB).ranks
    assert rank.weight_bytes == 8_820_367_360 * 2
    assert rank.pool_bytes == pytest.approx(72 * GIB - 2 * 8_820_367_360 - 2.5 * GIB, abs=1)
    assert rank.block_bytes == 16 * 40_960
    assert rank.own_blocks == rank.blocks == int(rank.pool_bytes // 655_360)


def test_the_stage_with_more_layers_limits():
    """vllm-project/vllm pull request 25164: 56 and 8 layers, 46,800 tokens against 327,680 on the second rank."""
    model = replace(DENSE, layers=DENSE.layers[:64], vocab=64)
    budget = node(model, Parallel(pipeline=2, layers=(56, 8)), total_bytes=200 * GIB, fraction=1.0)
    first, second = budget.ranks
    assert first.limits and not second.limits
    assert first.block_bytes == 7 * second.block_bytes
    # the issue gives both ranks the same memory for the cache
    equal = [capacity.pool_blocks(pool_bytes=9 * GIB, block_bytes=r.block_bytes) for r in budget.ranks]
    assert equal[1] / equal[0] == pytest.approx(327_680 / 46_800, rel=1e-3)


def test_the_stage_with_the_output_layer_limits():
    budget = node(parallel=Parallel(tensor=4, pipeline=2), logits_bytes=GIB / 4)
    assert budget.limiting.stage == 1
    assert [r.limits for r in budget.ranks] == [False] * 4 + [True] * 4
    assert budget.ranks[0].stranded_bytes > 0.24 * GIB > budget.ranks[4].stranded_bytes


def test_a_rank_with_less_free_memory_limits_all():
    even, uneven = node(), node(taken_bytes={3: 4 * GIB})
    assert uneven.limiting.rank == 3
    assert even.blocks - uneven.blocks == pytest.approx(4 * GIB / 655_360, abs=1)
    assert uneven.stranded_bytes == pytest.approx(7 * 4 * GIB, rel=0.01)


@given(
    st.sampled_from([(1, 1), (2, 2), (4, 2), (8, 1), (2, 4), (1, 8)]),
    st.floats(0.5, 1.0),
    st.dictionaries(st.integers(0, 7), st.floats(0, 4e9), max_size=3),
)
def test_blocks_are_the_minimum_and_memory_is_conserved(cut, fraction, taken):
    tensor, pipeline = cut
    taken = {rank: size for rank, size in taken.items() if rank < tensor * pipeline}
    budget = node(
        load("llama-3.1-8b"), Parallel(tensor=tensor, pipeline=pipeline), fraction=fraction, taken_bytes=taken
    )
    assert budget.blocks == min(r.own_blocks for r in budget.ranks)
    for r in budget.ranks:
        used = r.weight_bytes + r.activation_bytes + r.graph_bytes + r.communication_bytes
        assert used + r.blocks * r.block_bytes + r.stranded_bytes == pytest.approx(r.usable_bytes)
        assert r.stranded_bytes >= 0
        if r.limits:
            assert r.stranded_bytes < r.block_bytes
    assert budget.limiting.limits


def test_more_fraction_never_holds_less():
    held = [node(fraction=f / 100).blocks for f in range(30, 101, 5)]
    assert held == sorted(held)


def test_replicas_add_up_and_a_latent_gains_eightfold():
    together = node(LATENT, Parallel(tensor=8, experts=True), total_bytes=140 * GIB, weight_element_bytes=1)
    apart = node(LATENT, Parallel(data=8, experts=True), total_bytes=140 * GIB, weight_element_bytes=1)
    assert apart.tokens(length=4096) == 8 * (apart.blocks * 4096 // 256)
    # eight caches instead of one, each a little smaller: every rank now has all of the attention's weights
    smaller = apart.ranks[0].pool_bytes / together.ranks[0].pool_bytes
    assert apart.tokens(length=4096) / together.tokens(length=4096) == pytest.approx(8 * smaller, rel=1e-3)
    assert 5 < 8 * smaller < 8


def test_requests_of_windowed_models_cost_less_than_pages_for_every_layer():
    oss = node(load("gpt-oss-20b"), Parallel(tensor=2))
    assert oss.requests(length=8192) == oss.blocks // (512 + 9)
    assert oss.tokens(length=131_072) > oss.tokens(length=1024)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"fraction": 0}, "fraction is 0, wanted above 0"),
        ({"fraction": 1.2}, "at most 1"),
        ({"fraction": 0.2}, "TP 8: rank 0 may use 16 GiB, and weights and workspace take 16.43 GiB, so no room"),
        ({"parallel": Parallel(tensor=2, pipeline=4), "fraction": 0.2}, "rank 0 of stage 1"),
        ({"taken_bytes": {8: 1}}, "names rank 8: the ranks are 0 to 7"),
        ({"element": "fp7"}, "unknown cache element"),
        ({"activation_bytes": -1}, "activation_bytes is -1"),
        ({"total_bytes": float("nan")}, "total_bytes is nan"),
    ],
)
def test_impossible_budgets_are_refused(changed, message):
    with pytest.raises(CalcError, match=message):
        node(**changed)


def test_how_a_cut_is_named():
    assert str(Parallel()) == "one GPU"
    assert str(Parallel(data=2, tensor=4, experts=True)) == "DP 2 × TP 4 + EP"
    assert Parallel(data=2, tensor=4, pipeline=3).gpus == 24


# --- what engines mean by their setting -----------------------------------------------------------

CARD = {"total_bytes": 79.1 * GIB, "weight_bytes": 54 * GIB, "activation_bytes": 3 * GIB}
CARD |= {"graph_bytes": 0, "communication_bytes": 0}


@pytest.mark.parametrize(
    ("engine", "fraction", "expected"),
    [
        ("vllm", 0.9, 0.9 * 79.1 - 57),
        ("sglang", 0.93, 0.93 * 79.1 - 54),
        ("tensorrt-llm", 0.95, 0.95 * (79.1 - 57)),
        ("lmdeploy", None, 0.8 * (79.1 - 54)),
        ("tgi", None, 0.9 * 79.1 - 57),
        ("llama.cpp", None, 79.1 - 1 - 57),
    ],
)
def test_the_same_card_in_six_engines(engine, fraction, expected):
    assert capacity.engine_pool_bytes(engine, fraction=fraction, **CARD) == pytest.approx(expected * GIB)


def test_every_setting_is_described_and_sourced():
    assert len(capacity.engines()) == 6
    for slug in capacity.engines():
        setting = capacity.memory_setting(slug)
        assert setting.share_of and setting.outside and setting.source and setting.url.startswith("https://")
        assert setting.checked


@pytest.mark.parametrize(
    ("engine", "fraction", "message"),
    [("vlm", 0.9, "did you mean vllm"), ("sglang", None, "give fraction"), ("vllm", 1.5, "at most 1")],
)
def test_engine_settings_are_checked(engine, fraction, message):
    with pytest.raises(CalcError, match=message):
        capacity.engine_pool_bytes(engine, fraction=fraction, **CARD)


# --- logs -----------------------------------------------------------------------------------------

L40S = """INFO 04-24 16:33:00 [gpu_model_runner.py:1316] Model loading took 14.9889 GiB and 3.652170 seconds
INFO 04-24 16:33:13 [kv_cache_utils.py:634] GPU KV cache size: 158,656 tokens
INFO 04-24 16:33:13 [kv_cache_utils.py:637] Maximum concurrency for 32,768 tokens per request: 4.84x"""
PROFILE = """INFO 12-13 19:54:18 worker.py:243] total_gpu_memory     79.22GiB
INFO 12-13 19:54:18 worker.py:243] gpu_memory_utilization       0.90
INFO 12-13 19:54:18 worker.py:243] the current vLLM instance can use    71.29GiB
INFO 12-13 19:54:18 worker.py:243] model weights take   14.96GiB
INFO 12-13 19:54:18 worker.py:243] non_torch_memory     1.79GiB
INFO 12-13 19:54:18 worker.py:243] PyTorch activation peak memory       1.26GiB
INFO 12-13 19:54:18 worker.py:243] available_kv_cache_memory    53.29GiB"""


def test_a_log_of_2025():
    """vllm-project/vllm pull request 17122."""
    log = read_log(L40S)
    assert [f.name for f in log.facts] == ["weights", "tokens", "length", "concurrency"]
    found = reconcile(log, model=EIGHT, total_bytes=44.31 * GIB, fraction=0.9)
    assert found.verdict("weights") == "agrees"
    assert found.residual_bytes / GIB == pytest.approx(44.31 * 0.9 - 14.9889 - 158_656 * 131_072 / GIB)


def test_a_log_with_its_whole_budget():
    """vllm-project/vllm pull request 10511."""
    found = reconcile(read_log(PROFILE), model=EIGHT)
    verdicts = {c.name: c.verdict for c in found.checks}
    assert verdicts == {"may use": "agrees", "weights": "agrees", "left for the cache": "agrees", "blocks": "derived"}
    wrong = reconcile(read_log(PROFILE.replace("53.29", "54.29")), model=EIGHT)
    assert wrong.verdict("left for the cache") == "differs"
    assert reconcile(read_log(PROFILE), model=load("llama-2-7b")).verdict("weights") == "differs"


def test_a_log_of_2026_with_several_ranks():
    text = """(Worker_PP0_TP0 pid=1) INFO Model loading took 8.0 GiB memory and 1.0 seconds
(Worker_PP1_TP0 pid=2) INFO Model loading took 9.0 GiB memory and 1.0 seconds
(Worker_PP0_TP0 pid=1) INFO Available KV cache memory: 5.0 GiB
(Worker_PP1_TP0 pid=2) INFO Available KV cache memory: 1.95 GiB
(Worker_PP1_TP0 pid=2) INFO Free memory on device (22.93/23.56 GiB) on startup. Desired GPU memory utilization is \
(0.935, 22.03 GiB). Actual usage is 19.47 GiB for consumed memory (weights + non-torch), 0.6 GiB for peak activation, \
and 0.1 GiB for CUDAGraph memory."""
    log = read_log(text)
    assert log.get("available").value == 1.95 * GIB
    assert log.get("weights").value == 9 * GIB  # of the rank with the least cache
    assert {f.name for f in log.facts} >= {"total", "fraction", "requested", "consumed", "activation"}
    found = reconcile(log, model=EIGHT)
    assert found.verdict("may use") == "agrees" and found.verdict("left for the cache") == "agrees"


@pytest.mark.parametrize("start", [s for s in STARTS if "recurrent" not in s], ids=lambda s: s["id"])
def test_recorded_starts_reconcile(start):
    gib = start["memory_bytes"] / GIB
    log = read_log("\n".join([f"Available KV cache memory: {gib:.2f} GiB", *start["log"]]))
    model = model_of(start)
    found = reconcile(log, model=model, block_tokens=start["block_size"], in_flight=start["in_flight_tokens"])
    assert found.verdict("cache size, tokens") == "agrees"
    assert found.verdict("maximum concurrency") == "derived"
    derived = found.verdict("the printed size") == "derived"
    assert derived == (found.bytes_per_token is None) == any(isinstance(m, WindowAttention) for m, _ in model.kinds())
    if not derived:
        assert found.verdict("bytes per token") == "agrees"


def test_the_printed_size_of_windows_moves_with_the_length_and_the_step():
    pool = capacity.pool(load("gpt-oss-20b"))
    sizes = {
        capacity.printed(pool, memory_bytes=10 * GIB, length=length, in_flight=flight).tokens
        for length in (8192, 131_072)
        for flight in (2048, 16_384)
    }
    assert len(sizes) == 4 and not pool.invertible


def test_tokens_that_fit_no_memory_are_called_out():
    """vllm-project/vllm issue 21348: 1.1% fewer tokens than its memory holds."""
    text = "Available KV cache memory: 8.11 GiB\nGPU KV cache size: 178,880 tokens"
    found = reconcile(read_log(text), model=MIXTURE, parallel=Parallel(tensor=4))
    (check,) = [c for c in found.checks if c.name == "cache size, tokens"]
    assert check.verdict == "differs" and "another rank has less memory" in check.note


def test_the_element_of_a_cache_can_be_read_off():
    text = "Available KV cache memory: 10.55 GiB\nGPU KV cache size: 230,528 tokens"  # vllm issue 25350
    assert capacity.log_element(read_log(text), load("qwen3-30b-a3b")) == "fp8"
    with pytest.raises(CalcError, match="don't keep every position"):
        capacity.log_element(read_log(text), load("gpt-oss-20b"))
    with pytest.raises(CalcError, match="fits no known element"):
        capacity.log_element(read_log(text), DENSE)
    with pytest.raises(CalcError, match="must print"):
        capacity.log_element(read_log("GPU KV cache size: 1 tokens"), DENSE)


@pytest.mark.parametrize("start", [s for s in STARTS if "recurrent" not in s], ids=lambda s: s["id"])
def test_memory_over_tokens_is_turned_back_by_the_length_over_its_blocks(start):
    """Whole blocks or not: the quotient times length / positions of its blocks is one position, to a block of 3,000."""
    model, length = model_of(start), start["max_model_len"]
    pool = capacity.pool(model, block_tokens=start["block_size"])
    if not pool.invertible:
        return
    tokens = read_log("\n".join(start["log"])).get("tokens").value
    whole = start["block_size"] * kv_cache.blocks(positions=length, block_tokens=start["block_size"])
    one = kv_cache.layout(model).bytes_per_position
    assert start["memory_bytes"] / tokens * length / whole == pytest.approx(one, rel=1 / 3000)
    assert (start["memory_bytes"] / tokens == pytest.approx(one, rel=1 / 3000)) == (whole == length)


def test_concurrency_follows_from_the_printed_blocks_and_is_a_span_without_them():
    """vLLM 10517: 1,952 blocks of 16 over 1,250 for 20,000 tokens; 3.81 GiB alone allow 1,948 to 1,953."""
    lines = [
        "kv_cache_size=3.81GiB",
        "# GPU blocks: 1952, # CPU blocks: 2048",
        "Maximum concurrency for 20000 tokens per request: 1.56x",
    ]
    for text, expected in ((lines, "1.562×"), ([lines[0], lines[2]], "1.558× to 1.562×")):
        found = reconcile(read_log("\n".join(text)), model=EIGHT)
        (check,) = [check for check in found.checks if check.name == "maximum concurrency"]
        assert (check.computed, check.verdict) == (expected, "derived")
    wrong = reconcile(read_log("\n".join(lines).replace("1.56x", "1.60x")), model=EIGHT)
    assert wrong.verdict("maximum concurrency") == "differs"


def test_a_log_says_how_the_model_was_cut():
    text = "config: tensor_parallel_size=4, pipeline_parallel_size=2\nAvailable KV cache memory: 50.00 GiB"
    (blocks,) = reconcile(read_log(text), model=DENSE).checks
    assert "640 KiB a block" in blocks.note


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no line of a vLLM start-up log"),
        ("hello\n" * 1000, "no line of a vLLM start-up log"),
        (None, "a log is text, not NoneType"),
        (b"GPU KV cache size: 1 tokens", "not bytes"),
        ("x" * 2_000_001, "2,000,001 characters are no start-up log"),
        (
            "GPU KV cache size: 999999999999999 tokens\nAvailable KV cache memory: 999999999 GiB",
            "too large to be meant",
        ),
        (
            "GPU KV cache size: 10 tokens\nGPU KV cache size: 20 tokens",
            "gives tokens as 10 and 20: paste the lines of one",
        ),
    ],
)
def test_what_is_no_log_is_refused(text, message):
    with pytest.raises(CalcError, match=message):
        read_log(text)


HOSTILE = (
    *("(Worker" + "A" * 10_000, "total_gpu_memory " + " " * 10_000, "1," * 20_000 + " GiB", "\x1b[" * 20_000),
    *("gpu_memory_utilization =" * 5000, "Available KV cache memory: " + "9" * 10_000 + " GiB", "\x00" * 5000),
    *("KV cache size: <script>alert(1)</script> tokens", "Model loading took -5 GiB", "# GPU blocks: 1e9"),
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_lines_are_passed_over(text):
    log = read_log(text + "\n" + L40S)
    assert {f.line for f in log.facts} <= {2, 3, 4}
    assert "<script" not in reconcile(log, model=EIGHT)._repr_html_()


@given(st.text(max_size=400))
def test_any_text_is_read_or_refused(text):
    try:
        found = reconcile(read_log(text + "\nAvailable KV cache memory: 10.00 GiB"), model=EIGHT)
    except CalcError:
        return
    assert found.checks


# --- admission ------------------------------------------------------------------------------------


def arrivals(seed, requests=20, prompt=48, limit=96, spread=2):
    rng = random.Random(seed)
    steps = sorted(rng.randrange(requests * spread) for _ in range(requests))
    return [
        Arrival(step, Request(i, prompt=rng.randint(1, prompt), output=rng.randint(1, limit)), limit)
        for i, step in enumerate(steps)
    ]


def run(blocks, queue, rule):
    engine = Scheduler(SchedulerConfig(blocks=blocks + 1, token_budget=4096))
    return serve(engine, queue, rule=Promises(blocks, block_tokens=16) if rule else None)


@given(st.integers(0, 10_000), st.integers(9, 120))
def test_with_room_to_finish_nobody_is_ever_preempted(seed, blocks):
    queue = arrivals(seed)
    served = run(blocks, queue, rule=True)
    assert served.preemptions == served.recomputed == 0
    assert max(served.stalls.values()) == 1
    assert served.peak <= blocks
    assert served.computed == sum(a.request.prompt_tokens + a.request.output - 1 for a in queue)


@given(st.integers(0, 10_000), st.integers(9, 120))
def test_both_rules_serve_everybody_and_account_for_every_token(seed, blocks):
    queue = arrivals(seed)
    useful = sum(a.request.prompt_tokens + a.request.output - 1 for a in queue)
    for rule in (True, False):
        served = run(blocks, queue, rule)
        assert set(served.finished) == set(served.first) == {a.request.name for a in queue}
        assert served.computed - served.recomputed == useful
        assert served.steps == len(served.held) == len(served.running) == max(served.finished.values()) + 1
        assert all(served.first[a.request.name] >= a.step for a in queue)


def test_the_cliff_is_at_the_peak_of_what_requests_hold():
    queue = arrivals(3)
    peak = run(10_000, queue, rule=False).peak
    assert run(peak, queue, rule=False).preemptions == 0
    below = [run(int(peak * share), queue, rule=False) for share in (0.9, 0.7, 0.5)]
    assert all(served.preemptions > 0 for served in below)
    assert max(max(served.stalls.values()) for served in below) > 1


def test_a_rule_refuses_what_it_cannot_promise():
    rule = Promises(10, block_tokens=16)
    assert rule.admit("a", prompt=100, limit=10)
    with pytest.raises(CalcError, match="'a' is in already"):
        rule.admit("a", prompt=1, limit=1)
    with pytest.raises(CalcError, match="may need 11 blocks, the pool has 10: it never fits"):
        rule.admit("b", prompt=160, limit=2)
    for blocks in (0, -1, 2.5, True):
        with pytest.raises(CalcError, match="blocks is"):
            Promises(blocks, block_tokens=16)
    with pytest.raises(CalcError, match="it never fits"):
        run(5, [Arrival(0, Request("x", 100, 1), limit=1)], rule=True)


# --- odd pastes and empty plans -------------------------------------------------------------------


def test_a_pasted_list_may_have_lost_its_number_sign():
    """Markdown turns "# GPU blocks" into a heading."""
    assert read_log("GPU blocks: 1952, # CPU blocks: 2048").get("blocks").value == 1952


def test_a_log_of_an_empty_cache_is_no_division_by_zero():
    log = read_log(
        "Available KV cache memory: 0.00 GiB\nGPU KV cache size: 0 tokens\n"
        "Maximum concurrency for 131,072 tokens per request: 0.00x"
    )
    found = reconcile(log, model=load("llama-3.1-8b"))
    assert found.bytes_per_token is None and found.verdict("maximum concurrency") == "derived"


def test_a_longest_sequence_of_nothing_is_refused():
    with pytest.raises(CalcError, match="longest sequence of 0 tokens"):
        read_log("GPU KV cache size: 64 tokens\nMaximum concurrency for 0 tokens per request: 1.00x")


PANEL = {
    **{"model": "llama-3.1-70b", "accelerator": "l40s", "tensor": 2, "pipeline": 2, "percent": 92, "weights": "bf16"},
    **{"element": "bf16", "workspace_gib": 1, "sequences": 1024, "prompt": 2048, "output": 1024},
}


@pytest.mark.parametrize(("prompt", "output", "says"), [(131_072, 1, "Not one"), (65_536, 32_768, "none are sure")])
def test_the_panel_says_when_nothing_fits(prompt, output, says):
    assert says in capacity.capacity_panel(**PANEL | {"prompt": prompt, "output": output}).meaning


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"percent": 0}, "“Percent” is 0, wanted above 0 and at most 100"),
        ({"percent": 101}, "“Percent” is 101, wanted above 0 and at most 100"),
        ({"weights": "fp7"}, "“Weights” is 'fp7', wanted one of bf16, fp8, int4"),
        ({"sequences": 1.5}, "“Sequences” is 1.5, wanted a whole number of at least 0"),
        ({"prompt": 0}, "“Prompt” is 0, wanted a whole number above 0"),
        ({"output": 0}, "“Output” is 0, wanted a whole number above 0"),
    ],
)
def test_the_panel_refuses_in_the_words_of_its_labels(changes, error):
    labels = json.dumps({name: name.capitalize() for name in PANEL})
    answer = json.loads(render("calc.capacity:capacity_panel", json.dumps(PANEL | changes), labels))
    assert (answer["error"], answer["inputs"]) == (error, list(changes))
