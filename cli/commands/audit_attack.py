"""`privplan audit attack`: what was demonstrably lost, and was it the mechanism that is claimed?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...fl.observers.names import observer_name
from ..inputs import anchors, options
from ..inputs.plot_target import PlotOptions
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, plain
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ...audit.attack import ProgressReporter
    from ...audit.attack.report import AttackRequest


Tiers = Annotated[
    list[str] | None,
    typer.Option(
        "--tier",
        metavar="[" + "|".join(options.TIERS) + "]",
        help="Take this tier; may be given several times.  Without: the first three, where they "
        "can be taken.",
        show_default=False,
    ),
]
Observer = Annotated[
    str | None, options.optional("WHO", "Whose view is taken; without: that of the claim.")
]
Canaries = Annotated[
    int | None,
    options.optional(
        "N",
        "Units that are put in or left out by a coin; without: 50,000, or fewer where each "
        "costs more.",
    ),
]
Rounds = Annotated[int | None, options.optional("N", "Rehearse fewer rounds than planned.")]
Seed = Annotated[
    int | None, options.optional("N", "Make the rehearsal reproducible; fix it beforehand.")
]
Confidence = Annotated[
    float,
    typer.Option(
        metavar="C",
        help="Each number errs with probability 1 - C at most; membership, about.  How seldom a "
        "run is contradicted does not depend on it.",
    ),
]
Data = Annotated[
    Path | None,
    options.optional(
        "PATH",
        "The run's records, which only membership reads; of a table, the configuration that "
        "names its files (DIR/config.toml).  A log names none.",
    ),
]
Code = Annotated[
    list[Path] | None,
    options.optional(
        "FILE",
        "The code of a model of your own, which is executed if its digest is the log's; again "
        "for a loss in another file.",
        "--model",
    ),
]
SignKey = Annotated[
    Path | None, options.optional("FILE", "Ed25519 private key (PEM) of a log that is signed.")
]
DryRun = Annotated[
    bool, typer.Option("--no-append", "--dry-run", help="Leave the folder as it is.")
]


@options.option_group
class AttackOptions(OutputOptions, PlotOptions, anchors.AnchorOptions):
    """A run, and how it is attacked."""

    folder: options.Folder
    tier: Tiers = None
    observer: Observer = None
    canaries: Canaries = None
    rounds: Rounds = None
    seed: Seed = None
    confidence: Confidence = 0.95
    data: Data = None
    model: Code = None
    sign_key: SignKey = None
    no_append: DryRun = False

    def request(self) -> AttackRequest:
        """Return what is measured, as `audit.attack` takes it."""
        from ...audit.attack.report import AttackRequest

        for name in self.tier or ():
            options.word(options.TIERS, tier=name)
        if self.observer is not None:
            observer_name(observer=self.observer)
        return AttackRequest(
            tiers=tuple(self.tier or ()),  # type: ignore[arg-type]
            observer=self.observer,
            canaries=self.canaries,
            rounds=self.rounds,
            seed=self.seed,
            confidence=self.confidence,
            data=self.data,
            code=tuple(self.model or ()),
        )


@takes(AttackOptions)
def attack(_: typer.Context, asked: AttackOptions) -> Report:
    """Measure how much privacy a run demonstrably loses, tier by tier.

    claim asks whether the mechanism is the one that is claimed, robust how much right guesses show
    however canaries depend on one another, residual judges the noise that was drawn (it opens the
    sealed sidecar), membership tells the run's own people from strangers.  What may be published is
    added to the log.  Exit code 1 if the claim is contradicted, which one honest run in 1,000 is at
    most; what is unusual leaves with 0, and a low value proves nothing.  --quiet prints the claim
    tier's number.  --plot draws what was measured over what the log proves, without what is sealed.
    """
    from ...audit.attack import attack as attack_run
    from ...fl.running.signing_key import OPEN_KEY_WARNING, key_is_open, private_key
    from ..reports.attack import report_of

    with naming_install_command("plots"):
        asked.require_plot()
    request, sign_key = asked.request(), asked.sign_key
    key = None if sign_key is None else private_key(sign_key, "--sign-key")
    anchored = asked.expected()
    # A status line would break what a program reads.
    shown = not (asked.as_json or asked.quiet)
    with naming_install_command("fl"), _status(shown=shown) as tell:
        attacked_run = attack_run(
            asked.folder, request, append=not asked.no_append, key=key, progress=tell, **anchored
        )
    answer = report_of(attacked_run, asked.folder)
    if sign_key is not None and key_is_open(sign_key):
        open_key = OPEN_KEY_WARNING.format(path=shlex.quote(str(sign_key)))
        answer = replace(answer, warnings=(*answer.warnings, open_key))
    if asked.plot is None:
        return answer
    from ..reports import plots

    return plots.with_plot(answer, plots.chart_of_attack(asked.folder, attacked_run), asked.plot)


@contextmanager
def _status(*, shown: bool) -> Iterator[ProgressReporter | None]:
    """Show what is being done, on a terminal only; yield what is to be told."""
    if not (shown and sys.stderr is not None and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading the log") as status:
        yield lambda sentence: status.update(plain(sentence))
