"""`privplan guard`: a silo's own process, which alone has the data, draws the noise and refuses."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..inputs.options import option_group
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, plain, printable, table
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ...fl.network.plan import NetworkPlan

PlanFile = Annotated[
    str, typer.Argument(metavar="PLAN.toml", help="The plan that privplan flower init wrote.")
]
State = Annotated[
    str,
    typer.Option("--state", metavar="DIR", help="The silo's folder: key, log, what it gave out."),
]

GUARD_EXAMPLE: Final = (
    "privplan guard --plan PLAN.toml --data FILE.csv --state DIR --supernode 127.0.0.1:9094 "
    "--secret FILE"
)

_LOOPBACK: Final = ("127.0.0.1:", "localhost:", "[::1]:")


@option_group
class ShowRequest(OutputOptions):
    """A plan that is to be read."""

    plan: PlanFile


@option_group
class SignRequest(OutputOptions):
    """A plan that a silo agrees to."""

    plan: PlanFile
    state: State


@option_group
class FolderRequest(OutputOptions):
    """A silo's folder."""

    folder: Annotated[str, typer.Argument(metavar="DIR", help="The silo's folder.")]


def guard(
    context: typer.Context,
    plan: Annotated[
        str | None, typer.Option(metavar="PLAN.toml", help="The plan that this silo has signed.")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="The silo's own files of the table.")
    ] = None,
    state: Annotated[
        str | None, typer.Option(metavar="DIR", help="The silo's folder, made by guard key.")
    ] = None,
    supernode: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where Flower's supernode hands out tasks.")
    ] = "127.0.0.1:9094",
    secret: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The file of --superexec-auth-secret-file."),
    ] = None,
    insecure_seed: Annotated[
        bool, typer.Option("--insecure-seed", help="Take a plan with a seed, on one machine.")
    ] = False,
) -> None:
    """Be the guard of a silo: answer the server by the plan that the silo signed, and nothing else.

    It alone opens the data, draws the noise and keeps the budget.  It trusts nothing that comes
    from the network, installs and runs nothing of it, and stops with SIGTERM; started again, it
    goes on from its log.
    """
    if context.invoked_subcommand is not None:
        return
    from ...accountant.errors import InvalidInput

    if plan is None or state is None or secret is None:
        raise InvalidInput(
            "A guard needs --plan, --state and --secret.",
            "They are what the silo agreed to, where it keeps its log, and how it gets its tasks.",
            GUARD_EXAMPLE,
        )
    with naming_install_command("flower"):
        _serve(plan, data or [], Path(state), supernode, Path(secret), insecure_seed=insecure_seed)


@takes(ShowRequest)
def show(_: typer.Context, asked: ShowRequest) -> Report:
    """Print what a silo agrees to when it signs a plan: in words, with the digest."""
    with naming_install_command("fl"):
        plan = _read(asked.plan)
    rows = [(plain(name), plain(value)) for name, value in plan.promise.items()]
    schema = ["", "The schema of its table:", printable(plan.schema.rstrip("\n"))]
    signed = _signed(plan)
    parties = [
        (silo.name, f"{silo.key.hex()}   {'signed' if silo.name in signed else 'not signed'}")
        for silo in plan.silos
    ]
    words = "\n".join(
        [
            table([("plan", plan.digest.hex()), ("code", plain(plan.version))]),
            "",
            "What is promised, and computed again by every party:",
            table(rows),
            "",
            "Who takes part, by their keys:",
            table([("server", plan.server.hex()), *parties]),
            "",
            "\n".join(textwrap.wrap(plain(_agreement(plan)), 92)),
            "",
            "The configuration:",
            printable(plan.config.rstrip("\n")),
            *(schema if plan.schema else ()),
        ]
    )
    result = {
        "digest": plan.digest.hex(),
        "version": plan.version,
        "promise": dict(plan.promise),
        "server": plan.server.hex(),
        "silos": {silo.name: silo.key.hex() for silo in plan.silos},
        "signed": sorted(signed),
        "insecure_seed": plan.insecure,
        "seconds": plan.seconds,
    }
    warnings = (
        ("The plan has a seed: its noise can be repeated, and protects nobody.",)
        if plan.insecure
        else ()
    )
    return Report(result, words, plan.digest.hex(), warnings=warnings)


@takes(SignRequest)
def sign(_: typer.Context, asked: SignRequest) -> Report:
    """Sign a plan by the key of a silo (Ed25519): the silo's guard runs it, and no other."""
    with naming_install_command("fl"):
        from ...fl.network.journal import identity_in

        plan = _read(asked.plan)
        identity = identity_in(Path(asked.state))
        agreed = plan.signed_by(identity)
        agreed.write(Path(asked.plan))
        name = agreed.silos[agreed.silo_of(identity.public)].name
    missing = [silo.name for silo in agreed.silos if silo.name not in _signed(agreed)]
    text = f"{name} has signed the plan {plan.digest.hex()}."
    if missing:
        text += f"\nNot yet signed by: {', '.join(missing)}"
    return Report(
        {"digest": plan.digest.hex(), "silo": name, "missing": missing}, text, plan.digest.hex()
    )


@takes(FolderRequest)
def key(_: typer.Context, asked: FolderRequest) -> Report:
    """Print the public key of a silo; its folder and its key are made where there are none."""
    with naming_install_command("fl"):
        from ...fl.network.journal import identity_in, state_folder

        public = identity_in(state_folder(Path(asked.folder)), make=True).public.hex()
    return Report({"key": public}, public, public)


@takes(FolderRequest)
def status(_: typer.Context, asked: FolderRequest) -> Report:
    """Say what a silo has given out, and what is left of its plan."""
    with naming_install_command("fl"):
        from ...fl.network.silo_status import SiloStatus

        seen = SiloStatus.of(Path(asked.folder))
    left = f"{(seen.planned or 0) - seen.spent} rounds"
    if seen.planned is None:
        left = "all: the server has not asked for anything yet"
    rows = [
        ("spent", f"{seen.spent} rounds, {seen.released} of them released"),
        ("left", "none: the run is closed" if seen.closed else left),
        *((f"epsilon {who}", f"{value:.6g} so far") for who, value in seen.epsilon.items()),
        ("refused", f"{seen.refused} requests"),
        *(("last", plain(line)) for line in seen.last),
    ]
    result = {
        "spent": seen.spent,
        "released": seen.released,
        "planned": seen.planned,
        "closed": seen.closed,
        "epsilon": dict(seen.epsilon),
        "refused": seen.refused,
        "last": list(seen.last),
    }
    return Report(result, table(rows), str(seen.spent))


def _serve(
    plan: str, data: list[str], state: Path, supernode: str, secret: Path, *, insecure_seed: bool
) -> None:
    import signal
    import threading

    from ...accountant.errors import InvalidInput
    from ...accountant.regular_file import regular_content
    from ...fl.network.flower import serve
    from ...fl.network.guard import Guard

    agreed = _read(plan)
    if agreed.insecure and not (insecure_seed and supernode.startswith(_LOOPBACK)):
        raise InvalidInput(
            "The plan has a seed, by which its noise can be repeated.",
            "It is for rehearsals on one machine, and protects nobody.",
            "Say so with --insecure-seed, with a supernode on this machine.",
        )
    try:
        shared = regular_content(secret, 2**16)
    except OSError as error:
        raise InvalidInput(f"{secret} cannot be read: {error.strerror}.") from None
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    silo = Guard(agreed, state, [Path(file) for file in data], tell=_tell)
    _tell(f'{{"what": "ready", "silo": "{silo.called}", "plan": "{agreed.digest.hex()}"}}')
    try:
        serve(
            silo.handle,
            supernode,
            shared,
            state,
            stop,
            lambda why: silo.log.write("not-carried", why=why),
            silo.largest,
        )
    finally:
        silo.close()


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _read(path: str) -> NetworkPlan:
    from ...fl.network.plan import NetworkPlan

    return NetworkPlan.read(Path(path))


def _signed(plan: NetworkPlan) -> set[str]:
    """Return the names of the silos whose signature under the plan is right."""
    from ...accountant.errors import InvalidInput

    signed = set()
    for number, silo in enumerate(plan.silos):
        try:
            plan.require_signed(number)
        except InvalidInput:
            continue
        signed.add(silo.name)
    return signed


def _agreement(plan: NetworkPlan) -> str:
    """Return what a signature says, in a paragraph."""
    said = plan.promise
    sees = {
        "masked": "the server sees the sum of all silos alone, with the noise of all of them",
        "plain": "the server sees what each silo sends, with that silo's share of the noise",
    }[said.get("aggregation", "plain")]
    values = said.get("values")
    return (
        f"Who signs agrees that its guard takes part in {said.get('rounds')} rounds of "
        f"{said.get('system')} with the {len(plan.silos)} silos above and no others; that in each "
        f"of them it gives out one vector of {values} numbers, to which it added its "
        f"own share of the noise; that {sees}; and that what is released hides one "
        f"{said.get('unit')} as stated. Rounds that are begun are spent, whatever becomes of them. "
        "Nothing that comes from the network is run at the silo."
    )
