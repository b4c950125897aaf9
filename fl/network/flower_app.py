"""The application for Flower that the operator of the server starts, its plan, and what it does.

APP/flower/        what Flower bundles: a server that is ours, a client that never runs, and
                   where plan and folder are
APP/plan.toml      what every silo reads, and signs
APP/server/        the server's key, its log and its odometer: in no bundle
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.toml_source import toml_text
from ..files import atomic
from ..parties.network import SERVER
from ..running.preparation import prepare
from .courier import Courier, Nodes
from .guard_log import SERVER_FILE, GuardLog
from .hub import Hub
from .journal import identity_in, state_folder
from .plan import USUAL_SECONDS, NetworkPlan, SiloKey, code_version
from .planned_run import configuration_of, party, promise_of, shared_config
from .server_seat import planning_seat

PLAN_FILE: Final = "plan.toml"
SERVER_FOLDER: Final = "server"
BUNDLE_FOLDER: Final = "flower"
PACKAGE: Final = "privplan_app"

_PROJECT: Final = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "privplan-app"
version = "1.0.0"
description = "The server of a run of privplan over a network"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "privplan"

[tool.flwr.app.components]
serverapp = "{package}.server:app"
clientapp = "{package}.client:app"

[tool.flwr.app.config]
plan = {plan}
folder = {folder}
"""

_SERVER: Final = '''"""The server of a run over a network: all of it is privplan's."""

from privplan.fl.network.flower import server_app

app = server_app()
'''

_CLIENT: Final = '''"""No client: each silo's own guard answers, and runs nothing of this."""

from flwr.clientapp import ClientApp

app = ClientApp()
'''


def write_app(
    config: str,
    app: Path,
    silos: Mapping[str, bytes],
    *,
    seconds: int = USUAL_SECONDS,
    insecure: bool = False,
) -> NetworkPlan:
    """Write an application and its plan in a new folder; return the plan, which nobody has signed.

    `silos` are the public keys by the silos' names, in the order of the configuration where that
    names them.  Raises `InvalidInput` for a folder that is not empty, and where names or numbers of
    silos do not fit; and what planning the run raises.
    """
    if app.exists() and any(app.iterdir()):
        raise InvalidInput(
            f"{app} is not an empty folder.",
            "It holds the key of one server, and the log of one run.",
            "Name a new folder.",
        )
    shared, schema, named = shared_config(config)
    if named and set(named) != set(silos):
        raise InvalidInput(
            f"The configuration names the silos {', '.join(named)}, and keys were given of "
            f"{', '.join(silos)}.",
            "Every silo is known by its key.",
            "Give --silo NAME=KEY for each of them.",
        )
    keys = tuple(SiloKey(name, silos[name]) for name in named or silos)
    folder = state_folder(app / SERVER_FOLDER)
    server = identity_in(folder, make=True)
    draft = NetworkPlan(
        shared, schema, code_version(), {}, server.public, keys, seconds, insecure=insecure
    )
    try:
        promise = _promise_of(draft, folder)
    except BaseException:
        shutil.rmtree(app, ignore_errors=True)  # nobody knows yet of the key that was made in it
        raise
    plan = replace(draft, promise=promise)
    plan.write(app / PLAN_FILE)
    package = app / BUNDLE_FOLDER / PACKAGE
    package.mkdir(parents=True)
    project = _PROJECT.format(
        package=PACKAGE,
        plan=toml_text(str((app / PLAN_FILE).absolute())),
        folder=toml_text(str(folder.absolute())),
    )
    atomic.write(app / BUNDLE_FOLDER / "pyproject.toml", project.encode())
    atomic.write(package / "__init__.py", b'"""The application of a server."""\n')
    atomic.write(package / "server.py", _SERVER.encode())
    atomic.write(package / "client.py", _CLIENT.encode())
    return plan


def run_server(plan_file: Path, folder: Path, nodes: Nodes) -> None:
    """Be the server of a plan, by the nodes of a network, to the end of the run.

    What it does is printed, and noted in its folder: what is printed is lost with the superlink.
    Raises what `Hub.run` raises.
    """
    plan = NetworkPlan.read(plan_file)
    log = GuardLog(folder, file=SERVER_FILE)

    def say(sentence: str) -> None:
        print(sentence, flush=True)
        log.write("said", sentence=sentence)

    try:
        Hub(plan, folder, Courier(nodes, plan), tell=say).run_to_the_end()
    except BaseException as error:
        log.write("stopped", why=getattr(error, "what", type(error).__name__))
        raise


def _promise_of(draft: NetworkPlan, folder: Path) -> Mapping[str, str]:
    """Return what the run of a plan promises, and require as many silos as it has keys."""
    settings = configuration_of(draft, folder).settings
    prepared = prepare(settings, seat=planning_seat(party(SERVER, draft, ""), draft.roster))
    if prepared.opening.population.silos != len(draft.silos):
        raise InvalidInput(
            f"The configuration has {prepared.opening.population.silos} silos, and keys were given "
            f"of {len(draft.silos)}.",
            "Every silo is known by its key.",
            "Give --silo NAME=KEY for each of them.",
        )
    return promise_of(prepared)
