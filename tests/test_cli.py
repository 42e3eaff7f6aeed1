"""The command line: every command, its JSON, its exit codes, and what somebody hostile might feed it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from calc.cli import main
from calc.latency import measure, read_result
from calc.models import catalogue
from calc.units import CalcError
from calc.worksheet import size

ROOT = Path(__file__).parent.parent
LATENCY = ROOT / "tests" / "fixtures" / "latency"
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "vocab_size": 128256,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LOG = """Model loading took 14.9889 GiB and 3.652170 seconds
GPU KV cache size: 158,656 tokens
Maximum concurrency for 32,768 tokens per request: 4.84x
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


@pytest.fixture
def run(capsys):
    def call(*arguments):
        code = main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def refused(result, *words):
    """Exit code 2, nothing printed, and one line that a reader can act on."""
    code, out, err = result
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1 and err.startswith("calc: ") and len(err) < 700
    assert "Traceback" not in err
    assert all(c.isprintable() for c in err.rstrip("\n"))
    for word in words:
        assert word in err


# --- size ------------------------------------------------------------------------------------------------------


def test_size_prints_a_table(run, config):
    code, out, err = run("size", "--config", config, "--accelerator", "h100-sxm", "--context", 8192, "--output", 1024)
    assert (code, err) == (0, "")
    assert "128 KiB" in out and "Sequences that fit with room to finish" in out
    assert "H100" in out.splitlines()[0]


def test_json_is_the_composite_function_s(run, config):
    arguments = ["--tp", 2, "--pp", 2, "--context", "8,192", "--output", 513, "--concurrency", 9, "--weights", "fp8"]
    arguments += ["--ttft", "500ms", "--tpot", "0.05 s", "--memory-fraction", "90%", "--lora-slots", 2]
    arguments += ["--workspace", "2 GiB", "--disk-rate", "3GB/s", "--no-prefix-caching", "--ep", "--gpus", 8]
    code, out, _ = run("size", "--config", config, *arguments, "--json")
    report = size(
        config,
        tensor=2,
        pipeline=2,
        context=8192,
        output=513,
        concurrency=9,
        weights="fp8",
        ttft_s=0.5,
        tpot_s=0.05,
        memory_fraction=0.9,
        lora_slots=2,
        workspace_bytes=2 * 1024**3,
        disk_rate=3e9,
        prefix_caching=False,
        expert_parallel=True,
        count=8,
    )
    assert code == 0
    assert json.loads(out) == json.loads(report.to_json())


@pytest.mark.parametrize("model", ["llama-3.1-70b", "deepseek-v3", "gpt-oss-120b"])
@pytest.mark.parametrize("chip", ["h200-sxm", "mi300x", "b200-sxm"])
def test_a_slug_gives_what_the_library_gives(run, model, chip):
    code, out, _ = run("size", "--model", model, "--accelerator", chip, "--tp", 8, "--json")
    assert code == 0
    assert json.loads(out) == json.loads(size(model, accelerator=chip, tensor=8).to_json())


def test_the_words_of_an_engine_are_understood(run):
    short = ["--tp", 4, "--pp", 2, "--cache", "fp8", "--memory-fraction", "0.9", "--ep", "--block-tokens", 32]
    long = ["--tensor-parallel-size", 4, "--pipeline-parallel-size", 2, "--kv-cache-dtype", "fp8", "--ep", 4]
    long += ["--gpu-memory-utilization", "0.9", "--block-size", 32]
    one, other = (run("size", "--model", "mixtral-8x7b", "--json", *words) for words in (short, long))
    assert one == other and one[0] == 0
    assert json.loads(one[1])["assumptions"]["expert_parallel"] is True


def test_the_other_forms(run, config):
    assert run("size", "--config", config, "--csv")[1].startswith("section,label,value,unit")
    assert run("size", "--config", config, "--markdown")[1].startswith("# ")
    assert "B_pos = 2 · L · n_kv" in run("size", "--config", config, "--working")[1]


def test_a_configuration_may_come_on_standard_input(config):
    command = [sys.executable, "-m", "calc", "size", "--config", "-", "--json"]
    done = subprocess.run(command, input=json.dumps(CONFIG), capture_output=True, text=True, cwd=ROOT, check=True)
    assert json.loads(done.stdout)["kv"]["bytes_per_token"] == 131072


def test_a_quantization_file_that_lies_elsewhere(run, config, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}))
    _, out, _ = run("size", "--config", config, "--quantization", path, "--json")
    assert json.loads(out)["kv"]["element"] == "fp8"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["COMMAND"]),
        (["sizes"], ["invalid choice"]),
        (["size"], ["--config", "--model"]),
        (["size", "--model", "lama-3.1-8b"], ["did you mean llama-3.1-8b"]),
        (["size", "--model", "llama-3.1-8b", "--config", "x"], ["not allowed with"]),
        (["size", "--model", "llama-3.1-8b", "--accelerator", "h100"], ["did you mean h100-sxm"]),
        (["size", "--model", "llama-3.1-8b", "--tp", "three"], ["'three' is no whole number"]),
        (["size", "--model", "llama-3.1-8b", "--tp", "3"], ["can't run on 3 ranks", "Use 1, 2, 4"]),
        (["size", "--model", "llama-3.1-8b", "--tp", "9" * 40], ["no whole number"]),
        (["size", "--model", "llama-3.1-8b", "--context", "0"], ["context is 0"]),
        (["size", "--model", "llama-3.1-8b", "--context", "8k"], ["'8k' is no whole number"]),
        (["size", "--model", "llama-3.1-8b", "--ttft", "500"], ["write its unit"]),
        (["size", "--model", "llama-3.1-8b", "--ttft", "-1s"], []),
        (["size", "--model", "llama-3.1-8b", "--ttft=-1s"], ["ttft_s is -1"]),
        (["size", "--model", "llama-3.1-8b", "--tpot", "5GiB"], ["'5GiB' is no quantity like 500ms"]),
        (["size", "--model", "llama-3.1-8b", "--memory-fraction", "92"], ["memory_fraction is 92"]),
        (["size", "--model", "llama-3.1-8b", "--weights", "q4"], ["weights is 'q4'"]),
        (["size", "--model", "llama-3.1-8b", "--cache", "fp4"], ["unknown cache element type"]),
        (["size", "--model", "mixtral-8x7b", "--tp", "4", "--ep", "8"], ["write --ep 4"]),
        (["size", "--model", "llama-3.1-8b", "--frobnicate"], ["unrecognized arguments"]),
        (["size", "--model", "llama-3.1-8b", "--json", "--csv"], ["not allowed with"]),
        (["size", "--config", "nowhere/config.json"], ["no file at"]),
        (["size", "--config", "."], ["no file at"]),
        (["size", "--config", os.devnull], ["no file at"]),
        (["explain-log", "nowhere.log"], ["no file at", "a start-up log"]),
        (["explain-log"], ["FILE"]),
        (["latency", "nowhere.json"], ["cannot be opened"]),
        (["latency", str(LATENCY)], ["no regular file"]),
        (["latency", str(LATENCY / "vllm_bench.json"), "--ttft", "0ms"], []),
        (["latency", str(LATENCY / "vllm_bench.json"), "--dialect", "vllm"], ["no dialect 'vllm'"]),
        (["latency", str(LATENCY / "mooncake.jsonl")], ["no result file of a known tool"]),
        (["models", "--yaml"], ["unrecognized arguments"]),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, list) else None,
)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments, words):
    refused(run(*arguments), *words)


HOSTILE = {
    "binary": bytes(range(256)) * 64,
    "nul": b"\0" * 1000,
    "empty": b"",
    "truncated": json.dumps(CONFIG)[:-40].encode(),
    "list": b"[1, 2, 3]",
    "number": b"7",
    "deep": b'{"a":' + b"[" * 100_000,
    "markup": json.dumps(CONFIG | {"model_type": "<script>alert(1)</script>\x1b[31m\n\u202e"}).encode(),
    "twice": b'{"model_type": "llama", "hidden_size": 1, "hidden_size": 2}',
    "endless number": b'{"model_type": "llama", "hidden_size": ' + b"9" * 10_000 + b"}",
    "not a number": json.dumps(CONFIG | {"hidden_size": 0}).replace('"hidden_size": 0', '"hidden_size": NaN').encode(),
    "unknown": json.dumps({"model_type": "deepseek_v41"}).encode(),
    "huge layers": json.dumps(CONFIG | {"num_hidden_layers": 10**9}).encode(),
    "utf-16": json.dumps(CONFIG).encode("utf-16"),
    "6 MB": b'{"x": "' + b"a" * 6_000_000 + b'"}',
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("command", ["size", "latency", "explain-log"])
def test_hostile_files_are_refused_in_one_line(run, tmp_path, name, command):
    path = tmp_path / "input.json"
    path.write_bytes(HOSTILE[name])
    result = run("size", "--config", path) if command == "size" else run(command, path)
    refused(result)
    assert "<script" not in result[2] and "\x1b" not in result[2]


def test_five_megabytes_of_configuration_are_read(run, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"comment": "a" * 4_990_000}))
    assert path.stat().st_size < 5_000_000
    code, out, _ = run("size", "--config", path, "--json")
    assert code == 0 and json.loads(out)["kv"]["bytes_per_token"] == 131072


def test_a_name_with_markup_does_not_reach_the_output(run, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"_name_or_path": "<img src=x onerror=alert(1)>\x1b[31m"}))
    for form in ([], ["--json"], ["--csv"], ["--markdown"]):
        code, out, _ = run("size", "--config", path, *form)
        assert code == 0
        assert "<img" not in out and "\x1b" not in out
    refused(run("size", "--config", path, "--name", "<b>"), "name is")


def test_an_unreadable_file_is_refused(run, tmp_path):
    link = tmp_path / "config.json"
    link.symlink_to(tmp_path / "gone.json")
    refused(run("size", "--config", link))
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    for command in (["size", "--config"], ["explain-log"], ["latency"]):
        refused(run(*command, pipe))


# --- explain-log -----------------------------------------------------------------------------------------------


def test_a_log_is_held_against_the_checkpoint_s_own_types(run, tmp_path):
    """The weights and the cache of an FP8 checkpoint are one byte each, without a word on the command line."""
    from calc.sources import load_json

    config, log = tmp_path / "config.json", tmp_path / "log"
    quantized = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "ignore": ["lm_head"]}
    stated = load_json("models", "llama-3.1-70b.json")["config"] | {"quantization_config": quantized}
    config.write_text(json.dumps(stated))
    sized = json.loads(run("size", "--config", config, "--tp", "8", "--json")[1])
    cut = f"{sized['weights']['per_rank_bytes'][0] / 2**30:.2f} GiB"
    log.write_text(
        f"Model loading took {cut} memory and 1 seconds\nAvailable KV cache memory: 50.00 GiB\n"
        "GPU KV cache size: 2,621,440 tokens\nMaximum concurrency for 8,192 tokens per request: 320.00x"
    )
    for more in ([], ["--cache", "auto"], ["--cache", "fp8", "--weights", "fp8"]):
        code, out, _ = run("explain-log", log, "--config", config, "--tp", "8", "--json", *more)
        verdicts = {check["name"]: check["verdict"] for check in json.loads(out)["checks"]}
        assert code == 0 and "differs" not in verdicts.values()
        assert verdicts["weights"] == verdicts["bytes per token"] == verdicts["cache size, tokens"] == "agrees"
    _, out, _ = run("explain-log", log, "--config", config, "--tp", "8", "--cache", "bf16")
    assert "differs" in out
    for option, value in (("--memory-fraction", "5"), ("--weight-bytes", "0"), ("--weight-bytes", "-1")):
        refused(run("explain-log", log, option, value), "memory_fraction" if option[2] == "m" else "weight")
    refused(run("explain-log", log, "--cache", "zzz"), "unknown cache element type")


def test_a_log_is_explained(run, tmp_path):
    path = tmp_path / "start.log"
    path.write_text(LOG)
    code, out, err = run("explain-log", path)
    assert (code, err) == (0, "")
    assert "158,656 tokens" in out and "not blocks times their size" in out
    code, out, _ = run("explain-log", path, "--model", "llama-3.1-8b", "--accelerator", "a10g", "--json")
    found = json.loads(out)
    assert {c["name"]: c["verdict"] for c in found["checks"]}["weights"] == "agrees"
    assert [line["line"] for line in found["lines"]] == [1, 2, 3, 3]
    assert run("explain-log", path, "--model", "llama-3.1-8b", "--tp", "2")[0] == 0
    refused(run("explain-log", path, "--model", "llama-3.1-8b", "--tp", "3"), "3 ranks")


def test_a_log_s_other_text_does_not_reach_the_terminal(run, tmp_path):
    path = tmp_path / "start.log"
    path.write_text(LOG + "\x1b[2J\x1b]0;title\x07 <script>alert(1)</script> GPU blocks: 9,916\n")
    _, out, _ = run("explain-log", path)
    assert "9,916" in out
    assert "\x1b" not in out and "script" not in out


def test_a_log_with_several_starts_is_refused(run, tmp_path):
    path = tmp_path / "start.log"
    path.write_text(LOG + LOG.replace("158,656", "100,000"))
    refused(run("explain-log", path), "one engine and one start")


# --- latency ---------------------------------------------------------------------------------------------------

FILES = {
    "vllm_bench.json": ("vLLM's benchmark", "vllm-bench"),
    "guidellm.json": ("GuideLLM", "guidellm"),
    "aiperf_profile_export.jsonl": ("AIPerf", "aiperf"),
    "llmservingsim_requests.jsonl": ("LLMServingSim", "book"),
    "shelf.jsonl": ("this book", "book"),
}


@pytest.mark.parametrize("name", FILES)
def test_every_tool_s_file_is_known_by_its_fields(run, tmp_path, name):
    tool, dialect = FILES[name]
    renamed = tmp_path / "results.json"
    renamed.write_bytes((LATENCY / name).read_bytes())
    code, out, err = run("latency", renamed, "--ttft", "500ms", "--tpot", "50ms", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["tool"], found["dialect"]) == (tool, dialect)
    assert found["objectives"] == {"ttft_s": 0.5, "tpot_s": 0.05, "e2e_s": None}
    first = found["runs"][0]
    by_hand = measure(read_result(LATENCY / name).runs[0][1])
    assert first["dialect"] == "book"
    assert first["latency"]["ttft"]["percentiles_s"]["p99"] == by_hand.statistics["ttft"].percentiles[99]
    assert first["good"] is not None
    text = run("latency", renamed, "--ttft", "500ms")[1]
    assert f"Written by {tool}" in text and "p99" in text


def test_a_packed_result_file_is_read(run, tmp_path):
    packed = tmp_path / "results.json.gz"
    packed.write_bytes(gzip.compress((LATENCY / "vllm_bench.json").read_bytes()))
    assert run("latency", packed)[0] == 0
    packed.write_bytes(packed.read_bytes()[:-100])
    refused(run("latency", packed), "cut off")


def test_one_way_of_counting_may_be_asked_for(run):
    _, out, _ = run("latency", LATENCY / "vllm_bench.json", "--dialect", "sglang-bench", "--json")
    assert [r["dialect"] for r in json.loads(out)["runs"]] == ["sglang-bench"]
    refused(run("latency", LATENCY / "vllm_bench.json", "--dialect", "llmperf", "--ttft", "1s"), "can't judge")


def test_a_truncated_result_file_names_the_place(run, tmp_path):
    path = tmp_path / "results.json"
    path.write_bytes((LATENCY / "guidellm.json").read_bytes()[:2000])
    refused(run("latency", path), "cut off")


# --- models, accelerators, the process -------------------------------------------------------------------------


def test_a_chip_whose_memory_is_only_labelled_says_so(run):
    rows = {row.split()[0]: row for row in run("accelerators")[1].splitlines()}
    found = json.loads(run("accelerators", "--json")[1])["accelerators"]
    assert {chip["slug"] for chip in found if chip["memory_is_nominal"]} == {s for s in rows if "(label)" in rows[s]}
    assert "(label)" in rows["h100-pcie"] and "(label)" not in rows["h100-sxm"]


def test_the_catalogues_are_listed(run):
    for command, key, least in (("models", "models", 30), ("accelerators", "accelerators", 18)):
        code, out, _ = run(command)
        assert code == 0
        listed = json.loads(run(command, "--json")[1])[key]
        assert len(listed) >= least
        assert len(out.splitlines()) == len(listed) + 1
        assert all(entry["slug"] in out for entry in listed)


def test_every_model_is_listed_and_one_that_no_chapter_draws_is_sized(run):
    listed = {entry["slug"]: entry for entry in json.loads(run("models", "--json")[1])["models"]}
    assert tuple(listed) == catalogue(every=True)
    hybrid, window = listed["nemotron-h-56b"], listed["deepseek-v4-flash"]
    assert hybrid["fixed_bytes"] > 1000 * hybrid["kv_bytes_per_token"]
    assert window["kv_bytes_per_token_windows_full"] < window["kv_bytes_per_token"] / 50
    code, out, _ = run("size", "--model", "nemotron-h-56b", "--tp", 8)
    assert code == 0 and hybrid["name"] in out


def test_size_imports_nothing_beyond_the_standard_library():
    code = (
        "import sys\nfrom calc.cli import main\nmain(['size', '--model', 'llama-3.1-8b'])\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names) - {'calc', '__main__'}))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("arguments", "code"), [(["models"], 0), (["size", "--model", "x"], 2), (["--version"], 0)])
def test_the_process_ends_with_that_code(arguments, code):
    done = subprocess.run([sys.executable, "-m", "calc", *arguments], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m calc size --model llama-3.1-8b --working | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and done.stderr == ""


def test_a_terminal_without_the_characters_still_gets_the_numbers():
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "calc", "size", "--model", "llama-3.1-8b"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0 and "128 KiB" in done.stdout


def test_help_says_what_there_is(capsys):
    for command in ([], ["size"], ["explain-log"], ["latency"], ["models"], ["accelerators"]):
        with pytest.raises(SystemExit) as end:
            main([*command, "--help"])
        assert end.value.code == 0
        assert "usage: python -m calc" in capsys.readouterr().out


def test_a_result_file_that_nobody_wrote_is_refused(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}')
    with pytest.raises(CalcError, match="no result file of a known tool"):
        read_result(path)
