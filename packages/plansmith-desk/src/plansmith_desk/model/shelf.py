"""The models that run in this process, for who chooses, lists or downloads one."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from plansmith.plan.sentence import Sentence
from plansmith_desk.model.download import pull_local, pull_remote
from plansmith_desk.model.files import KNOWN, KnownModel, ModelFolder, known_model
from plansmith_desk.settings import program
from plansmith_planner.models.choose import Choice, KeptModel, Progress, Tried


class EmbeddedShelf(ModelFolder):
    """The folder of model files, as a shelf of models that can be chosen and downloaded."""

    @property
    def has_runtime(self) -> bool:
        return find_spec("xllamacpp") is not None

    @property
    def pull_hint(self) -> str:
        """The command that downloads the model `local` stands for, with its size."""
        model = KNOWN.get(self.chosen) or known_model("")
        return f"`{program()} model pull`, {model.size / 1e9:.2f} GB, {model.licence}"

    def option(self) -> Choice | Tried:
        """Returns the model that `local` stands for; or why it cannot be used."""
        name = self.chosen or known_model("").name
        known = KNOWN.get(name)
        here = self.has(known) if known else Path(name).expanduser().is_file()
        if not here:
            flaw = Sentence("its file is not here ({how})", how=self.pull_hint)
            return Tried("embedded", f"local:{name}", flaw)
        if not self.has_runtime:
            return Tried(
                "embedded", f"local:{name}", Sentence("its runtime is missing (plansmith[local])")
            )
        return Choice(
            "embedded",
            f"local:{name}",
            Sentence("embedded: no key in the environment, no server on this machine"),
        )

    def models(self) -> Sequence[KeptModel]:
        return [self._kept(each) for each in KNOWN.values() if each.adapter is not None]

    def model(self, name: str) -> KeptModel:
        return self._kept(known_model(name))

    def pull(self, name: str, progress: Progress) -> None:
        model = known_model(name)
        if pull_local(model, self) is None:
            pull_remote(model, self, progress=progress)

    def _kept(self, model: KnownModel) -> KeptModel:
        return KeptModel(
            model.name,
            model.about,
            model.size,
            model.licence,
            is_here=self.has(model),
            is_default=model == known_model(""),
        )
