"""Attention of endings behind a shared start: a fast kernel where it works, a mask elsewhere."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(queries of the last places, keys, values) -> outputs; all are (batch, heads, places, size)."""


_MOST: Final = 0.05  # of the greatest value; half precision gives about 0.01


def masked(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attends to all places up to the query's own, by a mask that is written out."""
    count, places = queries.shape[2], keys.shape[2]
    mask = torch.ones(count, places, dtype=torch.bool, device=queries.device).tril(places - count)
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


def aligned(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Does the same with the kernel that needs no mask."""
    bias = causal_lower_right(queries.shape[2], keys.shape[2])
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=bias)


def best_attention(device: str, dtype: torch.dtype) -> tuple[str, Attention]:
    """Returns the fast kernel if it gives the same outputs and gradients as the mask here."""
    if device == "cpu":
        return "masked", masked
    try:
        alike = difference(device, dtype) < _MOST
    except (RuntimeError, TypeError, ValueError) as error:
        print(f"the fast attention fails here, a mask is used: {error}")
        alike = False
    return ("aligned", aligned) if alike else ("masked", masked)


def difference(device: str, dtype: torch.dtype) -> float:
    """Returns how far outputs and gradients of the two ways are apart, at most."""
    torch.manual_seed(0)
    sizes = ((3, 14, 40, 64), (3, 14, 104, 64), (3, 14, 104, 64))
    drawn = [torch.randn(size, device=device) for size in sizes]
    results: list[list[Tensor]] = []
    for way, kind in ((masked, torch.float32), (aligned, dtype)):
        inputs = [each.to(kind, copy=True).requires_grad_() for each in drawn]
        output = way(*inputs)
        output.square().sum().backward()
        results.append([output, *(each.grad for each in inputs if each.grad is not None)])
    return max(
        float(((exact - near.float()).abs().max() / exact.abs().max()).item())
        for exact, near in zip(*results, strict=True)
    )
