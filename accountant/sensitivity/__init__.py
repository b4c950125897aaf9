"""By how much one unit can move what is released, system by system.

`fedpower` (private power iteration), `functional` (noise on the coefficients of an objective),
`wishart` (covariance with Wishart noise, and what to use instead), `selection` (exponential
mechanism), `uldp` (per-user clipping across silos).  Each gives a `Sensitivity`, which holds for
one relation between data sets, and from it a `Release`: the event to account, the relation to
account it under, the observer, and the conditions that a run must meet.

Sensitivities are rounded up and noise multipliers down, so that an event never says less than
the truth.  Formulas that a paper prints and that are no guarantee are plain numbers from
functions called `..._as_published`: none of them can become an event here.

- `release`: `Sensitivity` and `Release`, rounded to the safe side.
- `uldp`, `silos`: a user's rows across silos: clipped and weighted, or joined by each silo's own
  coin.
- `fedpower`, `fedpower_views`, `product`: power iterations: products A^T A Z, and who sees what of
  them.
- `gram`, `wishart`: sums of x x^T and x y^T; Wishart noise on a covariance.
- `functional`: coefficients of an objective (functional mechanism).
- `selection`: exponential selection by scores.
- `matrix/`: correlated noise: the columns of a strategy in the rounds of one unit.
"""
