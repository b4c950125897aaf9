"""The command line `privplan`: its commands, and the one place where an error becomes an exit.

Nothing heavy is imported here: `privplan --help` must answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Final

import typer
import typer.core

from .commands.account import AccountRequest, account
from .commands.audit_attack import attack
from .commands.audit_budget import budget
from .commands.audit_canaries import make, score
from .commands.audit_counts import counts
from .commands.audit_demo import demo
from .commands.audit_log import log
from .commands.audit_scores import scores
from .commands.calibrate import CalibrateRequest, calibrate
from .commands.check import check
from .commands.claims import claims
from .commands.data import check as data_check
from .commands.data import ids, schema
from .commands.doctor import doctor
from .commands.examples import examples
from .commands.explain import explain
from .commands.flower import init
from .commands.guard import guard, key, show, sign, status
from .commands.ledger import audit_ledger, export, witness
from .commands.network import demo as network_demo
from .commands.plan import PlanRequest, plan
from .commands.plot import PLOT_DOCUMENTATION, checks, ledger, noise, profile, rounds, trade_off
from .commands.plot import claims as plot_claims
from .commands.plot import utility as plot_utility
from .commands.report import report
from .commands.run import run
from .commands.serve import serve
from .inputs import defaults_file
from .inputs.request import keys_of
from .terminal import exit_codes, output
from .terminal.exit_codes import Interruption
from .terminal.typed_words import CommandGroup, read_as_people_write

KEYS_BY_TABLE: Final = {
    "account": keys_of(AccountRequest),
    "calibrate": keys_of(CalibrateRequest),
    "plan": keys_of(PlanRequest),
}
"""The tables that `privplan.toml` may hold, and the keys of each."""


HELP: Final = ("-h", "--help")


class Commands(CommandGroup):
    """The group of commands; it reads `privplan.toml` and turns every error into an exit."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that `args` name, and leave with its exit code."""
        arguments = list(sys.argv[1:] if args is None else args)
        # Read by hand: an error may come before Typer has parsed anything.
        as_json = "--json" in arguments
        try:
            if not any(each in HELP for each in arguments):
                defaults_file.require_known_variables(lambda: _variables(self))
            extra.setdefault("default_map", defaults_file.defaults(arguments, KEYS_BY_TABLE))
            code = super().main(
                args=args,
                prog_name=prog_name or "privplan",
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
            if code == exit_codes.INTERRUPTED:  # Typer makes an exit of every interruption
                code = output.fail(Interruption(), as_json=as_json)
        except Exception as error:
            if not standalone_mode:
                raise
            code = output.fail(error, as_json=as_json)
        if not standalone_mode:
            return code
        output.discard_unwritten()
        sys.exit(code if isinstance(code, int) else exit_codes.OK)


def _variables(group: typer.core.TyperGroup) -> Iterator[str]:
    """Yield the variables that options of the commands of a group read."""
    for command in group.commands.values():
        if isinstance(command, typer.core.TyperGroup):
            yield from _variables(command)
        yield from (str(option.envvar) for option in command.params if option.envvar)


class Command(typer.core.TyperCommand):
    """A command whose options have variables, and which says what was not set in its line."""

    def __init__(self, name: str | None, **given: Any) -> None:
        super().__init__(name, **given)
        defaults_file.read_variables(name or "", self.params, KEYS_BY_TABLE)
        read_as_people_write(self.params)

    def invoke(self, context: Any) -> Any:
        """Run the command; what came from elsewhere is said after it, and in an error's reason."""
        try:
            answer = super().invoke(context)
        except typer.Exit:
            output.note(defaults_file.sources(context))
            raise
        except Exception as error:
            error.add_note(defaults_file.sources(context))
            raise
        output.note(defaults_file.sources(context))
        return answer


app = typer.Typer(
    name="privplan",
    cls=Commands,
    context_settings={"help_option_names": list(HELP)},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=(
        "Options of account, calibrate and plan may also be set by variables (PRIVPLAN_DELTA for "
        "--delta), or in privplan.toml in the working directory; flags win.  Exit codes: 0 fine, "
        "1 the check failed, 2 usage, 3 cannot be computed, 4 needs an extra."
    ),
)


def _version(requested: bool) -> None:
    if requested:
        from importlib import metadata

        typer.echo(f"privplan {metadata.version('privplan')}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def privplan(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Plan noise, account for it from both sides, and say how every number follows."""
    del version
    # Help that nobody asked for is an error of usage, so it goes to standard error.
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(exit_codes.USAGE)


# In the order in which the help lists them.
for command in (
    calibrate,
    plan,
    run,
    account,
    check,
    claims,
    report,
    explain,
    examples,
    doctor,
    serve,
):
    app.command(cls=Command)(command)


def _group(
    name: str,
    about: str | None,
    commands: dict[str, Callable[..., Any]],
    alone: Callable[..., None] | None = None,
    within: typer.Typer = app,
) -> typer.Typer:
    """Add a group of commands and return it; where none is named, `alone` is what it does.

    Where it does nothing, its help is an error of usage.
    """
    group = typer.Typer(name=name, cls=CommandGroup, help=about, rich_markup_mode=None)

    def usage(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help(), err=True)
            raise typer.Exit(exit_codes.USAGE)

    group.callback(invoke_without_command=True)(usage if alone is None else alone)

    for called, command in commands.items():
        group.command(name=called, cls=Command)(command)
    within.add_typer(group)
    return group


audit = _group(
    "audit",
    "Check what a run has left behind.",
    {
        "log": log,
        "budget": budget,
        "attack": attack,
        "counts": counts,
        "scores": scores,
        "demo": demo,
        "ledger": audit_ledger,
    },
)
_group(
    "canaries",
    "Insert examples with secret coins into a training, and guess the coins from its model.",
    {"make": make, "score": score},
    within=audit,
)
_group(
    "plot",
    PLOT_DOCUMENTATION,
    {
        "rounds": rounds,
        "noise": noise,
        "profile": profile,
        "trade-off": trade_off,
        "claims": plot_claims,
        "check": checks,
        "ledger": ledger,
        "utility": plot_utility,
    },
)
_group(
    "ledger",
    "Watch a budget ledger from outside.",
    {"witness": witness, "export": export},
)
_group(
    "data",
    "Prepare tables of your own: a schema, what is wrong in them, hidden ids.",
    {"schema": schema, "check": data_check, "ids": ids},
)
_group(
    "guard",
    guard.__doc__,
    {"show": show, "sign": sign, "key": key, "status": status},
    alone=guard,
)
_group(
    "flower",
    "Write a plan for silos to sign, and the server's application for Flower.",
    {"init": init},
)
_group(
    "network",
    "See a run over a network on one machine.",
    {"demo": network_demo},
)
