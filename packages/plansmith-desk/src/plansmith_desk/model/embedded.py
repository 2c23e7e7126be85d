"""Finds the embedded model by name: `local`, `local:NAME`, `local:FILE.gguf`, with an adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from plansmith_desk.model.drafting import DraftingModel
from plansmith_desk.model.engine import Engine, shared_engine
from plansmith_desk.model.files import DEFAULT, ModelFolder, preparation, weights_path, with_adapter
from plansmith_desk.model.model import LocalModel

CONTEXT: Final = 8192
_LARGE: Final = 6_000_000_000  # bytes from which unknown weights are trusted with whole plans


def embedded_model(
    name: str = "", *, context: int = CONTEXT, folder: Path | None = None
) -> LocalModel | DraftingModel:
    """Returns the model of a name; loads and checks nothing before its first call."""
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
    base, adapter = with_adapter(wished)
    path = Path(base).expanduser()
    # An adapter is trained to write calls.
    writes_plans = not adapter and path.is_file() and path.stat().st_size >= _LARGE
    return model if writes_plans else DraftingModel(model)
