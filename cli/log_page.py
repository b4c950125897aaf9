"""The page `privplan explain log`."""

from __future__ import annotations

from typing import Final

LOG_PAGE: Final = """\
LOG: what a log proves, and against whom

A log is a chain of lines: each holds the hash of the line before.  The hash of the last line
is the head; it stands for every line.  Each verdict of `audit log`, `audit budget`, `audit
attack` and `report` says against what the log was held:

checked: chain only
    Excludes: a line that was edited, moved, repeated, inserted or taken out by somebody who
    did not build the rest of the chain anew.
    Leaves: whoever has the folder can edit a line, hash all lines after it again, and sign
    them with a key of their own.  Lines that were cut off at the end leave no trace.
checked: chain and head      (--head HEX: all 64 digits, or the first 32 and more)
    Excludes, for the line with that head and all lines before: every change and every cut
    since the head was written down elsewhere.
    Leaves: lines after it, which may be anybody's, and whatever was wrong by then.
checked: chain and key       (--public-key FILE)
    Excludes: every line that the owner of that key did not sign.  An end that is not signed
    is an error.
    Leaves: what the owner of the key does; and an older log of theirs, which ends with a
    signature too.  Only a head that was kept elsewhere tells that lines came after it.

A signature is also checked where no key is given, by the key that stands beside it.  That
says that the lines belong to one signature, and not whose: "by key ab12cd34..., whose owner
is not known".  Compare it with the key that the owner publishes.

A log proves nothing by itself against its owner, who can write one of a run that never was,
with every digest consistent.  So the audits look for what cannot be made to fit so easily:
  - what the configuration in the first line and the code determine (clip, noise, rounds,
    rate, protocol, ...), beside what every line states;
  - what follows from one line to the next: models, streams of noise, counts;
  - what each round must have sealed, and of which release a sealed item says it is.
What differs is an error and names both values.  What a log does not say, as an earlier
version wrote it, or what this installation cannot compute, is "not stated": neither right
nor wrong.

What to keep, and where
  The head that `privplan run` prints, in a place that the owner of the folder cannot write: a
  mail, a registry, a notebook.  It may be published, as the log may.
  The sealed sidecar, for a trusted auditor alone.  With --sealed, and in the tier residual, a
  verdict says how many rounds and values it tested; none tested is none found.

Going on with a run.  `privplan run --resume` takes the log as it finds it.  A backup that was
restored forgets what was spent since: both copies are intact, and the same rounds are
released twice.  `privplan run --resume --head HEX` refuses a log without the newest head.

Without the package `cryptography` a log is audited as well; its signatures read "not
checked", and --public-key cannot be taken (exit code 4).

Sources: SHA-256, FIPS 180-4; Ed25519, RFC 8032.
"""
