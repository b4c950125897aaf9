"""Flower's own deployment on loopback: a superlink and supernodes, and `flwr run` of an app."""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE

from privplan.fl.network.demo import Demonstration

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
_RUN_SECONDS = 120.0


class Deployment(Demonstration):
    """A superlink and two supernodes, each of which runs an app in processes of its own."""

    def start_clients(self, count: int) -> None:
        """Start the superlink and so many supernodes, which keep their logs in `silo-N`."""
        home = self.folder / "home"
        home.mkdir()
        link = f'[superlink.here]\naddress = "127.0.0.1:{self._port("superlink")}"\n'
        text = f'[superlink]\ndefault = "here"\n{link}insecure = true\n'
        (home / "config.toml").write_text(text, "utf-8")
        self.start_superlink()
        for number in range(count):
            logs = self.folder / f"silo-{number}"
            self._run(
                f"node-{number}",
                ["flower-supernode", "--insecure", "--isolation", "subprocess"],
                ["--superlink", f"127.0.0.1:{self._port('superlink')}"],
                ["--port", str(self._port(f"node-{number}"))],
                ["--node-config", f'silo={number} logs="{logs}"'],
            )

    def run_app(self, log: Path, client: Mapping[str, str] | None = None) -> str:
        """Run the example with `flwr run`, its log in a folder, and return what was printed.

        `client` are texts of its client, and what takes their place.
        """
        app = self.folder / f"app-{log.name}"
        shutil.copytree(EXAMPLE, app)
        path = app / "study" / "client.py"
        text = path.read_text("utf-8")
        for before, after in (client or {}).items():
            assert before in text
            text = text.replace(before, after)
        path.write_text(text, "utf-8")
        command = ["flwr", "run", str(app), "here", "--stream", "--run-config", f'log="{log}"']
        process = self._run("run", command, stdout=PIPE)
        assert process.stdout is not None
        said, end = [], time.monotonic() + _RUN_SECONDS
        with contextlib.ExitStack() as ending:
            ending.callback(process.wait, 10)
            ending.callback(process.terminate)
            for raw in process.stdout:
                said.append(raw.decode("utf-8", "replace"))
                if re.search("exited with|Run finished", said[-1]) or time.monotonic() > end:
                    break
        return "".join(said)
