"""Trains a LoRA on the answers of rows; needs torch and numpy alone.

`python -m lab.training.train WEIGHTS DATA.npz OUT.npz --seconds 480`: WEIGHTS is a folder that
`lab.training.pack` wrote, DATA what `lab.training.encode` wrote.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

from lab.training.batches import Batch, Data, batch_of, cut_batches, one_pass
from lab.training.network import Lora, Network, load_weights

_EARLY: Final = 150  # steps within which many failures mean that something is wrong
_MAX_FAILURES: Final = 5
_LEAST_RATE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Settings:
    """How to train."""

    seconds: float = 480.0
    steps: int = 0
    rate: float = 2e-4
    warm_up: int = 30
    tokens: int = 32_768
    rows: int = 128
    rank: int = 16
    alpha: float = 32.0
    weights: Mapping[str, float] = field(default_factory=dict[str, float])
    seed: int = 1
    check_every: float = 100.0
    check_rows: int = 192
    device: str = "cuda"


class Trainer:
    """Trains one network; prints what happens."""

    def __init__(self, network: Network, data: Data, out: Path, settings: Settings) -> None:
        if network.lora is None:
            raise ValueError("the network has no LoRA to train")
        self.network = network
        self.lora = network.lora
        self.data = data
        self.out = out
        self.settings = settings
        self.tokens = settings.tokens
        self.losses: list[float] = []
        self.failures = 0
        self.read = 0
        self._began = time.monotonic()
        self._optimizer = torch.optim.AdamW(
            self.lora.parameters, lr=settings.rate, betas=(0.9, 0.98), weight_decay=0.0
        )

    @property
    def progress(self) -> float:
        """Returns the part of the time or of the steps that is over, up to 1."""
        by_time = (time.monotonic() - self._began) / self.settings.seconds
        by_steps = len(self.losses) / self.settings.steps if self.settings.steps else 0.0
        return min(1.0, max(by_time, by_steps))

    def train(self) -> None:
        """Trains until time or steps are over; saves at intervals and at the end."""
        self.check("before", self.settings.check_rows)
        self._began = checked = time.monotonic()
        for batch in self._stream():
            self._set_rate()
            self._step(batch)
            now = time.monotonic()
            if self.progress >= 1:
                break
            if now - checked > self.settings.check_every:
                checked = now
                self.lora.save(self.out)
                self.check(f"after {len(self.losses)} steps", self.settings.check_rows)
        self.lora.save(self.out)
        seconds = time.monotonic() - self._began
        print(f"{len(self.losses)} steps, {self.failures} left out, {seconds:.0f} s", end=", ")
        print(f"{self.read / seconds:.0f} tokens a second, {_memory():.0f} GiB", flush=True)
        self.check("at the end", len(self.data.part))

    def _stream(self) -> Iterator[list[int]]:
        rng = random.Random(self.settings.seed)
        number = 0
        while True:
            batches = one_pass(
                self.data,
                self.settings.weights,
                tokens=self.tokens,
                most=self.settings.rows,
                rng=rng,
            )
            number += 1
            print(f"pass {number}: {len(batches)} batches", flush=True)
            yield from batches

    def _set_rate(self) -> None:
        warm = min(1.0, (len(self.losses) + 1) / self.settings.warm_up)
        curve = 0.5 * (1 + math.cos(math.pi * self.progress))
        for group in self._optimizer.param_groups:
            group["lr"] = self.settings.rate * warm * (_LEAST_RATE + (1 - _LEAST_RATE) * curve)

    def _step(self, rows: list[int]) -> None:
        try:
            loss = self._backward(batch_of(self.data, rows))
        except torch.OutOfMemoryError:
            self._optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            self.tokens = self.tokens * 3 // 4
            self._fail(f"out of memory with {len(rows)} rows: {self.tokens} tokens from now on")
            return
        norm = torch.nn.utils.clip_grad_norm_(self.lora.parameters, 1.0).item()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._optimizer.zero_grad(set_to_none=True)
            self._fail(f"a gradient is not finite: loss {loss}, norm {norm}, {len(rows)} rows")
            return
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.losses.append(loss)
        count = len(self.losses)
        if count in {1, 3, 10, 30} or count % 50 == 0:
            recent = self.losses[-50:]
            seconds = time.monotonic() - self._began
            print(f"step {count}: loss {sum(recent) / len(recent):.4f}", end=", ")
            print(
                f"norm {norm:.2f}, {seconds:.0f} s, {self.read / seconds:.0f} tokens/s", flush=True
            )

    def _backward(self, batch: Batch) -> float:
        self.network.refresh()
        logits, labels = self._logits(batch)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        self.read += batch.ends.size + batch.start.size
        return float(loss.item())

    def _fail(self, why: str) -> None:
        self.failures += 1
        print(f"left out behind step {len(self.losses)}: {why}", flush=True)
        if self.failures > _MAX_FAILURES and len(self.losses) < _EARLY:
            sys.exit("too many failures at the start: nothing is trained")

    def _logits(self, batch: Batch) -> tuple[Tensor, Tensor]:
        device = self.network.device
        start, ends, places, labels = (
            torch.from_numpy(each).to(device)
            for each in (batch.start, batch.ends, batch.places, batch.labels)
        )
        hidden = self.network.hidden(start, ends)
        return self.network.logits(hidden.flatten(0, 1)[places]), labels

    def check(self, when: str, most: int) -> dict[str, tuple[float, float, float]]:
        """Prints loss, right tokens and wholly right answers of validation rows by family.

        An answer whose every token is the likeliest one is what greedy writing gives.
        """
        with torch.no_grad():
            self.network.refresh()
            found = self._checked(most)
        for family, (loss, tokens, whole) in found.items():
            print(f"  {when}, {family}: loss {loss:.4f}, tokens {tokens:.4f}, whole {whole:.3f}")
        sys.stdout.flush()
        return found

    def _checked(self, most: int) -> dict[str, tuple[float, float, float]]:
        found: dict[str, tuple[float, float, float]] = {}
        for number, family in enumerate(self.data.families):
            rows = [row for row in self.data.rows(1) if self.data.family[row] == number][:most]
            loss = right = labels = whole = 0.0
            for some in cut_batches(self.data, rows, tokens=self.tokens, most=self.settings.rows):
                batch = batch_of(self.data, some)
                logits, wanted = self._logits(batch)
                wrong = (logits.argmax(-1) != wanted).cpu().numpy()
                loss += functional.cross_entropy(logits, wanted, reduction="sum").item()
                right += float((~wrong).sum())
                labels += len(wrong)
                whole += len(some) - len(set(batch.owners[wrong].tolist()))
            if rows:
                found[family] = (loss / labels, right / labels, whole / len(rows))
        return found


def _memory() -> float:
    return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0


def _weights(text: str) -> dict[str, float]:
    """Reads `folder=1,tools=0.5`."""
    pairs = (each.split("=", 1) for each in text.split(",") if each)
    return {name: float(value) for name, value in pairs}


def _settings() -> tuple[argparse.Namespace, Settings]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--begin", type=Path, help="a LoRA to train on")
    plain = Settings()
    names = [name for name in Settings.__slots__ if name != "weights"]
    for name in names:
        value = getattr(plain, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    parser.add_argument(
        "--quantised", action="store_true", help="train what the prepared file rounds to four bits"
    )
    parser.add_argument("--weights", type=_weights, default={}, help="folder=1,tools=0.5")
    options = parser.parse_args()
    return options, Settings(
        **{name: getattr(options, name) for name in names}, weights=options.weights
    )


def main() -> None:
    """Trains a LoRA over packed weights."""
    options, settings = _settings()
    print(settings, flush=True)
    torch.manual_seed(settings.seed)
    began = time.monotonic()
    device = settings.device
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    quantised = options.quantised
    config, weights = load_weights(options.network, device, dtype, quantised=quantised)
    if options.begin:
        lora = Lora.load(options.begin, config, device)
    else:
        lora = Lora(config, rank=settings.rank, alpha=settings.alpha, device=device)
    network = Network(config, weights, lora, quantised=quantised)
    count = sum(each.numel() for each in lora.parameters)
    print(f"loaded in {time.monotonic() - began:.1f} s, {network.attention} attention", end=", ")
    print(f"{count} weights to train, {json.dumps(settings.weights)}", flush=True)
    Trainer(network, Data(options.data), options.out, settings).train()


if __name__ == "__main__":
    main()
