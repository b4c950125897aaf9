"""Opacus: an accountant with certified numbers, and a log of an ordinary training.

    import privplan.audit.adapters.opacus            # registers the accountant "privplan"
    engine = PrivacyEngine(accountant="privplan")
    with pp.logged(engine, "out", plan=plan):        # before make_private
        model, optimizer, loader = engine.make_private(...)
        ...                                          # the training as it was

The observer writes what the optimizer and its loader are about to do, and not what anybody says of
them: the intent is on the disk before `add_noise` draws, or the step raises.  Found from the run
itself are a loader that shuffles, another loader than the private one, noise or clip that change,
a step of the inner optimizer without noise, noise that is drawn again from the same state, a seed,
a rate above the plan's, draws that are accumulated, and a divisor that follows a private number of
records.  Opacus divides by int(n / len(loader)): under add-remove a plan needs a public `divisor`,
which is set on the optimizer.

Adaptive clipping divides a noisy count by the size of the batch as it was, so the clip follows that
size: the log says so, and no number holds.  A step that skips an empty batch is seen as a draw that
was not used, and sealed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import InvalidInput, MissingExtra
from ...accountant.guarantee import Bounds
from .canary_files import CANARIES, CanaryCoins, ObservationWriter, coins_for
from .epsilon_by_step import EpsilonBySteps, SpentEpsilon, epsilon_of
from .replacements import Replacements
from .run_log import RunLog
from .training_plan import TrainingPlan

try:
    import torch
    from opacus.accountants import IAccountant, register_accountant
    from opacus.optimizers import DPOptimizer
    from opacus.version import __version__ as opacus_version

    from .opacus_canaries import CanaryGradients, require_supported
    from .opacus_observer import ObservedOptimizer
except ImportError as error:
    raise MissingExtra(
        "Opacus is not installed.",
        "The adapter for it works inside of that library.",
        'python -m pip install "privplan[opacus]"',
    ) from error

MECHANISM: Final = "privplan"


class CertifiedAccountant(IAccountant):  # type: ignore[misc]
    """An accountant of Opacus whose epsilon is an upper end, under add-remove.

    It supposes what theirs do: Gaussian noise on Poisson samples.  Asked after every step it stays
    within 1 % of the truth; `refine=True` gives the tight number.
    Source: the numbers are those of `pp.account`.
    """

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []
        self._asked: dict[float, EpsilonBySteps] = {}

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count one step more."""
        last = self.history[-1] if self.history else None
        if last is not None and last[:2] == (noise_multiplier, sample_rate):
            self.history[-1] = (noise_multiplier, sample_rate, last[2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def get_epsilon(self, delta: float, *_: Any, refine: bool = False, **__: Any) -> float:
        """Return an epsilon, in nats, at which all steps are (epsilon, delta)-DP."""
        return self.get_epsilon_bounds(delta, refine=refine).upper

    def get_epsilon_bounds(self, delta: float, *, refine: bool = False) -> Bounds:
        """Return both ends of epsilon at `delta` in (0, 1); `refine` asks for the tight ones."""
        if refine or any(noise == 0.0 for noise, _, _ in self.history):
            return epsilon_of(self.history, delta, "add-remove")
        return self._asked.setdefault(delta, EpsilonBySteps(delta)).bounds(self.history)

    def __len__(self) -> int:
        """Return the number of steps."""
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """Return the name under which Opacus knows it."""
        return MECHANISM

    def load_state_dict(self, state_dict: Any) -> None:
        """Take over a history that `state_dict` gave."""
        super().load_state_dict(state_dict)
        self.history = [(float(noise), float(rate), int(n)) for noise, rate, n in self.history]
        self._asked = {}


register_accountant(MECHANISM, CertifiedAccountant, force=True)


@contextmanager
def logged(
    privacy_engine: Any,
    folder: str | Path,
    *,
    plan: TrainingPlan,
    optimizer: Any = None,
    data_loader: Any = None,
    module: Any = None,
    metrics: Callable[[SpentEpsilon], object] | None = None,
    canaries: int | None = None,
) -> Iterator[LoggedTraining]:
    """Log the training of a privacy engine of Opacus under a plan.

    Entered before `make_private`, it observes what that returns; given an `optimizer` and the
    `data_loader` that were made before, it observes these; ghost clipping is done by the `module`,
    which is then given as well.  In a distributed training only the
    process that draws the noise, rank 0, writes.  `metrics` is called after each step with what
    is spent.  So many `canaries` are put into the training, each by a secret coin
    (`canary_files`), for `audit attack`.  Raises `InvalidInput` for what is no optimizer of
    Opacus, `Unsupported` for one that takes no canaries, and as `RunLog` and `RunLog.step` do.
    """
    training = LoggedTraining(folder, plan, metrics, canaries)
    try:
        if optimizer is not None:
            training.observe(optimizer, data_loader, module)
        else:
            training.replacements.put(privacy_engine, "make_private", training.observing)
        yield training
    except BaseException:
        training.end(complete=False)
        raise
    training.end(complete=True)


class LoggedTraining:
    """The observer of one training: what it replaced, and the log, once there is one."""

    def __init__(
        self,
        folder: str | Path,
        plan: TrainingPlan,
        metrics: Callable[[SpentEpsilon], object] | None = None,
        canaries: int | None = None,
    ) -> None:
        self.folder, self.plan, self.metrics = Path(folder), plan, metrics
        self.canaries = canaries
        self.coins: CanaryCoins | None = None
        self.seen: ObservationWriter | None = None
        self.log: RunLog | None = None
        self.replacements = Replacements()

    def observing(self, make_private: Callable[..., Any]) -> Callable[..., Any]:
        """Return `make_private` with an observer on what it returns."""

        def observed(*arguments: Any, **options: Any) -> Any:
            private = make_private(*arguments, **options)
            module, optimizer, *_, data_loader = private
            self.observe(optimizer, data_loader, module)
            return private

        return observed

    def observe(self, optimizer: Any, data_loader: Any = None, module: Any = None) -> None:
        """Observe an optimizer of Opacus, and the loader whose batches it is to be fed."""
        if not isinstance(optimizer, DPOptimizer):
            raise InvalidInput(
                f"`optimizer` must be a DPOptimizer of Opacus; it is {type(optimizer).__name__}.",
                "Only that one clips and adds noise.",
                "Give what make_private returned.",
            )
        if data_loader is None:
            raise InvalidInput(
                "`data_loader` must be given with an optimizer.",
                "How batches are drawn decides how much is hidden, and only the loader knows it.",
                "Give the loader that make_private returned.",
            )
        observed = ObservedOptimizer(optimizer, data_loader, module, self.plan)
        if observed.ghost and not hasattr(module, "get_clipping_coef"):
            raise InvalidInput(
                "`module` must be given with an optimizer for ghost clipping.",
                "There the module clips, and to what norm it does only the module knows.",
                "Give the module that make_private returned.",
            )
        if self.canaries is not None:
            require_supported(observed, self.canaries)
        if getattr(optimizer, "rank", 0) != 0:
            return  # this process adds no noise
        if self.log is None:
            self.log = self._opened(observed)
        observed.attach(self.replacements.put, self.log)
        if self.coins is not None and self.seen is not None:
            CanaryGradients(observed, self.coins, self.seen).attach(self.replacements.put)

    def _opened(self, observed: ObservedOptimizer) -> RunLog:
        """Open the log; the coins of canaries are kept once their commitment stands in it."""
        # Only the process that writes the log draws coins.
        if self.canaries is not None:
            self.coins = coins_for(self.folder, self.canaries)
        optimizer, coins, about = observed.optimizer, self.coins, observed.about()
        log = RunLog(
            self.folder,
            self.plan,
            randomness=observed.randomness(),
            values=sum(parameter.numel() for parameter in optimizer.params),
            system="opacus",
            versions={"opacus": opacus_version, "torch": torch.__version__},
            about=about if coins is None else {**about, CANARIES: coins.stated()},
            private={"records": observed.records, "rate": observed.realised_rate},
            metrics=self.metrics,
            aggregate=self._digest,
        )
        if coins is not None:
            coins.keep(self.folder)
            self.seen = ObservationWriter(self.folder, len(coins))
        return log

    def _digest(self) -> str | None:
        return None if self.seen is None else self.seen.digest()

    def end(self, *, complete: bool) -> None:
        """Take the observer off again; close the log where the training came to its end."""
        self.replacements.undo()
        if self.log is not None:
            self.log.__exit__(None if complete else RuntimeError, None, None)
        if self.seen is not None:
            self.seen.close()
