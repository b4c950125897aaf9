"""Every released model held against the chain: is the file of each round what that round released?

A run with `save_models` keeps them, `round-000001.npz` and so on.  A model that was released and
not kept is lost where the run was cut off in between; the log shows that it went on without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput
from ...fl.log.reader import Scan
from ..ledger.entries import Entry, Ledger
from ..ledger.phases import first_release, models_of
from .lineage import released_models
from .stored_model import StoredModel

_NAME: Final = re.compile(r"round-([0-9]{6,18})\.npz")


@dataclass(frozen=True)
class Replay:
    """How files of models and the releases of a log belong together.

    `matched` are rounds whose file holds what they released, `missing` those without a file,
    `lost` those without one that a recovery explains.  `surplus` are files of no round, and
    `exchanged` files that hold something else, each with a sentence.
    """

    matched: tuple[int, ...]
    lost: tuple[int, ...]
    missing: tuple[int, ...]
    surplus: tuple[str, ...]
    exchanged: tuple[tuple[str, str], ...]

    @property
    def ok(self) -> bool:
        """Whether every file is what a round released, and no round lacks one unexplained."""
        return not (self.missing or self.surplus or self.exchanged)

    def to_json(self) -> dict[str, object]:
        """Return the replay as a JSON object."""
        return {
            "matched": len(self.matched),
            "lost": list(self.lost),
            "missing": list(self.missing),
            "surplus": list(self.surplus),
            "exchanged": [{"file": name, "what": what} for name, what in self.exchanged],
        }


def replay(folder: str | Path, models: str | Path) -> Replay:
    """Return how the files in `models` and the releases of the log in `folder` belong together.

    Raises `InvalidInput` where either is not there, and `BadLine` for a broken chain.
    """
    models_folder = Path(models)
    if not models_folder.is_dir():
        raise InvalidInput(
            f"There is no folder of models {models_folder}.",
            "A run keeps every released model where its configuration says so.",
            "Set save_models = true in [log], and give the folder models/ of the run.",
        )
    ledger = Ledger.of([Entry(line.number, line.seq, line.record) for line in Scan(folder)])
    due = released_models(ledger)
    files, surplus = _files(models_folder, due)
    of_digest = {digest: number for number, digest in due.items()}
    matched, exchanged = [], []
    for number, path in files.items():
        what = _difference(path, due[number], of_digest) or _of_another(path, number, ledger)
        if what is None:
            matched.append(number)
        else:
            exchanged.append((path.name, what))
    absent, excused = [number for number in due if number not in files], _lost(ledger)
    return Replay(
        tuple(matched),
        tuple(number for number in absent if number in excused),
        tuple(number for number in absent if number not in excused),
        surplus,
        tuple(exchanged),
    )


def _files(models_folder: Path, due: dict[int, str]) -> tuple[dict[int, Path], tuple[str, ...]]:
    """Return the files of rounds, and the names of all others; half written ones count as none."""
    files: dict[int, Path] = {}
    surplus = []
    for path in sorted(models_folder.iterdir()):
        if path.name.startswith(".") and path.name.endswith(".part"):
            continue
        name = _NAME.fullmatch(path.name)
        if name is None or int(name[1]) not in due or int(name[1]) in files:
            surplus.append(path.name)
        else:
            files[int(name[1])] = path
    return files, tuple(surplus)


def _difference(path: Path, due: str, of_digest: dict[str, int]) -> str | None:
    """Return what a file holds instead of the model that is due; None where it holds that."""
    try:
        digest = StoredModel.read(path).digest
    except InvalidInput as error:
        return error.what
    if digest == due:
        return None
    where = of_digest.get(digest)
    holds = f"the model {digest[:16]}" if where is None else f"the model of round {where:,}"
    return f"{path.name} holds {holds}; its round released {due[:16]}."


def _of_another(path: Path, number: int, ledger: Ledger) -> str | None:
    """Return of which other run or round a file says that it is; None where it says this one."""
    stored, run_id = StoredModel.read(path), ledger.opened.run_id
    if stored.run_id != run_id:
        return f"{path.name} is of the run {stored.run_id:.40}, the log of {run_id:.40}."
    if stored.round != number:
        return f"{path.name} says that its model is of round {stored.round:,}."
    return None


def _lost(ledger: Ledger) -> set[int]:
    """Return the rounds behind whose release the log goes on from the model before it.

    The last release of a run that is not closed may be on its way to the disk.
    """
    training = models_of(ledger)
    if not training:
        return set()
    end = None if ledger.closed is None else ledger.closed.model
    nexts = [*(spent.intent.model_in for spent in training[1:]), end]
    newest = max((recovery.number for recovery in ledger.recoveries), default=0)
    lost_rounds = set()
    for spent, after in zip(training, nexts, strict=True):
        release = first_release(spent)
        if release is None:
            continue
        # Two gaps are honest: the very last model of an open run, and one that a recovery skipped.
        last = spent is training[-1] and ledger.closed is None
        gone = after == spent.intent.model_in != release.model_out and newest > spent.number
        if last or gone:
            lost_rounds.add(spent.intent.round)
    return lost_rounds
