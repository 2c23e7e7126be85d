"""Qwen2 in plain torch, from packed GGUF bytes, with a LoRA beside every linear layer."""

# pyright: reportMissingImports=false
from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from gguf import GGMLQuantizationType, dequantize
from torch import Tensor
from torch.nn import functional

from lab.training.attention import best_attention
from lab.training.network_files import read_index, read_raw
from lab.training.rounding import RoundedLinear, rounded

# The linear layers of a block, joined where they read the same input.
JOINED: Final = {
    "qkv": ("attn_q", "attn_k", "attn_v"),
    "out": ("attn_output",),
    "gate_up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
Kept = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class Config:
    """The sizes of a network."""

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    theta: float
    epsilon: float
    vocabulary: int

    @property
    def size(self) -> int:
        """Returns the size of a head."""
        return self.hidden // self.heads

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Returns inputs and outputs of the linear layers of a block."""
        keys = self.kv_heads * self.size
        return {
            "attn_q": (self.hidden, self.hidden),
            "attn_k": (self.hidden, keys),
            "attn_v": (self.hidden, keys),
            "attn_output": (self.hidden, self.hidden),
            "ffn_gate": (self.hidden, self.inner),
            "ffn_up": (self.hidden, self.inner),
            "ffn_down": (self.inner, self.hidden),
        }


def load_weights(
    folder: Path, device: str, dtype: torch.dtype, *, quantised: bool = False
) -> tuple[Config, dict[str, Tensor]]:
    """Reads what `lab.training.pack` wrote: the sizes and all weights, dequantised.

    Weights that are rounded again later are kept exact.
    """
    index, raw = read_index(folder), read_raw(folder)

    def weight(entry: dict[str, Any]) -> tuple[str, Tensor]:
        data = raw[entry["start"] : entry["start"] + entry["bytes"]]
        values = dequantize(data, GGMLQuantizationType[entry["kind"]]).reshape(entry["shape"])
        exact = quantised and values.ndim == 2 and entry["name"] != "token_embd.weight"
        kept = torch.float32 if exact else dtype
        return entry["name"], torch.from_numpy(values).to(device=device, dtype=kept)

    with ThreadPoolExecutor() as pool:
        weights = dict(pool.map(weight, index["tensors"]))
    return Config(**index["config"]), weights


class Lora:
    """The trained weights: for each linear layer a narrow way in and a narrow way out."""

    def __init__(self, config: Config, *, rank: int, alpha: float, device: str) -> None:
        self.rank = rank
        self.alpha = alpha
        self.config = config
        self.pairs: dict[str, tuple[Tensor, Tensor]] = {}
        for layer in range(config.layers):
            for name, (inputs, outputs) in config.shapes.items():
                down = torch.randn(rank, inputs, device=device) / math.sqrt(inputs)
                up = torch.zeros(outputs, rank, device=device)
                pair = (down.requires_grad_(), up.requires_grad_())
                self.pairs[f"blk.{layer}.{name}.weight"] = pair

    @property
    def parameters(self) -> list[Tensor]:
        """Returns everything that is trained."""
        return [each for pair in self.pairs.values() for each in pair]

    def joined(self, layer: int, dtype: torch.dtype) -> dict[str, tuple[Tensor, Tensor]]:
        """Returns the pairs of a block as its joined layers need them."""
        scale = self.alpha / self.rank
        block: dict[str, tuple[Tensor, Tensor]] = {}
        for joint, names in JOINED.items():
            pairs = [self.pairs[f"blk.{layer}.{name}.weight"] for name in names]
            down = torch.cat([pair[0] for pair in pairs])
            up = torch.block_diag(*[pair[1] for pair in pairs]) * scale
            block[joint] = (down.to(dtype), up.to(dtype).t())
        return block

    def save(self, path: Path) -> None:
        """Writes the weights in half precision, with rank and alpha."""
        arrays = {
            f"{name}.lora_{letter}": each.detach().to(torch.float16).cpu().numpy()
            for name, pair in self.pairs.items()
            for letter, each in zip("ab", pair, strict=True)
        }
        fresh = path.with_suffix(".new.npz")
        np.savez(fresh, allow_pickle=False, rank=self.rank, alpha=self.alpha, **arrays)
        fresh.replace(path)

    @classmethod
    def load(cls, path: Path, config: Config, device: str) -> Lora:
        """Reads weights that `save` wrote."""
        with np.load(path) as stored:
            found = cls(
                config, rank=int(stored["rank"]), alpha=float(stored["alpha"]), device=device
            )
            with torch.no_grad():
                for name, pair in found.pairs.items():
                    for letter, each in zip("ab", pair, strict=True):
                        each.copy_(torch.from_numpy(stored[f"{name}.lora_{letter}"]).float())
        return found


class Network:
    """The forward pass: training with a shared start, and reading and writing for answers."""

    def __init__(
        self,
        config: Config,
        weights: dict[str, Tensor],
        lora: Lora | None,
        *,
        quantised: bool = False,
    ) -> None:
        self.config = config
        self.lora = lora
        self.quantised = quantised
        self.embedding = weights["token_embd.weight"]
        self.device = str(self.embedding.device)
        self.dtype = self.embedding.dtype
        self.head = weights.get("output.weight", self.embedding)
        self.norm = weights["output_norm.weight"]
        self.blocks = [_block(weights, layer) for layer in range(config.layers)]
        self.narrow: list[dict[str, tuple[Tensor, Tensor]]] = []
        self.merged: list[dict[str, Tensor]] = []
        if quantised and "output.weight" in weights:
            self.head = rounded(self.head).to(self.dtype)
        self.attention, self._attention = best_attention(self.embedding.device.type, self.dtype)
        steps = torch.arange(0, config.size, 2, device=self.device, dtype=torch.float32)
        self._turns = 1.0 / config.theta ** (steps / config.size)
        self.refresh()

    def refresh(self) -> None:
        """Takes over the LoRA weights as they are now: once per step."""
        layers = range(self.config.layers)
        if self.lora is not None:
            self.narrow = [self.lora.joined(layer, self.dtype) for layer in layers]
        if self.quantised:
            with torch.no_grad():
                self.merged = [self._merged(layer) for layer in layers]

    def _merged(self, layer: int) -> dict[str, Tensor]:
        """Returns the weights of a block as a prepared file has them."""
        found = {joint: self.blocks[layer][joint] for joint in JOINED}
        if self.lora is not None:
            for joint, (down, up) in self.lora.joined(layer, torch.float32).items():
                found[joint] = torch.addmm(found[joint], up.t(), down)
        return {joint: rounded(each).to(self.dtype) for joint, each in found.items()}

    def logits(self, hidden: Tensor) -> Tensor:
        """Returns the scores of the next token."""
        return functional.linear(hidden, self.head).float()

    def hidden(self, start: Tensor, ends: Tensor) -> Tensor:
        """Returns the states of endings (rows, places) behind one start, which is read once.

        Endings are filled up on the right: no real place sees what fills it up.
        """
        first = start.shape[0]
        rows, count = ends.shape
        places = torch.arange(first + count, device=self.device)
        turned = self._angles(torch.cat([places[:first], places[first:].repeat(rows)]))

        def attend(_: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            head = [_one(each[:first]) for each in (queries, keys, values)]
            tail = [_rows(each[first:], rows) for each in (queries, keys, values)]
            known = functional.scaled_dot_product_attention(
                head[0], self._spread(head[1]), self._spread(head[2]), is_causal=True
            )
            both = [
                self._spread(torch.cat([one.expand(rows, -1, -1, -1), other], 2))
                for one, other in zip(head[1:], tail[1:], strict=True)
            ]
            return torch.cat([_flat(known), _flat(self._attention(tail[0], *both))])

        state = self._run(torch.cat([start, ends.reshape(-1)]), turned, attend)
        return self._normed(state[first:], self.norm).view(rows, count, -1)

    def read_start(self, start: Tensor) -> Kept:
        """Reads a start and returns its keys and values for `read`."""
        kept: Kept = []

        def attend(_: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            kept.append((_one(keys), _one(values)))
            spread = [self._spread(_one(each)) for each in (keys, values)]
            return _flat(
                functional.scaled_dot_product_attention(_one(queries), *spread, is_causal=True)
            )

        self._run(start, self._angles(torch.arange(start.shape[0], device=self.device)), attend)
        return kept

    def read(self, kept: Kept, ends: Tensor, lengths: Tensor, room: int) -> tuple[Tensor, Cache]:
        """Reads endings that are filled up on the left; returns the last states and a cache."""
        rows, count = ends.shape
        first = kept[0][0].shape[2]
        cache = Cache(self.config, kept, rows, count + room, lengths)
        seen = torch.arange(count, device=self.device)
        real = seen[None] >= count - lengths[:, None]
        mask = torch.ones(count, first + count, dtype=torch.bool, device=self.device).tril(first)
        mask = mask[None].repeat(rows, 1, 1)
        mask[:, :, first:] &= real[:, None]
        cache.hide(first, ~real)
        places = (first + seen[None] - (count - lengths[:, None])).clamp(min=0)

        def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            stored = cache.put(layer, _rows(keys, rows), _rows(values, rows))
            return _flat(
                functional.scaled_dot_product_attention(
                    _rows(queries, rows), *map(self._spread, stored), attn_mask=mask[:, None]
                )
            )

        state = self._run(ends.reshape(-1), self._angles(places.reshape(-1)), attend)
        cache.used += count
        last = state.view(rows, count, -1)[:, -1]
        return self._normed(last, self.norm), cache

    def write(self, cache: Cache, tokens: Tensor) -> Tensor:
        """Reads one more token of each row; returns the states behind it."""
        rows, sizes = tokens.shape[0], self.config
        group = sizes.heads // sizes.kv_heads
        mask = cache.mask[:, None, None, : cache.used + 1]

        def attend(layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            stored = cache.put(layer, keys[:, :, None], values[:, :, None])
            grouped = queries.view(rows, sizes.kv_heads, group, sizes.size)
            likeness = (grouped @ stored[0].transpose(-1, -2)).float() / math.sqrt(sizes.size)
            shares = likeness.masked_fill(~mask, -math.inf).softmax(-1).to(self.dtype)
            return (shares @ stored[1]).reshape(rows, -1)

        state = self._run(tokens, self._angles(cache.next_places()), attend)
        cache.used += 1
        return self._normed(state, self.norm)

    def _run(self, ids: Tensor, turned: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        state = functional.embedding(ids, self.embedding)
        for layer in range(self.config.layers):
            state = self._layer(layer, state, turned, attend)
        return state

    def _layer(
        self, layer: int, state: Tensor, turned: tuple[Tensor, Tensor], attend: Attend
    ) -> Tensor:
        block, sizes = self.blocks[layer], self.config
        joint = self._linear(layer, "qkv", self._normed(state, block["attn_norm"]), block["bias"])
        heads = sizes.heads + sizes.kv_heads
        both = joint[:, : heads * sizes.size].view(-1, heads, sizes.size)
        values = joint[:, heads * sizes.size :].view(-1, sizes.kv_heads, sizes.size)
        both = _turn(both, *turned)
        seen = attend(layer, both[:, : sizes.heads], both[:, sizes.heads :], values)
        state = state + self._linear(layer, "out", seen)
        wide = self._linear(layer, "gate_up", self._normed(state, block["ffn_norm"]))
        gate, up = wide.chunk(2, -1)
        return state + self._linear(layer, "down", functional.silu(gate) * up)

    def _linear(self, layer: int, joint: str, inputs: Tensor, bias: Tensor | None = None) -> Tensor:
        weight = (self.merged if self.quantised else self.blocks)[layer][joint]
        if self.quantised and self.narrow:
            return RoundedLinear.apply(inputs, weight, bias, *self.narrow[layer][joint])
        outputs = functional.linear(inputs, weight, bias)
        if not self.narrow:
            return outputs
        down, up = self.narrow[layer][joint]
        return torch.addmm(outputs, functional.linear(inputs, down), up)

    def _normed(self, state: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(state, (self.config.hidden,), weight, self.config.epsilon)

    def _angles(self, places: Tensor) -> tuple[Tensor, Tensor]:
        angles = (places[:, None].float() * self._turns[None]).repeat(1, 2)
        return angles.cos().to(self.dtype)[:, None], angles.sin().to(self.dtype)[:, None]

    def _spread(self, each: Tensor) -> Tensor:
        """Repeats keys or values for the query heads that share them."""
        group = self.config.heads // self.config.kv_heads
        return each[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2)


class Cache:
    """Keys and values of rows that grow by a token at a time."""

    def __init__(self, config: Config, kept: Kept, rows: int, room: int, lengths: Tensor) -> None:
        first = kept[0][0].shape[2]
        shape = (config.layers, 2, rows, config.kv_heads, first + room, config.size)
        self._all = torch.zeros(shape, dtype=kept[0][0].dtype, device=lengths.device)
        for layer, pair in enumerate(kept):
            for kind, each in enumerate(pair):
                self._all[layer, kind, :, :, :first] = each
        self.mask = torch.ones(rows, first + room, dtype=torch.bool, device=lengths.device)
        self.used = first
        self._next = first + lengths

    def hide(self, start: int, hidden: Tensor) -> None:
        """Hides places that only fill a row up."""
        self.mask[:, start : start + hidden.shape[1]] &= ~hidden

    def put(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Stores keys and values of the next places; returns all up to them."""
        end = self.used + keys.shape[2]
        self._all[layer, 0, :, :, self.used : end] = keys
        self._all[layer, 1, :, :, self.used : end] = values
        return self._all[layer, 0, :, :, :end], self._all[layer, 1, :, :, :end]

    def next_places(self) -> Tensor:
        """Returns the place of the next token of each row, and counts on."""
        places = self._next
        self._next = places + 1
        return places


def _block(weights: dict[str, Tensor], layer: int) -> dict[str, Tensor]:
    block = {
        joint: torch.cat([weights.pop(f"blk.{layer}.{name}.weight") for name in names])
        for joint, names in JOINED.items()
    }
    biases = [weights.pop(f"blk.{layer}.{name}.bias") for name in JOINED["qkv"]]
    norms = {name: weights.pop(f"blk.{layer}.{name}.weight") for name in ("attn_norm", "ffn_norm")}
    return block | norms | {"bias": torch.cat(biases)}


def _turn(each: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotates queries and keys by their place."""
    first, second = each.chunk(2, -1)
    return each * cosine + torch.cat([-second, first], -1) * sine


def _one(each: Tensor) -> Tensor:
    """(places, heads, size) -> (1, heads, places, size)."""
    return each.transpose(0, 1)[None]


def _rows(each: Tensor, rows: int) -> Tensor:
    """(rows * places, heads, size) -> (rows, heads, places, size)."""
    return each.view(rows, -1, *each.shape[1:]).transpose(1, 2)


def _flat(each: Tensor) -> Tensor:
    """(rows, heads, places, size) -> (rows * places, heads * size)."""
    return each.transpose(1, 2).reshape(-1, each.shape[1] * each.shape[3])
