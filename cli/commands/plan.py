"""`privplan plan`: split a budget over phases, and compare designs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..inputs import options
from ..inputs.plot_target import PlotOptions
from ..inputs.request import OutputOptions, keys_of, takes
from ..terminal.output import Report
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ..inputs.plan_design import PhaseDesign

PlanPath = Annotated[
    str | None,
    typer.Argument(
        metavar="[PLAN.toml]",
        help="Phases and target (privplan explain plan), or the configuration of a run.",
    ),
]
Epochs = Annotated[str | None, typer.Option(help="Passes over the data: 10, or 2,5,10,20.")]
Rates = Annotated[
    str | None, typer.Option(help="Probability that a record joins a step: 0.01, or 0.01,0.02.")
]
GroupSizes = Annotated[
    str | None, typer.Option(help="Records of one unit: 1, or 1,2,8 (privplan explain group).")
]
Split = Annotated[
    str | None,
    typer.Option(
        metavar="[" + "|".join(options.SPLITS) + "]", help="How noise is divided among phases."
    ),
]
Cost = Annotated[
    str | None,
    typer.Option(metavar="[" + "|".join(options.COSTS) + "]", help="What designs are compared by."),
]


@options.option_group
class PlanRequest(OutputOptions, PlotOptions):
    """A file with phases or the phase that options describe, and what is compared."""

    source: PlanPath = None
    epsilon: options.Epsilon = None
    delta: options.Delta = None
    records: options.Records = None
    batch: options.Batch = None
    epochs: Epochs = None
    rates: Rates = None
    rounds: options.Rounds = None
    sampling: options.Sampling = None
    mechanism: options.Mechanism = "gaussian"
    neighbours: options.Neighbours = "add-remove"
    group_sizes: GroupSizes = None
    split: Split = None
    cost: Cost = None
    accept_delta: options.AcceptDelta = False


@takes(PlanRequest)
def plan(context: typer.Context, asked: PlanRequest) -> Report:
    """Split a budget over phases, and compare designs.

    Describe the phases in PLAN.toml, or a single one by --records, --batch and --epochs, by
    --rates and --epochs, or by --rates and --rounds.  Lists (2,5,10) are compared in a table; with
    a file they replace what its phases say, and --sampling draws otherwise what would be a Poisson
    sample.  Of the configuration of a run it prints what each
    observer would learn, as `privplan run --dry-run` does.  A delta of 1 / records or more is
    refused without --accept-delta.  --plot draws the noise of several designs, and of a single one
    how epsilon grows with its rounds.
    """
    from ...accountant.delta_checks import require_delta_below_units
    from ..inputs.plan_design import Design, variations
    from ..reports.forecast import forecast_of, is_run
    from ..reports.plan import Comparison

    source = asked.source
    flags = _Flags(context, asked)
    with naming_install_command("plots"):
        asked.require_plot()
    # A run's configuration fixes its plan, so it is forecast and not designed.
    if source is not None and is_run(source):
        flags.refuse_with_a_run()
        if asked.plot is not None:
            raise _unplotted()
        with naming_install_command("fl"):
            return forecast_of(Path(source), accept_delta=asked.accept_delta)
    if source is not None:
        from ..inputs.plan_file import read_design

        flags.refuse_with_a_file()
        design = read_design(source)
        # Variables and privplan.toml are for single phases; a plan file says all of that itself.
        flags.only_flags = True
    else:
        design = Design((_single(flags),), neighbours=asked.neighbours)
    if flags.takes("sampling"):
        sampler = options.word(options.SAMPLERS, sampling=str(asked.sampling))
        # A sampler that is stated of one phase describes it; with a file it must change one.
        if source is not None or not design.phases[0].samples_by(sampler):
            design = design.drawn_by(sampler)
    design = replace(
        design,
        epsilon=flags.number("epsilon", design.epsilon, "positive"),
        delta=flags.number("delta", design.delta, "slack"),
        neighbours=flags.word("neighbours", design.neighbours, options.NEIGHBOURS),
        split=flags.word("split", design.split, options.SPLITS) or design.split,
        cost=flags.word("cost", design.cost, options.COSTS) or design.cost,
    )
    # Delta is compared with the largest phase: its records bound the number of units.
    require_delta_below_units(
        design.delta or 0.0,
        design.records,
        "record",
        accepted=asked.accept_delta,
        accept=options.ACCEPT_DELTA_FLAG,
    )
    varied = variations(
        design,
        flags.numbers("epochs", "positive") if flags.takes("epochs") else (),
        flags.numbers("rates", "probability") if flags.takes("rates") else (),
        flags.numbers("group_sizes", "count") if flags.takes("group_sizes") else (),
    )
    compared = Comparison.of(tuple(varied))
    if asked.plot is None:
        return compared.report()
    from ..reports import plots

    return plots.with_plot(compared.report(), plots.chart_of_designs(compared), asked.plot)


def _unplotted() -> Exception:
    from ...accountant.errors import InvalidInput

    return InvalidInput(
        "The file is the configuration of a run, and --plot does not go with it.",
        "A forecast is a number for each observer; a run has a plot once it has a log.",
        "Leave out --plot; after the run: privplan plot rounds DIR",
    )


@dataclass
class _Flags:
    """The options as they were given; with a file, only flags replace what it says."""

    context: typer.Context
    asked: PlanRequest
    only_flags: bool = False

    def takes(self, name: str) -> bool:
        """Return whether an option counts."""
        if getattr(self.asked, name) is None:
            return False
        source = self.context.get_parameter_source(name)
        return not self.only_flags or (source is not None and source.name == "COMMANDLINE")

    def refuse_with_a_file(self) -> None:
        """Raise `InvalidInput` where a flag describes a phase that the file describes too."""
        from ...accountant.errors import InvalidInput

        self.only_flags = True
        for name in ("records", "batch", "rounds", "mechanism"):
            if self.takes(name):
                raise InvalidInput(
                    f"`{name}` is described by the plan; --{name} contradicts it.",
                    "A plan file says what each of its phases is.",
                    "Change the file. Flags may replace the target, the split, the cost, epochs, "
                    "rates and group sizes.",
                )

    def refuse_with_a_run(self) -> None:
        """Raise `InvalidInput` where a flag would change what a run's configuration says."""
        from ...accountant.errors import InvalidInput

        self.only_flags = True
        given = next((name for name in keys_of(PlanRequest) if self.takes(name)), None)
        if given is not None:
            raise InvalidInput(
                f"The file is the configuration of a run, and --{given.replace('_', '-')} "
                "contradicts it.",
                "A run is planned as it is configured, so that what is printed is what would run.",
                "Change the file, and leave the flag out.",
            )

    def number(self, name: str, usual: float | None, check: str) -> float:
        """Return a number, checked; raise `InvalidInput` where nothing gives one."""
        from ...accountant import validate
        from ...accountant.delta_checks import delta_below_half

        if self.takes(name) or usual is None:
            usual = getattr(self.asked, name)
        if usual is None:
            raise _missing(name)
        checks = delta_below_half if check == "slack" else getattr(validate, check)
        return float(options.checked(checks, **{name: usual}))

    def word(self, name: str, usual: str | None, words: Sequence[str]) -> str | None:
        """Return one of some words, or what the design says."""
        if not self.takes(name) and (usual is not None or getattr(self.asked, name) is None):
            return usual
        return options.word(words, **{name: getattr(self.asked, name)})

    def numbers(self, name: str, check: str) -> tuple[Any, ...]:
        """Return a list of numbers, each checked."""
        flag = name.replace("_", "-")
        why = "Each number is a design of the table."
        return options.listed_numbers(flag, str(getattr(self.asked, name)), check, why)


def _missing(name: str) -> Exception:
    from ...accountant.errors import InvalidInput

    if name == "delta":
        return options.missing_delta(None)
    return InvalidInput(
        f"`{name}` is missing.", "Without it the noise is not determined.", options.PLAN_EXAMPLE
    )


def _single(flags: _Flags) -> PhaseDesign:
    """Return the one phase that the flags describe."""
    from ...accountant import validate
    from ...accountant.errors import InvalidInput
    from ..inputs.plan_design import PhaseDesign

    given = options.strongest(
        flags.context, {"records": ["records", "batch"], "rates": ["rates"], "rounds": ["rounds"]}
    )
    if "records" in given and len(given) > 1:
        raise InvalidInput(
            "The schedule is given twice: `records` and `batch` exclude `rates` and `rounds`.",
            "The noise depends on how often a record is used, and one description decides that.",
            options.PLAN_EXAMPLE,
        )
    # A schedule is one of: records, batch and epochs; rates and epochs; rates and rounds; rounds.
    wanted = ("records", "batch", "epochs") if "records" in given else ("rates",)
    if "records" not in given:
        if not flags.takes("rates"):
            wanted = ("rounds",) if flags.takes("rounds") else ("records", "batch", "epochs")
        elif flags.takes("rounds") == flags.takes("epochs"):
            raise InvalidInput(
                "With `rates`, give either `rounds` or `epochs`"
                + ("; both are given." if flags.takes("epochs") else "."),
                "One of them says how often a record is used.",
                options.PLAN_EXAMPLE,
            )
    values: dict[str, Any] = {}
    for name in wanted:
        if getattr(flags.asked, name) is None:
            raise _missing(name)
    if "records" in wanted:
        values = {
            name: options.checked(validate.count, **{name: getattr(flags.asked, name)})
            for name in ("records", "batch")
        }
    if "rates" in wanted:
        values["rate"] = flags.numbers("rates", "probability")[0]
    if "epochs" in wanted or ("rates" in wanted and flags.takes("epochs")):
        values["epochs"] = flags.numbers("epochs", "positive")[0]
    elif flags.takes("rounds"):
        values["rounds"] = options.checked(validate.count, rounds=flags.asked.rounds)
    mechanism = options.word(options.MECHANISMS, mechanism=flags.asked.mechanism)
    phase = PhaseDesign("run", mechanism, **values)
    complaint = phase.complaint()
    if complaint is not None:
        what, why, step = complaint
        raise InvalidInput(f"The run {what}.", why, step)
    return phase
