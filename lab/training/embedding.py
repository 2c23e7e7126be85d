"""Trains a small static embedding for the shortlist, and measures it beside word lists.

Sets with a free licence are split into two folds: each is measured with vectors trained on the
other one. Sets that may only be measured get vectors trained on both.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from lab.bench.shortlist import Case, Catalogue, load
from plansmith.plan.capability import tool_specs
from plansmith_planner.language.words import split, stem
from plansmith_planner.ranking.pick import shortlist

FOLDS: Final = (
    ("bfcl", "metatool", "acebench_zh", "apibank"),
    (
        *("sealtools", "toolbench", "toolbench10k", "restbench"),
        *("livemcp", "mcpm_servers", "acebench_en"),
    ),
)
MEASURED_ONLY: Final = ("ultratool_zh", "ultratool_en", "toollens", "mcptoolbench", "a2a_agents")
SAMPLE: Final = 200  # requests of a set that are measured
K: Final = 6  # tools that a shortlist holds
SIZE: Final = 96  # of a vector
RARE: Final = 2  # a word that is seen less often is not learned
MAX_LENGTH: Final = 160  # words of a text that count
BATCH: Final = 256

Bag = list[int]
Tool = tuple[str, str]  # its set and its name
Pair = tuple[Bag, Tool]
Sets = Mapping[str, tuple[list[Case], Catalogue]]


def features(text: str) -> list[str]:
    """Returns the stems of a text, and the letter groups of its longer words."""
    found: list[str] = []
    for word in split(text):
        found.append(stem(word))
        if word.isascii() and len(word) > 4:
            found += [f"#{word[at : at + 4]}" for at in range(len(word) - 3)]
    return found or ["#"]


def tool_text(name: str, description: str) -> str:
    """Returns what a tool says of itself, as text that is compared with requests."""
    return f"{name.replace('_', ' ').replace('.', ' ')}: {description}"


class Vectors:
    """Words as vectors; a text is the weighted sum of those of its words."""

    def __init__(self, vocabulary: Mapping[str, int], size: int = SIZE) -> None:
        self.vocabulary = vocabulary
        self.table = torch.nn.EmbeddingBag(len(vocabulary), size, mode="sum")
        self.weight = torch.nn.Embedding(len(vocabulary), 1)
        torch.nn.init.normal_(self.table.weight, std=0.1)
        torch.nn.init.ones_(self.weight.weight)

    @property
    def parameters(self) -> list[Tensor]:
        """Returns everything that is trained."""
        return [*self.table.parameters(), *self.weight.parameters()]

    def of(self, bags: Sequence[Bag]) -> Tensor:
        """Returns a vector of length one for each bag of words."""
        flat = torch.tensor([each for bag in bags for each in bag])
        starts = torch.tensor(np.cumsum([0, *(len(bag) for bag in bags)])[:-1])
        weights = functional.softplus(self.weight(flat)).squeeze(1)
        return functional.normalize(self.table(flat, starts, per_sample_weights=weights), dim=1)

    def bag(self, text: str) -> Bag:
        """Returns the numbers of the words of a text that are known."""
        found = (self.vocabulary.get(each) for each in features(text))
        return [each for each in found if each is not None][:MAX_LENGTH] or [0]


def train(sets: Sets, epochs: int, seed: int) -> Vectors:
    """Trains vectors so that a request is nearer to its tools than to those of others."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    texts = {
        (name, tool): tool_text(tool, spec["description"])
        for name, (_, catalogue) in sets.items()
        for tool, spec in catalogue.items()
    }
    vectors = Vectors(_vocabulary(sets, texts.values()))
    bags = {key: vectors.bag(text) for key, text in texts.items()}
    pairs = _pairs(sets, vectors)
    # A tool's name stands for a request, too: it teaches words that no request has.
    pairs += [(vectors.bag(key[1].replace("_", " ")), key) for key in texts]
    steps = torch.optim.Adam(vectors.parameters, lr=0.01)
    for epoch in range(epochs):
        rng.shuffle(pairs)
        lost: list[float] = []
        for at in range(0, len(pairs) - BATCH, BATCH):
            loss = _loss(vectors, pairs[at : at + BATCH], bags)
            steps.zero_grad()
            loss.backward()
            steps.step()
            lost.append(loss.item())
        print(f"  epoch {epoch + 1}: {sum(lost) / len(lost):.3f}", flush=True)
    return vectors


def _vocabulary(sets: Sets, texts: Iterable[str]) -> dict[str, int]:
    """Numbers the words of tools and requests that are not too rare; 0 stands for none."""
    queries = (case.query for cases, _ in sets.values() for case in cases)
    counted = Counter(each for text in chain(texts, queries) for each in set(features(text)))
    kept = ["#", *sorted(word for word, count in counted.items() if count >= RARE)]
    return {word: at for at, word in enumerate(kept)}


def _pairs(sets: Sets, vectors: Vectors) -> list[Pair]:
    """Returns each request with each of its tools."""
    return [
        (vectors.bag(case.query), (name, tool))
        for name, (cases, catalogue) in sets.items()
        for case in cases
        for tool in case.gold
        if tool in catalogue
    ]


def _loss(vectors: Vectors, batch: Sequence[Pair], bags: Mapping[Tool, Bag]) -> Tensor:
    """Says how far requests are from their tools; the others' tools of a batch are wrong ones."""
    keys = [key for _, key in batch]
    left = vectors.of([bag for bag, _ in batch])
    right = vectors.of([bags[key] for key in keys])
    # The same tool in another row is no wrong answer.
    same = torch.tensor(
        [[a == b and i != j for j, b in enumerate(keys)] for i, a in enumerate(keys)]
    )
    near = (left @ right.T / 0.05).masked_fill(same, -1e9)
    return functional.cross_entropy(near, torch.arange(len(batch)))


class StaticRanker:
    """Scores texts by how near their vectors are to that of a request."""

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._known: dict[str, Any] = {}

    def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Returns how near each text is to the request."""
        new = [text for text in texts if text not in self._known]
        with torch.no_grad():
            for at in range(0, len(new), 512):
                part = new[at : at + 512]
                made = self._vectors.of([self._vectors.bag(text) for text in part]).numpy()
                self._known.update(zip(part, made, strict=True))
            asked = self._vectors.of([self._vectors.bag(query)])[0].numpy()
        found: list[float] = (np.stack([self._known[text] for text in texts]) @ asked).tolist()
        return found


def measure(
    cases: Sequence[Case], catalogue: Catalogue, vectors: Vectors
) -> tuple[float, float, float]:
    """Returns the recall of words alone, vectors alone, and both."""
    ranker = StaticRanker(vectors)
    names = list(catalogue)
    texts = [tool_text(name, catalogue[name]["description"]) for name in names]
    specs = tool_specs(catalogue)
    found = [0.0, 0.0, 0.0]
    for case in cases:
        near = np.array(ranker.scores(case.query, texts))
        picks = (
            [pick.name for pick in shortlist(case.query, specs, K)],
            [names[at] for at in np.argsort(-near, kind="stable")[:K]],
            [pick.name for pick in shortlist(case.query, specs, K, ranker=ranker)],
        )
        for at, picked in enumerate(picks):
            found[at] += len(case.gold.intersection(picked)) / len(case.gold)
    words, alone, fused = (each / len(cases) for each in found)
    return words, alone, fused


def sampled(cases: list[Case]) -> list[Case]:
    """Returns the same few cases of a set each time."""
    return random.Random(0).sample(cases, min(SAMPLE, len(cases)))


def plan(data: Path) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yields which sets are trained on, and which are measured with that."""
    one, other = FOLDS
    yield one, other
    yield other, one
    yield (
        (*one, *other),
        tuple(name for name in MEASURED_ONLY if (data / "retrieval" / f"{name}.jsonl").exists()),
    )


def main() -> None:
    """Trains and measures by the folds, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    print("| Set | words | vectors alone | both |\n|---|--:|--:|--:|")
    for trained, measured in plan(args.data):
        start = time.monotonic()
        vectors = train({name: load(args.data, name) for name in trained}, args.epochs, seed=1)
        print(f"  {len(vectors.vocabulary)} words, {time.monotonic() - start:.0f} s")
        for name in measured:
            cases, catalogue = load(args.data, name)
            words, alone, both = measure(sampled(cases), catalogue, vectors)
            print(f"| {name} | {words:.3f} | {alone:.3f} | {both:.3f} |", flush=True)


if __name__ == "__main__":
    main()
