"""The page `privplan explain run`: every key of a configuration, from the one list of them."""

from __future__ import annotations

import textwrap
from typing import Final

WIDTH: Final = 92
_COLUMN: Final = 22

_HEAD: Final = """\
RUN: train under a plan, and keep the log that proves what was spent

A run is described by a TOML file.  `privplan run CONFIG.toml --out DIR` reads the data,
certifies the plan, and only then begins; every release stands in the log before it is made.

  [run]
  system = "uldp-avg"
  rounds = 50

  [data]
  name = "heart-disease"
  path = "data/heart_disease"

  [privacy]
  epsilon = 8.0                  # or noise_multiplier = 5.0
  delta = 1e-5

A key that is misspelt, out of range, contradicts another or has no effect is an error.  Where
"the paper's" stands as default, it is what Kato et al. 2024 used for that system and data set,
or a choice of ours where the data set is not in the paper.
"""

_TABLES: Final = {
    "run": "what is run",
    "data": "which records, and how they are dealt to users and silos",
    "privacy": "what is promised; not for a system that promises nothing",
    "training": "how models are trained",
    "security": "what the server sees",
    "evaluation": "what the model is measured on",
    "uldp": "what only Uldp-FL's systems have",
    "log": "how the log is kept; not part of what is run",
}

_TAIL: Final = """\
What a run leaves in DIR
  log.jsonl      the plan, and every release, as a chain of lines; it may be published
  sealed.jsonl   what was computed before the noise, for a trusted auditor; never publish it
  model.npz      the last model: `parameters`, a vector; and what to normalise features by
  metrics.json   what public test data say by round, and readings of epsilon
  models/        with save_models: every released model, which `audit log --models` checks
  config.toml    the configuration as it was given; a path in it may name somebody
  transcripts/   with keep_transcripts: every message that a party received, for a trusted
                 auditor; never publish it
  While it runs, checkpoint.npz holds the last released model.

Before it begins.  `privplan run CONFIG.toml --dry-run` (or `privplan plan CONFIG.toml`) writes
nothing: it prints what each observer would learn, what that rests on, and which change lowers
it most.
Observers.  `model` sees the released models, `server` what the silos send it, `silo` is one
that holds nothing of the user, `silo-with-records` one that holds some of it: before it the
records in the other silos are hidden.  `server+2` is the server with two silos that tell it all
they know.  Noise and claim are made for [privacy] observer; what the same noise proves to the
others stands beside it, and a verdict names the worst of [privacy] observers.
Weights.  Under weighting = "records" a user's weight in a silo is its share of the user's
records, so a silo that holds one of them knows how many there are in all, without any noise:
before it there is no guarantee, unless private weighting keeps the weights from it.
When it is cut off.  `privplan run --resume --out DIR` goes on, with fresh randomness and the
same plan.  What was begun is spent: the run releases that many models fewer.  A log that was
changed, another key than the one that signed it, other settings, other data or another model
are refused.  A backup that is restored forgets what was spent since: the same rounds are
released twice, and both logs are intact.  `--head HEX`, the newest head that was kept
elsewhere, refuses such a log (privplan explain log).
Normalisation.  `public` clips each feature to a public range and scales it by public
constants; no record is looked at.  `private` releases the mean and the spread of each feature
once, before the first round: every user adds one bounded row to a sum with Gaussian noise,
weighted over silos as in training.  The same budget pays for it, so a target leaves less for
training.  The fewer the users, the more the noise hides: each mean is off by about
normalisation_noise x sqrt(features) / users of half its range.  A run that is cut off in the
middle of that release has lost it, and cannot go on.
Noise and epsilon.  With epsilon alone, the least noise is found for all rounds; with
noise_multiplier alone, epsilon follows; with both, the plan is cut before the first release to
the rounds that the budget pays for, and a budget too small for one round begins nothing.
What the server sees.  Under `plain` it sees every silo's noisy update.  Under `masked` it
sees their sum alone: silos mask what they send in pairs, and the masks cancel.  Under
`private-weighting` the weights n_su / N_u of a user's records are hidden as well: silos work
on the server's encryption of 1 / N_u, and it decrypts the noisy sum and nothing else.  Counts
are capped by a public rule and one dummy is counted for everybody, so weights are a little
smaller than under `records` in the clear.  With `slots`, users are drawn by oblivious
transfer: neither server nor silos know who takes part, and both are held off by the sample.
All of this is for parties that follow the protocol; a server and a silo that tell each other
what they know undo it.  `privplan audit budget` says what each observer learns.
Seeds.  [data] seed and [training] seed are public.  [run] seed also decides the noise, so
whoever knows it can take the noise off: such a run is for tests, and its log says so.
Test data are never assumed to be public.  A metric of private records is a release that
nothing pays for, so the model is measured only where [evaluation] says that the test data are
public, and who says so, or where they come with scikit-learn; the source stands in the log.
Else there are no metrics, and all the rest is the same.  Choosing settings by looking at
results on private records costs privacy that the run does not count; [run] trials says how
often that was done.

Source: Kato et al. 2024, arXiv 2308.12210.  See also: privplan explain uldp-fl.
"""


def run_page() -> str:
    """Return the page."""
    from ..fl.declarations.registry import family_tables, keys_by_table

    families = family_tables()
    parts = [_HEAD, _systems()]
    for name, keys in keys_by_table(everywhere=True).items():
        about = families[name].about if name in families else _TABLES[name]
        lines = [f"[{name}]  {about}"]
        for key in keys:
            text = f"{key.meaning}{_for_whom(name, key.name)}.  Default: {key.default}."
            lines += _entry(key.name, text)
        parts.append("\n".join(lines) + "\n")
    return "\n".join([*parts, _TAIL])


def _systems() -> str:
    """Return the list of systems, and what is wrong with those of other packages."""
    from ..fl.declarations.declaration import PRIVPLAN_PACKAGE
    from ..fl.declarations.packages import foreign_systems
    from ..fl.declarations.registry import declared

    lines = ["Systems"]
    for name, system in declared().items():
        whose = "" if system.package == PRIVPLAN_PACKAGE else f" (package {system.package})"
        lines += _entry(name, f"{system.summary}{whose}")
    for entry in foreign_systems():
        if entry.trouble is not None:
            lines += _entry(entry.name, f"cannot be used.  {entry.trouble.what}")
    return "\n".join(lines) + "\n"


def _for_whom(table: str, key: str) -> str:
    """Return which systems have a use for a shared key, where not all have one."""
    from ..fl.declarations.registry import declared, with_use_for
    from ..fl.declarations.toml_keys import OPTIONAL_KEYS

    if (table, key) not in OPTIONAL_KEYS:
        return ""
    users = with_use_for(table, key)
    others = [name for name in declared() if name not in users]
    listed = f"not for {', '.join(others)}" if len(others) < len(users) else ", ".join(users)
    return f" ({listed})" if others else ""


def _entry(name: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        width=WIDTH,
        initial_indent=f"  {name:<{_COLUMN - 2}}",
        subsequent_indent=" " * _COLUMN,
        break_on_hyphens=False,
    )
