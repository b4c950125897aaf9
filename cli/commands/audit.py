"""`privplan audit ...`: the commands that read what runs leave behind."""

from __future__ import annotations

import typer

from ..terminal import output
from .audit_attack import attack
from .audit_budget import budget
from .audit_demo import demo
from .audit_log import log

audit = typer.Typer(name="audit", add_completion=False, rich_markup_mode=None)


@audit.callback(invoke_without_command=True)
def _audit(context: typer.Context) -> None:
    """Check what a run has left behind."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(output.USAGE)


for command in (log, budget, attack, demo):
    audit.command()(command)
