"""A network of a few thousand weights in a file that the real runtime loads."""

from __future__ import annotations

import json
import math
import tempfile
import urllib.request
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.adapters.models.gguf_writer import Value, write_gguf

from plansmith_desk.model.engine import Engine

CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
WORDS = "the tool calls args sales csv region total user system assistant 你好 多少 一共"
CHAT_TEMPLATE = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content"
    " + '<|im_end|>' + '\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
HIDDEN, HEADS, KV_HEADS, INNER, LAYERS = 64, 2, 1, 128, 2


def _signs_of_bytes() -> list[str]:
    """The visible sign that stands for each byte in a vocabulary."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(each if each in plain else 256 + others.index(each)) for each in range(256)]


def _vocabulary() -> tuple[list[str], list[str]]:
    """All bytes, and the pairs that build a few words from left to right."""
    signs = _signs_of_bytes()
    tokens, merges = list(signs), list[str]()
    for word in WORDS.split():
        for spelled in (word, f" {word}"):
            letters = [signs[byte] for byte in spelled.encode()]
            for place in range(1, len(letters)):
                before, joined = "".join(letters[:place]), "".join(letters[: place + 1])
                if joined not in tokens:
                    tokens.append(joined)
                    merges.append(f"{before} {letters[place]}")
    return [*tokens, *CONTROLS], merges


def toy_header() -> dict[str, Value]:
    tokens, merges = _vocabulary()
    plain = len(tokens) - len(CONTROLS)
    return {
        "general.architecture": "qwen2",
        "general.name": "toy",
        "qwen2.block_count": LAYERS,
        "qwen2.context_length": 2048,
        "qwen2.embedding_length": HIDDEN,
        "qwen2.feed_forward_length": INNER,
        "qwen2.attention.head_count": HEADS,
        "qwen2.attention.head_count_kv": KV_HEADS,
        "qwen2.rope.freq_base": 10000.0,
        "qwen2.attention.layer_norm_rms_epsilon": 1e-6,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * plain + [3] * len(CONTROLS),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": len(tokens) - 1,
        "tokenizer.ggml.padding_token_id": plain,
        "tokenizer.ggml.bos_token_id": plain,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


def write_toy_model(path: Path, seed: int = 1) -> Path:
    rng = np.random.default_rng(seed)
    header = toy_header()
    words = len(_vocabulary()[0])
    keys = HIDDEN // HEADS * KV_HEADS

    def random_values(*shape: int) -> Any:
        return (rng.standard_normal(shape) / math.sqrt(shape[-1])).astype(np.float32)

    tensors = {
        "token_embd.weight": random_values(words, HIDDEN) * 4,
        "output.weight": random_values(words, HIDDEN),
        "output_norm.weight": np.ones(HIDDEN, dtype=np.float32),
    }
    for layer in range(LAYERS):
        shapes = {
            "attn_q": (HIDDEN, HIDDEN),
            "attn_k": (keys, HIDDEN),
            "attn_v": (keys, HIDDEN),
            "attn_output": (HIDDEN, HIDDEN),
            "ffn_gate": (INNER, HIDDEN),
            "ffn_up": (INNER, HIDDEN),
            "ffn_down": (HIDDEN, INNER),
        }
        for name, shape in shapes.items():
            tensors[f"blk.{layer}.{name}.weight"] = random_values(*shape)
        for name in ("attn_q", "attn_k", "attn_v"):
            tensors[f"blk.{layer}.{name}.bias"] = random_values(shapes[name][0])
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{name}.weight"] = np.ones(HIDDEN, dtype=np.float32)
    write_gguf(path, header, tensors)
    return path


_KEPT = tempfile.TemporaryDirectory(prefix="plansmith-toy-")


@cache
def toy_weights() -> Path:
    """The file of the toy model, for tests of what the engine does around the weights."""
    pytest.importorskip("xllamacpp")
    return write_toy_model(Path(_KEPT.name) / "toy.gguf")


@cache
def toy_engine() -> Engine:
    """One engine of the toy model for all tests."""
    return Engine(toy_weights(), context=2048, threads=1)


def _kept(pieces: list[dict[str, Any]], piece: dict[str, Any]) -> bool:
    """Keeps a piece of an answer, which goes on."""
    pieces.append(piece)
    return False


def random_texts(grammar: str, count: int) -> list[str]:
    """Texts that llama.cpp lets a model write that has no sense; those that it did not end go."""
    found: list[str] = []
    for seed in range(count):
        pieces: list[dict[str, Any]] = []
        body = {"messages": [{"role": "user", "content": ""}], "grammar": grammar, "stream": True}
        # Any of what is allowed; quotation marks more often, so that texts come to an end.
        chance = {"seed": seed, "temperature": 2.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
        body |= chance | {"max_tokens": 1900, "logit_bias": [[_signs_of_bytes().index('"'), 3.0]]}
        toy_engine().submit(body, partial(_kept, pieces)).result()
        choices = [piece["choices"][0] for piece in pieces if piece.get("choices")]
        assert choices, pieces
        text = "".join(each["delta"].get("content") or "" for each in choices)
        found += [text] if choices[-1]["finish_reason"] == "stop" else []
    return found


class Runtime:
    """llama.cpp with one file: what our own reading is compared with."""

    def __init__(self, model: Path, adapter: Path | None = None) -> None:
        library = pytest.importorskip("xllamacpp")
        params = library.CommonParams()
        params.model.path = str(model)
        params.n_ctx = 512
        params.n_parallel = 1
        params.verbosity = -1
        params.warmup = False
        if adapter:
            params.lora_adapters = [library.CommonAdapterLoraInfo(str(adapter), 1.0)]
        self._server = library.Server(params)

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        asked = urllib.request.Request(
            f"{self._server.listening_address}{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(asked, timeout=30) as answer:
            return json.load(answer)

    def tokens(self, text: str) -> list[int]:
        return list(self._ask("/tokenize", {"content": text, "parse_special": True})["tokens"])

    def chat(self, messages: Sequence[tuple[str, str]]) -> str:
        given = [{"role": role, "content": text} for role, text in messages]
        return str(self._ask("/apply-template", {"messages": given})["prompt"])

    def likeliest(self, prompt: str, count: int = 5) -> dict[int, float]:
        """The log-probabilities of the likeliest next tokens."""
        body = {"prompt": prompt, "n_predict": 1, "temperature": 0, "n_probs": count}
        found = self._ask("/completion", body)["completion_probabilities"][0]["top_logprobs"]
        return {each["id"]: each["logprob"] for each in found}
