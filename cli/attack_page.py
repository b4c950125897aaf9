"""The page `privplan explain attack`."""

from __future__ import annotations

from typing import Final

ATTACK_PAGE: Final = """\
ATTACK: what was demonstrably lost, and is the mechanism the one that is claimed?

`privplan audit attack DIR` takes the folder of a run.  Its answers come in tiers, and no
number is made of two of them: each proves something else.

claim        Is this mechanism no weaker than the claimed one?  The run is rehearsed: the
             settings of the log once more, with canaries for users, through the same
             weights, clip, sample and noise.  A canary is a unit that a fair coin puts in
             or leaves out, and whose data are as bad as the claim allows, and worse.  The
             answer is the largest epsilon that they rule out, in the claimed family: the
             same mechanism with its noise times a factor.  It comes close to the truth
             where the mechanism is of that family, and promises nothing where it is not.
robust       How much do right guesses show, however canaries depend on one another?  From the
             same canaries, by tests that rest on the coins alone.  The number is the epsilon
             of the claim with as much noise as is still refuted; what holds of any mechanism
             at all is less, and stands beside it.  Of an honest one it is about half.
residual     Is the noise that was drawn the noise that was logged?  It opens the sealed
             sidecar, as a trusted auditor does: variance, shape, repetition, norms after
             clipping.
membership   How well are the run's own people told from strangers?  Models are trained with
             and without them, on the records themselves.  Only with --tier membership.

Every test is made at two levels, and says one of three things:

CONTRADICTED       it is rejected at the strict level: claim .0004, residual .0004, robust
                   .0002.  One call says so of an honest run at most once in 1,000, and
                   leaves with exit code 1
unusual            it is rejected at 1 - confidence only: at most one honest run in 20
                   looks like this, by each tier.  Exit code 0, and no accusation, unless
                   something else is CONTRADICTED
not contradicted   neither

Numbers are lower bounds that keep --confidence (95 %), so one may lie above an honest
claim, and is unusual then.  Membership gives estimates, accuses nobody, and takes nothing
from the other tiers' levels.  A tier that is taken alone keeps its own, so that three calls
accuse as seldom as one.  Many attacks on one run err more often: fix --confidence,
--canaries and --seed before you look, and do not choose among results.  The intervals of
membership hold about as often as they say, for many users and models.

What that costs.  Canaries by which a fault is CONTRADICTED with 5 seeds of 5, and in
brackets those by which it is unusual at least; 4 rounds of uldp-avg at epsilon 4, 10
sampled ones at 5, and at 8 an epoch whose users take turns instead of being drawn:

                               claim             robust           residual
  half of the noise           750    (150)   50,000  (750)    caught
  no clipping                 200    (100)      750  (150)    caught
  everybody in each sample    150    (100)     none  (150)    not visible
  same noise each round       200    (100)      750  (150)    caught
  weights missing             200    (100)      750  (150)    caught
  a share of 1 silo of 4      750    (200)   20,000  (750)    caught
  turns and no draws       50,000 (10,000)     none (none)    not visible

The claim tier needs at most five times as many, and residual loses none of these.  Robust
loses most, and sees nothing of a missing sample by 20,000 canaries: what it rests on
allows a few lucky guesses more often than once in 5,000.  It is there for its number.

A low value is not proof of privacy.  It says that this attack found no more, and another
one may.  What is proven stands in `privplan audit budget`.

What is rehearsed, and what is not.  A rehearsal judges the mechanism under the settings
that the log states, and touches no record of the run.  That the rounds of the log were made
under them is for `privplan audit budget`; that their noise was drawn, for the residual
tier.  --observer takes the view of somebody else (server, silo): what reaches them, and no
more.

What goes where
  log.jsonl          claim and robust, as lines `audit.result`, after the close too; no
                     private record is in them.  Membership of data that everybody has
                     (digits, breast-cancer) as well; of any other only a commitment, which
                     hides all of it
  sealed.jsonl,      membership of private records, and residual: seen before the noise, so
  sealed-report.json they are for a trusted auditor alone, and so are what the command prints
                     and the exit code that it leaves with (a scheduler keeps both)
  --no-append leaves the folder as it is.  A log that is signed takes results with its key
  alone (--sign-key), one that is being written takes none, and an unfinished run can be
  resumed afterwards.

A folder is a stranger's.  The chain is verified first; settings that do not belong to the
promise are refused; no path is taken from the folder.  Membership of records in files asks
where they are (--data), and holds them against the run's commitment where the sidecar opens
it.  Whoever can add a line to a log that is not signed can add any result, so a result in a
log is what somebody wrote there; to know, attack again.

It takes seconds; uldp-naive and uldp-group take longer, and private weighting minutes, since
each canary is encrypted there, and the few that fit show little.

Exit code 1 if a tier contradicts what is claimed; --quiet prints the claim tier's number.

Sources: Nasr et al. 2023, arXiv 2302.07956 (the claimed family); Steinke, Nasr and
Jagielski 2023, arXiv 2305.08846, and Mahloujifar, Melis and Chaudhuri, arXiv 2410.22235
(one run, any mechanism); Carlini et al. 2022, arXiv 2112.03570, and Zarifzadeh, Liu and
Shokri 2024, arXiv 2312.03262 (membership).
"""
