"""Writes the likeliest answers to validation rows, many at a time; needs torch and numpy alone.

`python -m lab.training.generate WEIGHTS DATA.npz OUT.npz --lora LORA.npz`: OUT has the numbers of
the rows and the ids of the answers, for `lab.training.score`.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from lab.training.batches import Data, aligned_width
from lab.training.network import Lora, Network, load_weights


class Writer:
    """Writes answers behind prompts that share a start."""

    def __init__(self, network: Network, data: Data, *, most: int) -> None:
        self.network = network
        self.data = data
        self.most = most

    def answers(self, rows: Sequence[int], *, together: int) -> dict[int, npt.NDArray[np.uint16]]:
        """Returns the answer of each row as ids, without the end."""
        with torch.no_grad():
            return self._answers(rows, together)

    def _answers(self, rows: Sequence[int], together: int) -> dict[int, npt.NDArray[np.uint16]]:
        found: dict[int, npt.NDArray[np.uint16]] = {}
        for start in sorted({int(self.data.start[row]) for row in rows}):
            kept = self.network.read_start(self._tensor(self.data.starts[start]))
            group = [row for row in rows if int(self.data.start[row]) == start]
            group.sort(key=lambda row: len(self.data.rests[row]))
            for first in range(0, len(group), together):
                some = group[first : first + together]
                written = self._write(kept, some)
                found |= {row: self._cut(ids) for row, ids in zip(some, written, strict=True)}
                print(f"{len(found)} answers of {len(rows)}", flush=True)
        return found

    def _write(
        self, kept: list[tuple[torch.Tensor, torch.Tensor]], rows: Sequence[int]
    ) -> npt.NDArray[np.int64]:
        rests = [self.data.rests[row] for row in rows]
        width = aligned_width(kept[0][0].shape[2], max(map(len, rests)))
        ends = np.zeros((len(rows), width), dtype=np.int64)
        for number, rest in enumerate(rests):
            ends[number, width - len(rest) :] = rest
        lengths = self._tensor(np.array([len(rest) for rest in rests], dtype=np.int64))
        hidden, cache = self.network.read(kept, self._tensor(ends), lengths, self.most)
        over = torch.zeros(len(rows), dtype=torch.bool, device=self.network.device)
        written: list[torch.Tensor] = []
        for count in range(self.most):
            token = self.network.logits(hidden).argmax(-1)
            token = torch.where(over, self.data.end, token)
            written.append(token)
            over = over | (token == self.data.end)
            # Looking costs a wait for the device: not at each token.
            if count % 8 == 7 and bool(over.all()):
                break
            hidden = self.network.write(cache, token)
        return np.asarray(torch.stack(written, 1).cpu().numpy())

    def _cut(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.uint16]:
        ends = np.flatnonzero(ids == self.data.end)
        return ids[: ends[0] if len(ends) else len(ids)].astype(np.uint16)

    def _tensor(self, ids: npt.NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(ids).to(self.network.device)


def main() -> None:
    """Writes answers to the validation rows of a data file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--lora", type=Path, help="without it the untrained network writes")
    parser.add_argument(
        "--quantised", action="store_true", help="write with weights as the prepared file has them"
    )
    parser.add_argument("--together", type=int, default=128)
    parser.add_argument("--most", type=int, default=320, help="tokens of an answer")
    parser.add_argument("--rows", type=int, default=0, help="only the first ones of each family")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    began = time.monotonic()
    dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    config, weights = load_weights(
        options.network, options.device, dtype, quantised=options.quantised
    )
    lora = Lora.load(options.lora, config, options.device) if options.lora else None
    data = Data(options.data)
    rows = data.rows(1)
    if options.rows:
        families = {number: data.family[rows] == number for number in range(len(data.families))}
        rows = [row for mask in families.values() for row in np.array(rows)[mask][: options.rows]]
    network = Network(config, weights, lora, quantised=options.quantised)
    network.refresh()
    found = Writer(network, data, most=options.most).answers(rows, together=options.together)
    numbers = sorted(found)
    lengths = np.array([len(found[row]) for row in numbers], dtype=np.int32)
    flat = np.concatenate([found[row] for row in numbers])
    np.savez_compressed(options.out, rows=np.array(numbers), answers=flat, answers_lengths=lengths)
    print(f"{len(numbers)} answers in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
