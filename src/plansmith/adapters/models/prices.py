"""What a model call costs in US dollars, by genai-prices; None when nobody knows."""

from __future__ import annotations

import importlib
from decimal import Decimal
from typing import Any, cast


def price_of(
    tokens: object, name: str, *, provider: str, url: str | None = None, only_url: bool = False
) -> Decimal | None:
    """The price of a usage object of genai-prices' shape.

    `only_url` when the address is a server of one's own: a local model that shares a name with
    a paid one must not be billed like it.
    """
    try:
        calc_price: Any = importlib.import_module("genai_prices").calc_price
    except ImportError:
        return None
    references = [{"provider_api_url": url}] if url else []
    if not only_url:
        references.append({"provider_id": provider.removeprefix("gateway/")})
    for reference in references:
        try:
            total = cast("Decimal", calc_price(tokens, name, **reference).total_price)
        # Besides LookupError, odd counts (more cached tokens than tokens) are a ValueError.
        except (LookupError, ValueError):
            continue
        return total if total > 0 else None
    return None
