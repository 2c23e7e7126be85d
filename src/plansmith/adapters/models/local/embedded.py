"""Finds the embedded model by name: `local`, `local:NAME` or `local:FILE.gguf`."""

from __future__ import annotations

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
)
from plansmith.adapters.models.local.model import LocalModel
from plansmith.ports import ChatModel

CONTEXT: Final = 8192
_LARGE: Final = 6_000_000_000  # bytes from which unknown weights are trusted with whole plans


def embedded_model(
    name: str = "", *, context: int = CONTEXT, folder: Path | None = None
) -> ChatModel:
    """Returns the model of a name; loads and checks nothing before its first call."""
    models = ModelFolder(folder)
    wished = name or models.chosen or DEFAULT

    def engine() -> Engine:
        path, known = weights_path(wished, models)
        tokens = min(context, known.context) if known else context
        return shared_engine(path, tokens, models.states)

    model = LocalModel(engine, name=f"local:{wished}")
    return DraftingModel(model) if _style(wished) is DraftStyle.CALLS else model


def _style(name: str) -> DraftStyle:
    known = KNOWN.get(name)
    if known is not None:
        return known.style
    path = Path(name).expanduser()
    large = path.is_file() and path.stat().st_size >= _LARGE
    return DraftStyle.PLAN if large else DraftStyle.CALLS
