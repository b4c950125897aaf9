"""By how much one unit can move what is released, system by system.

`fedpower` (private power iteration), `functional` (noise on the coefficients of an objective),
`wishart` (covariance with Wishart noise, and what to use instead), `selection` (exponential
mechanism), `uldp` (per-user clipping across silos).  Each gives a `Sensitivity`, which holds for
one relation between data sets, and from it a `Release`: the event to account, the relation to
account it under, the observer, and the conditions that a run must meet.

Sensitivities are rounded up and noise multipliers down, so that an event never says less than
the truth.  Formulas that a paper prints and that are no guarantee are plain numbers from
functions called `..._as_published`: none of them can become an event here.
"""
