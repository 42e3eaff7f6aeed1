"""The small random-weight model, its draft, its tokenizer and its adapters, built here from fixed seeds.

Random weights alone would make a poor stand-in, so two things are scaled. Queries and keys are enlarged, which lets a
position attend to few others: the text then depends on its context and does not fall into a loop. The later layers'
output projections are reduced: the first layers alone often name the same next token as the whole model, and serve as a
draft that is really accepted. Neither changes a shape, so neither changes the work of a step.
"""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = ".measure/artifacts"  # from the repository's root, as it stands in every command
TARGET = f"{FOLDER}/target"  # also the name under which it is served
DRAFT = f"{FOLDER}/draft"
WORDS = 8192
WORD_ZERO = "w0000000"
MODEL_SEED = 20261101
DRAFT_LAYERS = 2
LATER_LAYERS_SCALE = 0.06
ATTENTION_SCALE = 4.0
ADAPTERS = 8
ADAPTER_RANK = 16
MAX_POSITIONS = 32768
SHAPE = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 2048,
    "vocab_size": WORDS,
    "max_position_embeddings": MAX_POSITIONS,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
}
FACTS = {
    "shape": SHAPE,
    "seed": MODEL_SEED,
    "draft_layers": DRAFT_LAYERS,
    "later_layers_scale": LATER_LAYERS_SCALE,
    "attention_scale": ATTENTION_SCALE,
    "adapters": ADAPTERS,
    "adapter_rank": ADAPTER_RANK,
}


def build(root: Path) -> None:
    """Write target, draft and adapters below the repository's root, unless they are there as FACTS has them."""
    done = root / FOLDER / "facts.json"
    facts = json.dumps(FACTS, sort_keys=True)
    if done.is_file() and done.read_text(encoding="ascii") == facts:
        return
    done.parent.mkdir(parents=True, exist_ok=True)
    done.unlink(missing_ok=True)
    _write(root)
    done.write_text(facts, encoding="ascii")


def _write(root: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(MODEL_SEED)
    target = LlamaForCausalLM(LlamaConfig(**SHAPE)).to(torch.bfloat16).eval()
    for layer in target.model.layers:
        layer.self_attn.q_proj.weight.data *= ATTENTION_SCALE
        layer.self_attn.k_proj.weight.data *= ATTENTION_SCALE
    for layer in target.model.layers[DRAFT_LAYERS:]:
        layer.self_attn.o_proj.weight.data *= LATER_LAYERS_SCALE
        layer.mlp.down_proj.weight.data *= LATER_LAYERS_SCALE
    draft = LlamaForCausalLM(LlamaConfig(**SHAPE | {"num_hidden_layers": DRAFT_LAYERS})).to(torch.bfloat16)
    draft.load_state_dict(target.state_dict(), strict=False)  # the draft has no later layers to load
    tokenizer = _tokenizer()
    for path, model in ((root / TARGET, target), (root / DRAFT, draft)):
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)
    for i in range(ADAPTERS):
        torch.manual_seed(MODEL_SEED + 1 + i)
        linear = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
        config = LoraConfig(r=ADAPTER_RANK, target_modules=linear, init_lora_weights=False, task_type="CAUSAL_LM")
        adapted = get_peft_model(target, config)
        adapted.save_pretrained(root / FOLDER / f"adapter-{i}")
        target = adapted.unload()


def _tokenizer():
    """One token per word "w1", "w2", …: a prompt of n words is n tokens, and text and tokens tell the same.

    vLLM refuses a text of more characters, spaces included, than its longest token times the positions: so one is long.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {WORD_ZERO: 0} | {f"w{i}": i for i in range(1, WORDS)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token=WORD_ZERO))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # no word is declared special, or an engine would leave it out of its text
    return PreTrainedTokenizerFast(tokenizer_object=words, model_max_length=MAX_POSITIONS)
