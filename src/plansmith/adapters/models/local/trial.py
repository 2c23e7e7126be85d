"""A trial: whether the weights are whole, the runtime is there, and the two really answer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from plansmith.adapters.models.local.engine import Engine, fitting_threads, usable_cores
from plansmith.adapters.models.local.model import LocalModel
from plansmith.errors import PlansmithError
from plansmith.planner.listen import listen
from plansmith.ports import Message, Prompt

_ASKED = "Is water wet? Answer yes or no."
_GRAMMAR = 'root ::= "yes" | "no"\n'


@dataclass(frozen=True, slots=True)
class Trial:
    """What a trial found; `flaw` is empty when the model answered."""

    answer: str = ""
    load_s: float = 0.0
    answer_s: float = 0.0
    flaw: str = ""


async def try_model(path: Path) -> Trial:
    """Load the weights by themselves and have them answer one question under a grammar."""
    engine = Engine(path, context=512, threads=fitting_threads(usable_cores()))
    model = LocalModel(lambda: engine, name=path.name)
    asked = [Message("user", _ASKED)]
    start = time.monotonic()
    try:
        await listen(model.constrained(Prompt(asked), grammar=_GRAMMAR))
        loaded = time.monotonic()
        heard = await listen(model.constrained(Prompt(asked), grammar=_GRAMMAR))
    except PlansmithError as error:
        return Trial(flaw=str(error))
    finally:
        engine.close()
    return Trial(heard.text, round(loaded - start, 2), round(time.monotonic() - loaded, 2))
