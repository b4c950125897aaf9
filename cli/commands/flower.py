"""`privplan flower init`: the plan of a run over a network, and the server's application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..inputs.options import option_group
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, table
from .doctor import naming_install_command


@option_group
class InitRequest(OutputOptions):
    """A configuration, and the keys of the silos that make the run together."""

    config: Annotated[
        str, typer.Argument(metavar="CONFIG.toml", help="What to run (privplan explain run).")
    ]
    out: Annotated[str, typer.Option("--out", "-o", metavar="APP", help="A new folder.")]
    silo: Annotated[
        list[str],
        typer.Option(metavar="NAME=KEY", help="A silo, by the key that guard key printed."),
    ]
    seconds: Annotated[int, typer.Option(help="How long a phase of a round may take.")] = 120
    insecure_seed: Annotated[
        bool,
        typer.Option("--insecure-seed", help="Allow a seed, for a rehearsal on one machine."),
    ] = False


@takes(InitRequest)
def init(_: typer.Context, asked: InitRequest) -> Report:
    """Write the plan that silos sign, and the application that the server's operator starts.

    The plan holds the configuration, what it promises, and the keys of all parties.  The folder
    server/ keeps the server's key and its log; the folder flower/ is what Flower bundles.
    """
    from ...accountant.errors import InvalidInput

    silos: dict[str, bytes] = {}
    for each in asked.silo:
        name, _separator, key = each.partition("=")
        try:
            silos[name] = bytes.fromhex(key)
        except ValueError:
            raise InvalidInput(
                f"--silo {each!r:.80} is no NAME=KEY.",
                "A silo is known by its public key, 64 digits.",
                "Ask the silo for it: privplan guard key DIR",
            ) from None
    with naming_install_command("fl"):
        from ...fl.network.flower_app import BUNDLE_FOLDER, PLAN_FILE, write_app
        from ...fl.settings.toml_file import content_of

        app = Path(asked.out)
        config = content_of(Path(asked.config)).decode("utf-8-sig")
        plan = write_app(config, app, silos, seconds=asked.seconds, insecure=asked.insecure_seed)
    rows = [
        ("plan", f"{app / PLAN_FILE}   {plan.digest.hex()}"),
        ("each silo", f"privplan guard show {PLAN_FILE}"),
        ("", f"privplan guard sign {PLAN_FILE} --state DIR"),
        ("start", f"flwr run {app / BUNDLE_FOLDER} CONNECTION --stream"),
        ("audit", f"privplan audit log {app / 'server' / 'run'} --against SILO/run --against ..."),
    ]
    result = {"app": str(app), "digest": plan.digest.hex(), "promise": dict(plan.promise)}
    return Report(result, table(rows), plan.digest.hex())
