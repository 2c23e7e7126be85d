"""The page goes into the wheel: built before packing, where node is there to build it with."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Runs scripts/page; without node the package has the API, and its page says how to build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page for wheels and source archives; an editable install needs none."""
        del build_data
        root = Path(self.root).parents[1]  # the clone; a source archive has the page already
        if version == "editable" or not (root / "web" / "package.json").is_file():
            return
        done = subprocess.run([str(root / "scripts" / "page")], cwd=root, check=False)  # noqa: S603
        if done.returncode:
            self.app.display_warning("the page was not built: `plansmith serve` has the API only")
