"""Weights that other programs have fetched already: found by size, told by hash."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from plansmith.adapters.models.local.known import KnownModel
from plansmith.adapters.models.local.shelf import digest_of


def caches(environment: Mapping[str, str] | None = None) -> dict[str, Path]:
    """The folders in which Hugging Face, LM Studio and Ollama keep weights, by program."""
    environment = os.environ if environment is None else environment
    home = Path(environment.get("HOME") or Path.home())
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    hugging = Path(environment.get("HF_HOME") or cache / "huggingface")
    return {
        "Hugging Face": Path(environment.get("HF_HUB_CACHE") or hugging / "hub"),
        "LM Studio": home / ".lmstudio" / "models",
        "LM Studio (old)": cache / "lm-studio" / "models",
        "Ollama": Path(environment.get("OLLAMA_MODELS") or home / ".ollama" / "models") / "blobs",
        "Ollama (service)": Path("/usr/share/ollama/.ollama/models/blobs"),
    }


def find_elsewhere(
    model: KnownModel, environment: Mapping[str, str] | None = None
) -> tuple[str, Path] | None:
    """The program and the file that holds exactly this model, if there is one."""
    for program, folder in caches(environment).items():
        for path in _of_size(folder, model.size):
            # Ollama names files by their hash: one more reason to look, none to trust.
            if digest_of(path) == model.sha256:
                return program, path
    return None


def _of_size(folder: Path, size: int) -> Iterator[Path]:
    seen: set[Path] = set()
    for root, _, names in os.walk(folder, onerror=lambda _: None):
        for name in names:
            try:
                path = (Path(root) / name).resolve()
                if path not in seen and path.is_file() and path.stat().st_size == size:
                    seen.add(path)
                    yield path
            except OSError:
                continue  # a link to nowhere, or a folder that is not ours to read
