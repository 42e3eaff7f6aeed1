"""Real lines of vLLM's start-up logs, from 2023 to 2026: what `explain_log` makes of them."""

import pytest

from calc import capacity
from calc.capacity import read_log, reconcile
from calc.models import load
from calc.units import CalcError
from calc.worksheet import explain_log

GIB = 1024**3


def checks(text, **given):
    return {c.name: c for c in explain_log(text, **given).checks}


def verdicts(text, **given):
    return {name: check.verdict for name, check in checks(text, **given).items()}


# --- the cache size before vLLM 0.21 --------------------------------------------------------------

# vllm-project/vllm issue 40691: v0.19.0, Qwen3.5-27B, --max-model-len 32768
QWEN35 = """INFO [kv_cache_utils.py:1319] GPU KV cache size: 290,864 tokens
INFO [kv_cache_utils.py:1324] Maximum concurrency for 32,768 tokens per request: 33.04x"""


def test_a_hybrid_s_log_before_0_21_is_read_by_its_own_rule():
    """42 blocks of 784 positions and one in each of 3 groups of states: 1,487 / 45, and 1,487 // 4 times 784."""
    found = checks(QWEN35, model="qwen3.5-27b")
    check = found["maximum concurrency"]
    assert (check.verdict, check.computed) == ("agrees", "32.98× to 33.04×")
    assert "the 45 of the longest sequence" in check.note and "prefix caching off" in check.note
    assert "no capacity" in found["the printed size"].note and "1,082,655" in found["the printed size"].note
    assert "differs" not in verdicts(QWEN35, model="qwen3.5-27b").values()
    on = verdicts(QWEN35, model="qwen3.5-27b", prefix_caching=True)
    assert on["maximum concurrency"] == "differs"  # 48 blocks
    assert verdicts(QWEN35.replace("33.04x", "34.04x"), model="qwen3.5-27b")["maximum concurrency"] == "differs"


def test_memory_and_both_rules_are_checked_each():
    """gpt-oss-20b in 10 GiB: 27,306 blocks of 384 KiB, 2 groups; 8,713 blocks a sequence with 8,192 tokens a step."""
    lines = [
        "Available KV cache memory: 10.00 GiB",
        "max_num_batched_tokens=8192",
        "GPU KV cache size: 218,448 tokens",
        "Maximum concurrency for 131,072 tokens per request: 3.13x",
    ]
    found = checks("\n".join(lines), model="gpt-oss-20b")
    assert found["cache size, tokens"].verdict == found["maximum concurrency"].verdict == "agrees"
    assert "before 0.21" in found["cache size, tokens"].note
    unsaid = verdicts("\n".join([lines[0], *lines[2:]]), model="gpt-oss-20b")
    assert unsaid["maximum concurrency"] == "derived"  # the log doesn't say how many tokens are in flight
    assert verdicts("\n".join([lines[0], lines[2]]), model="gpt-oss-20b")["cache size, tokens"] == "agrees"
    fewer = "\n".join(lines).replace("218,448", "200,000")
    assert "another rank" not in checks(fewer, model="gpt-oss-20b")["cache size, tokens"].note
    assert verdicts(fewer, model="gpt-oss-20b")["cache size, tokens"] == "differs"


def test_another_rank_is_offered_only_where_there_is_one():
    """vllm-project/vllm issue 21348, whose 4 ranks are left out here."""
    text = "Available KV cache memory: 8.11 GiB\nGPU KV cache size: 178,880 tokens"
    four, one = (checks(text, model="qwen3-235b-a22b", tensor=n)["cache size, tokens"].note for n in (4, 1))
    assert "another rank has less memory" in four and "another rank" not in one


@pytest.mark.parametrize("rule", ["older", "newer"])
def test_what_cache_size_means_is_said_by_the_rule_of_the_log(rule):
    text = QWEN35 if rule == "older" else QWEN35.replace("290,864", "1,082,800")
    line = next(x for x in explain_log(text).lines if x.name == "tokens")
    assert ("no capacity" in line.meaning) == (rule == "older") == read_log(text).older


def test_a_longest_sequence_that_ends_inside_a_block_is_no_false_alarm():
    """By the rule before 0.21, Llama-3.1-8B: 1,250 blocks of 16; 5,000 tokens take 313 of them."""
    text = "GPU KV cache size: 20,000 tokens\nMaximum concurrency for 5,000 tokens per request: 3.99x"
    assert verdicts(text, model="llama-3.1-8b")["maximum concurrency"] == "agrees"


def test_windows_that_keep_every_position_are_recognized():
    """Before its hybrid manager vLLM gave window layers pages for every position (pull request 19029)."""
    blocks = 30 * GIB // (62 * 16 * 2 * 16 * 128 * 2)
    text = f"""Available KV cache memory: 30.00 GiB
GPU KV cache size: {blocks * 16:,} tokens
Maximum concurrency for 32,768 tokens per request: {blocks * 16 / 32_768:.2f}x"""
    found = checks(text, model="gemma-3-27b")
    assert found["cache size, tokens"].verdict == found["bytes per token"].verdict == "agrees"
    assert "keep every position" in found["cache size, tokens"].note


# --- one line for every rank ----------------------------------------------------------------------

# vllm-project/vllm issue 15928: three of 8 tensor-parallel ranks of v0.8; the length of 16,384 is ours
RANKS = """GPU KV cache size: 107,824 tokens
Maximum concurrency for 16,384 tokens per request: 6.58x
GPU KV cache size: 107,312 tokens
Maximum concurrency for 16,384 tokens per request: 6.55x
GPU KV cache size: 107,456 tokens
Maximum concurrency for 16,384 tokens per request: 6.56x"""


def test_of_sizes_printed_for_every_rank_the_least_counts():
    log = read_log(RANKS)
    assert (log.get("tokens").value, log.get("concurrency").value) == (107_312, 6.55)
    check = checks(RANKS, model="llama-3.1-70b", tensor=8)["maximum concurrency"]
    assert check.verdict == "derived" and "the rank with the least" in check.note
    two = "tensor_parallel_size=16\nGPU KV cache size: 335,360 tokens\nGPU KV cache size: 335,168 tokens"  # v0.8.4
    assert read_log(two).get("tokens").value == 335_168


@pytest.mark.parametrize(
    "text",
    [
        "tensor_parallel_size=1, pipeline_parallel_size=1\n" + RANKS,
        "tensor_parallel_size=2\n" + RANKS,  # three sizes
        RANKS.replace("107,312", "80,000"),
        RANKS.replace("16,384 tokens per request: 6.55x", "8,192 tokens per request: 13.1x"),
        "(EngineCore_DP0 pid=1) GPU KV cache size: 1,008 tokens\n(EngineCore_DP1 pid=2) GPU KV cache size: 992 tokens",
    ],
)
def test_several_starts_or_engines_are_still_refused(text):
    with pytest.raises(CalcError, match="paste the lines of one engine and one start"):
        read_log(text)


# --- starts that fail -----------------------------------------------------------------------------

# vllm-project/vllm issue 34076: v0.15, Qwen3-Coder-30B-A3B over two stages
TOO_LONG = (
    "(EngineCore_DP0 pid=1094) ValueError: To serve at least one request with the models's max seq len (262144), "
    "(24.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.18 GiB). Based on the "
    "available memory, the estimated maximum model length is 34736. Try increasing `gpu_memory_utilization` or "
    "decreasing `max_model_len` when initializing the engine."
)


@pytest.mark.parametrize("pipeline", [1, 2])
def test_a_start_with_too_long_a_sequence_is_explained(pipeline):
    """96 KiB a position: 48 layers, keys and values of 4 heads of 128 in 2 bytes."""
    lines = {x.name: x for x in explain_log(TOO_LONG).lines}
    assert {"needed", "available", "estimated", "length"} == set(lines)
    assert lines["needed"].value == 24 * GIB and "didn't start" in lines["needed"].meaning
    found = checks(TOO_LONG, model="qwen3-30b-a3b", pipeline=pipeline)
    assert found["one longest sequence"].verdict == found["longest that fits"].verdict == "agrees"
    assert ("all layers" in found["one longest sequence"].note) == (pipeline == 2)
    note = found["to start"].note
    for way in ("at most 34,736", "fp8 cache", "12 GiB, still more", "more ranks", "20.82 GiB more for the cache"):
        assert way in note
    again = TOO_LONG + "\nAvailable KV cache memory: 3.18 GiB"
    assert verdicts(again, model="qwen3-30b-a3b")["one longest sequence"] == "agrees"
    other = checks(TOO_LONG, model="qwen3-30b-a3b", cache="fp8")["one longest sequence"]
    assert other.verdict == "differs" and "2× apart" in other.note


def test_a_need_in_fp8_is_held_against_an_fp8_cache():
    """vllm-project/vllm issue 25350."""
    text = TOO_LONG.replace("262144", "221000").replace("24.0", "10.12").replace("3.18", "5.59")
    text = text.replace("34736", "122080")
    found = checks(text, model="qwen3-30b-a3b", cache="fp8", total_bytes=48 * GIB, memory_fraction=0.85)
    assert found["one longest sequence"].verdict == found["longest that fits"].verdict == "agrees"
    assert "fp8" not in found["to start"].note
    assert "gpu_memory_utilization of 0.95 in place of 0.85" in found["to start"].note


def test_a_failed_start_before_v1_is_explained():
    """vllm-project/vllm issue 2418: 229 blocks of 16; and issue 10517, with all its lines."""
    error = "ValueError: The model's max seq len (4096) is larger than the maximum number of tokens that can be stored"
    error += " in KV cache (3664). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`"
    assert {x.name for x in explain_log(error).lines} == {"length", "stored"}
    found = checks("# GPU blocks: 229, # CPU blocks: 512\n" + error, model="llama-2-7b")
    assert found["cache size, tokens"].verdict == "agrees"
    assert found["one longest sequence"].computed == "2 GiB" and "at most 3,664" in found["to start"].note
    whole = """Loading model weights took 14.9888 GB
Memory profiling results: total_gpu_memory=23.58GiB initial_memory_usage=15.34GiB peak_torch_memory=17.98GiB \
memory_usage_post_profile=15.35GiB non_torch_memory=0.35GiB kv_cache_size=2.89GiB gpu_memory_utilization=0.90
# GPU blocks: 1478, # CPU blocks: 2048
Maximum concurrency for 29000 tokens per request: 0.82x
The model's max seq len (29000) is larger than the maximum number of tokens that can be stored in KV cache (23648)."""
    found = checks(whole, model="llama-3.1-8b")
    assert "differs" not in {c.verdict for c in found.values()}
    assert found["cache size, tokens"].verdict == found["left for the cache"].verdict == "agrees"
    assert "which fits" in found["to start"].note  # 3.541 GiB, in fp8 half of it


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Available KV cache memory: -3.18 GiB", "−3.18 GiB"),
        ("ValueError: No available memory for the cache blocks. Try increasing", "nothing left"),
    ],
)
def test_a_start_that_leaves_nothing_is_explained(text, shown):
    assert [x.text for x in explain_log(text).lines] == [shown]
    note = checks(text, model="qwen3-30b-a3b")["to start"].note
    assert "leave nothing" in note and "weights in fewer bits" in note and "max_model_len" not in note


def test_a_gpu_that_is_taken_is_explained():
    """vLLM's `request_memory`, on a card of 4 GiB."""
    text = (
        "Free memory on device cuda:0 (3.21/4.0 GiB) on startup is less than desired GPU memory utilization "
        "(0.85, 3.4 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    assert {x.name for x in explain_log(text).lines} == {"total", "fraction", "requested", "free"}
    found = checks(text, model="qwen3-0.6b")
    assert found["may use"].verdict == "agrees" and found["to start"].computed == "0.80"


def test_a_start_that_comes_up_is_told_nothing_to_change():
    assert "to start" not in checks(QWEN35, model="qwen3.5-27b")


# --- what the profile found -----------------------------------------------------------------------


def test_the_profile_s_sum_of_2025_is_read_whole():
    """vLLM 0.11: 14.99 + 8.88 + 0.04 + 47.36 = 71.27; graphs are captured outside of it. The card's line is ours."""
    text = (
        "Available KV cache memory: 47.36 GiB\nFree memory on device (78.7/79.19 GiB) on startup. Desired GPU memory "
        "utilization is (0.9, 71.27 GiB). Actual usage is 14.99 GiB for weight, 8.88 GiB for peak activation, 0.04 GiB "
        "for non-torch memory, and 0.57 GiB for CUDAGraph memory."
    )
    names = {x.name for x in explain_log(text).lines}
    assert names >= {"weights", "activation", "outside", "captured"}
    found = checks(text, model="llama-3.1-8b")
    assert found["left for the cache"].verdict == "agrees" and "unexplained" not in found
    assert verdicts(text.replace("47.36", "46.36"), model="llama-3.1-8b")["left for the cache"] == "differs"


def test_the_profile_s_own_line_is_read():
    """A start of September 2025 at debug level: 18.82 − 10.22 GiB."""
    text = """Initial free memory: 23.08 GiB; Requested memory: 0.80 (util), 18.82 GiB
Memory profiling takes 14.40 seconds. Total non KV cache memory: 10.22GiB; torch peak memory increase: 1.40GiB; \
non-torch forward increase memory: 0.02GiB; weights memory: 8.80GiB.
Available KV cache memory: 8.60 GiB"""
    values = {x.name: round(x.value / GIB, 2) for x in explain_log(text).lines}
    assert {name: values[name] for name in ("profiled", "activation", "outside", "weights")} == {
        "profiled": 10.22,
        "activation": 1.4,
        "outside": 0.02,
        "weights": 8.8,
    }
    assert verdicts(text, model="llama-3.1-8b")["left for the cache"] == "agrees"


def test_the_lines_of_ascend_and_of_other_versions_are_read():
    """vllm-project/vllm-ascend pull request 8289; and a GLM-5.3-Flash of 2026 whose memory is said to be in use."""
    text = (
        "Free memory on device (60.86/61.27 GiB) on startup. Desired GPU memory utilization is (0.9, 55.14 GiB). "
        "Actual usage: 1.14 GiB for weights, 0.22 GiB for peak activation, 0.13 GiB for non-torch memory, 0.04 GiB for "
        "NPU graph memory. Replace gpu_memory_utilization with `--kv-cache-memory=57403864576` (53.46 GiB)"
    )
    values = {x.name: round(x.value / GIB, 2) for x in explain_log(text).lines if x.name != "fraction"}
    assert values == {
        "total": 61.27,
        "requested": 55.14,
        "weights": 1.14,
        "activation": 0.22,
        "outside": 0.13,
        "captured": 0.04,
    }
    used = (
        "Free memory on device (137.64/139.8 GiB) on startup. Desired GPU memory utilization is (0.9, 125.82 GiB). "
        "Actual usage is 39.98 GiB for consumed memory (weights + non-torch), 4.04 GiB for peak activation, and 1.2 "
        "GiB for CUDAGraph memory. Current kv cache memory in use is 81.79 GiB."
    )
    log = read_log(used)
    assert log.get("available").value == 81.79 * GIB
    found = reconcile(log, model=load("llama-3.1-8b"))
    assert found.verdict("left for the cache") == "agrees"


def test_graphs_that_are_set_aside_beforehand_are_deducted():
    """From vLLM 0.21 on; before, and where that is turned off, they are estimated and not deducted."""
    lines = "Requested memory: 0.90 (util), 18.00 GiB\nEstimated CUDA graph memory: 0.36 GiB total\n"
    lines += "Total non KV cache memory: 10.00GiB; torch peak memory increase: 1.00GiB\nAvailable KV cache memory: "
    for left, verdict in (("7.64", "agrees"), ("8.00", "agrees"), ("7.80", "differs")):
        assert verdicts(f"{lines}{left} GiB", model="llama-3.1-8b")["left for the cache"] == verdict


def test_blocks_alone_give_memory_and_tokens():
    """vllm-project/vllm issue 2418."""
    found = checks("# GPU blocks: 229, # CPU blocks: 512", model="llama-2-7b")
    assert found["memory of the blocks"].computed == "1.789 GiB"
    assert found["cache size, tokens"].computed == "3,664"


# --- at the door ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["80GB", -5, 0, True, float("nan"), [1]])
@pytest.mark.parametrize("model", [None, "llama-2-7b"])
def test_a_memory_that_is_none_is_refused_by_its_name(value, model):
    with pytest.raises(CalcError, match="total_bytes is .*, wanted a number in byte above 0"):
        explain_log("# GPU blocks: 229", model=model, total_bytes=value)


def test_a_memory_may_be_a_quantity():
    pint = pytest.importorskip("pint")
    given = pint.get_application_registry().Quantity(80, "GiB")
    text = "Available KV cache memory: 47.36 GiB\nModel loading took 14.99 GiB"
    found = checks(text, model="llama-3.1-8b", total_bytes=given, memory_fraction=0.9)
    assert found["may use"].computed == "80 GiB · 0.9 = 72 GiB"
    assert capacity.reconcile(read_log(text), model=load("llama-3.1-8b")).verdict("may use") is None
