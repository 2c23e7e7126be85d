"""Finds the embedded model by name: `local`, `local:NAME`, `local:FILE.gguf`, with an adapter."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from plansmith.adapters.models.local.drafting import DraftingModel
from plansmith.adapters.models.local.engine import Engine, shared_engine
from plansmith.adapters.models.local.files import (
    DEFAULT,
    KNOWN,
    DraftStyle,
    ModelFolder,
    weights_path,
    with_adapter,
)
from plansmith.adapters.models.local.model import LocalModel
from plansmith.adapters.models.local.prepare import preparation

CONTEXT: Final = 8192
_LARGE: Final = 6_000_000_000  # bytes from which unknown weights are trusted with whole plans


def embedded_model(
    name: str = "",
    *,
    context: int = CONTEXT,
    folder: Path | None = None,
    without: Collection[str] = (),
) -> LocalModel | DraftingModel:
    """Returns the model of a name; loads and checks nothing before its first call.

    `without` names parts of drafting to leave out, so that a bench can measure them.
    """
    models = ModelFolder(folder)
    wished = name or models.chosen or DEFAULT

    def engine() -> Engine:
        weights = weights_path(wished, models)
        tokens = min(context, weights.model.context) if weights.model else context
        return shared_engine(
            weights.path,
            tokens,
            models.states,
            adapter=weights.adapter,
            preparation=preparation(weights, models),
        )

    model = LocalModel(engine, name=f"local:{wished}")
    style = _style(wished)
    return model if style is DraftStyle.PLAN else DraftingModel(model, style=style, without=without)


def _style(name: str) -> DraftStyle:
    name, adapter = with_adapter(name)
    if adapter:
        return DraftStyle.TUNED
    known = KNOWN.get(name)
    if known is not None:
        return known.style
    path = Path(name).expanduser()
    large = path.is_file() and path.stat().st_size >= _LARGE
    return DraftStyle.PLAN if large else DraftStyle.CALLS
