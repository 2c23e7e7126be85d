"""Rounds weights as the prepared model file does, and trains through the rounding.

The forward pass multiplies with what people's machines multiply with; the gradient passes as if
nothing were rounded.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from plansmith_desk.model.gguf import BLOCK, PLACES


def rounded(values: Tensor) -> Tensor:
    """Returns values (float32) after four bits, by the rule of `gguf.quantize`."""
    with torch.no_grad():
        return _rounded(values.reshape(-1, BLOCK)).view_as(values)


def _rounded(blocks: Tensor) -> Tensor:
    most, least = blocks.amax(1, keepdim=True), blocks.amin(1, keepdim=True)
    largest = torch.where(most > -least, most, least)
    turned = torch.where(largest == 0, 0.0, 1 / largest)
    best = scales = gains = torch.zeros_like(largest)
    for place in PLACES:
        steps = _steps(blocks, turned * place)
        shared = (steps * blocks).sum(1, keepdim=True)
        scale = shared / steps.square().sum(1, keepdim=True).clamp(min=1e-30)
        gain = shared * scale
        better = gain > gains
        best = torch.where(better, place, best)
        scales, gains = torch.where(better, scale, scales), torch.where(better, gain, gains)
    return _steps(blocks, turned * best) * scales.half().float()


def _steps(blocks: Tensor, factors: Tensor) -> Tensor:
    return (blocks * factors).round_().clamp_(-8, 7)


class RoundedLinear(torch.autograd.Function):  # type: ignore[misc] # torch has no types here
    """A linear layer with rounded weights; its gradient goes to the LoRA inside the rounding."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None, *lora: Tensor
    ) -> Tensor:
        """Multiplies with the rounded weights; `lora` is (rank, inputs) and (rank, outputs)."""
        ctx.save_for_backward(inputs, weight, *lora)
        return functional.linear(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Returns the gradients of the inputs and of both LoRA matrices."""
        inputs, weight, down, up = ctx.saved_tensors
        to_down = (gradient @ up.t()).t() @ inputs
        to_up = (inputs @ down.t()).t() @ gradient
        return gradient @ weight, None, None, to_down, to_up
