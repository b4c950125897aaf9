"""The pages of `privplan explain` about the five published systems.

Every number in them is a row of `privplan claims`, rounded as that table rounds: what is proven
up, what is shown down.  A test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_ULDP: Final = """\
ULDP-FL: one promise for all records of a user, in all silos

Hospitals train together, and one patient may be known to several of them.  Uldp-FL
promises privacy for the patient, not for the record, in four ways: it clips each silo's
update (NAIVE), converts a record's guarantee into one for k records (GROUP), or clips the
weighted sum of a user's updates (AVG and SGD).  The setting here is noise 5 and delta
1e-5.

What holds
  - AVG and SGD are sound: a user who comes or goes moves the sum by one clip.  The
    paper's Renyi accounting gives 10.73 for 100 rounds, the exact curve 9.998; with a
    tenth of the users in each round it gives 0.835, and 0.7584 is enough.
  - GROUP is sound in kind, and its numbers are far too large.  The paper's figure prints
    2.85 for one record, 2151.98 for 32 and 11416.54 for 64.  Proven are 2.627, 295.8 and
    1,012.  The last two of the printed points use Mironov's rule at orders where it
    fails, so their derivation is invalid; they happen to lie above the truth.

Where it breaks
  - NAIVE (Theorem 3) counts that a user moves a silo's clipped update by C.  The update
    may go from one side of the ball to the other: 2C.  At 100 rounds it claims 10.73, and
    the truth is 24.38.  A linear loss attains it in every silo and every round.
  - The definition of neighbours lets a user's records be exchanged for others.  That
    moves the sum by 2C as well, so AVG's 10.73 is 24.38 for that reader.
  - The sample is drawn by the server, so from the server it hides nothing: not 0.835 but
    9.998.
  - A silo knows its own noise.  Where weights follow the records, a user whom it does not
    know loses 11.48 to it at 100 rounds instead of 10.73; with uniform weights it is 8.721.
  - A silo that holds one of a user's records applies its weight, n_su / N_u.  In the clear
    it knows N_u from that, without any noise, and so whether the user has records anywhere
    else: no guarantee.  Where nobody sees the weights it is 28.35: when the others go, that
    record's weight grows to 1.
  - Protocol 1 (encrypted weights) adds noise in multiples of a common multiple of all
    counts.  Modulo that number the server reads a noise-free function of the raw updates,
    and its ciphertexts show the server the randomness that it encrypted with, raised to
    these updates: no guarantee.

Private weighting is for parties that follow the protocol
  Nobody checks what a party encrypts, so every number of private weighting rests on all
  silos and the server following it.  If they do not:
  - A silo that enrols with false counts makes the weights of others what it likes.  With
    minus ten records for a user who has ten elsewhere, N_u is the dummy alone, the user's
    weights sum to 10, and epsilon 8 is 209.
  - A silo that holds one record and sends for it fifty times the clip finds fifty clips
    over N_u in the model, and reads N_u.
  - A server that encrypts 10 / N_u in the place of 1 / N_u turns 8 into 209 too.
  - A server and a silo that tell each other what they know have r_u N_u and r_u, so N_u:
    there is no number for such a coalition, and its row says so.

Who else sees more than the number beside it says
  - Colluding silos take their shares of the noise away.  Of 5 silos, where four shares
    prove 8, two that collude with the server leave it two shares where it says of one more
    that it is missing: 12.26; where nobody is missing, three: 9.53.  They know the sample.
    `colluders` in [security] makes the masks for so many and adds the row, `observer` in
    [privacy] makes noise and claim for it ("server+2").
  - By records in the clear every number rests on N_u reaching nobody but silos that hold
    some of the user's records.  No message of privplan carries it, as each silo is given
    its weights beforehand.  With weighting = "uniform" no N_u is needed; private weighting
    keeps it from all.

What to do instead
  Use AVG with uniform weights, and with the number of users, silos and the rate fixed and
  public; cap what each user can weigh, and account for it exactly.  Where users may be
  exchanged, double the noise.  Against a server that samples, count rate 1. In an
  encrypted sum, let the noise reach every residue and hide the ciphertexts' randomness,
  as aggregation = "private-weighting" does: the server is left with 9.998, and with
  0.7584 where users are drawn by oblivious transfer; a silo that has nothing of the user,
  with 0.8628. Do not convert: even the exact number for 32 records promises nothing.

Source: Kato et al. 2024, arXiv 2308.12210.
All numbers: privplan claims uldp-fl.
"""

_FLAME: Final = """\
FLAME: hiding in the crowd, coordinate by coordinate

Users of federated learning send noisy coordinates of their updates through shufflers,
which mix the messages of all users.  SS-Simple sends every coordinate, SS-Double a random
tenth or fiftieth of them, SS-Topk the largest; the last two pad each coordinate with
dummies.  The setting here: 1,000 users, 7,850 coordinates, local epsilon 78.5 for a whole
update, delta 0.01 / n^1.1.

Where it breaks
  - Theorem 4 counts the same secret twice.  That only k coordinates differ needs index
    sets that are known; that each is amplified by sampling needs index sets that are
    hidden.  With a correct bound for a coordinate the formula still falls below the
    truth: 0.007548 where at least 0.007763 is shown, 0.01571 where 0.02589 is; at delta 0
    it says 4.048 where the truth is 78.5.
  - SS-Topk's 0.24 is false.  The largest coordinates depend on the data, so choosing them
    is no sampling, and amplifies nothing.  Even if no coordinate overflows its padding,
    an exact test shows 1.28, and 1.45 is what can be proven.  As specified they can
    overflow (333 places for 1,000 users), which is visible: no guarantee at all.  With a
    tenth of the coordinates the text says 2.348; 2.12 is shown and 2.40 proven, so that
    one stays open.
  - Read as printed, the algorithms shuffle whole tuples.  Then a tuple of 157 messages
    stays together, and SS-Double has at least 7.133, not 0.24; its noise alone proves
    40.28.
  - Hiding which indices are one's own ("nu = 3.125") is a statement about one prior and
    one round.  Over 5 rounds, decoys change and the largest coordinates stay: 44.18.
  - The program computes with a bound for shuffling that was mistyped, and was corrected
    at its source later: its deltas are too small by a factor that grows with the number
    of users.
  - The baseline takes its noise from a formula that fails above 1: where it says 20.53 it
    has 26.00.  So methods that are compared at equal epsilon do not have equal epsilon.

What holds
  - SS-Simple claims 0.91, and has between 0.0900 and 0.0904 if every coordinate is
    shuffled by itself.  SS-Double claims 0.24, and has between 0.150 and 0.158.  So
    tight accounting reverses their order: sending everything with much noise hides more
    than sending little with less.
  - Where SS-Topk claims no sampling gain it says 20.53, and 1.45 is enough.
  - Figure 3 prints amplification by 2.55 and 137.36, from closed forms.  What is proven
    is 24.4 for SS-Simple where those say 23,740, and 0.424 for SS-Double where they say
    8.824.

What to do instead
  Shuffle each coordinate by itself, choose coordinates at random, pad to the number of
  users, and let privplan compose the shuffled rounds: {"type": "sampled-shuffle", ...}.
  Use no closed form and no rule of thumb: see privplan explain shuffle.

Source: Liu et al. 2021, arXiv 2009.08063v4, and Rachelxuan11/FLAME.
All numbers: privplan claims flame.
"""

_DISCO: Final = """\
DISCO: local privacy for each tensor, with a radius taken from the data

DISCO trains in browsers, without a server that sees updates.  Each client clips the
update of every tensor to a radius and adds Gaussian noise, by the classical formula, at
epsilon / R and delta / R for each of R rounds.  The radius is the mean norm of that
tensor's last updates, and never more than a limit.  A user asks for epsilon 10 at delta
1e-5.

Where it breaks
  - The radius depends on the update that it is to protect, and the noise is proportional
    to it.  Whoever sees the noisy update sees how large its noise is, hence how far the
    tensor moved.  A tensor that did not move is told from one that did at any epsilon up
    to 4.999e+11: there is no guarantee, at any epsilon that means something.
  - Suppose that all radii were public constants.  Then rounds share the budget, but
    tensors do not: each round releases every one of them at the full epsilon / R.  In one
    round, one tensor costs 10.40 (the formula is proven below 1 only; at 16 and 20 it
    costs 18.90 and 25.45), and 6 tensors cost 33.63.  In 5 rounds 6 tensors cost 10.75,
    in 20 rounds 50 tensors 16.06 and 150 tensors 33.53.
  - Adding up epsilons over rounds is so wasteful that it sometimes makes up for all that:
    20 rounds of 6 tensors cost 4.424.  That is luck, not an argument.

What to do instead
  Clip the whole update to one radius that is public: fixed, taken from public data, or
  computed from earlier *noisy* sums.  Calibrate the noise for all rounds together by the
  exact curve: privplan calibrate, with neighbours replace-one.  For 20 rounds and 6
  tensors epsilon 10 then needs half of DISCO's noise, and has a proof.

Source: epfml/disco, discojs/src/privacy.ts.
All numbers: privplan claims disco.
"""

_FEDPOWER: Final = """\
FEDPOWER: private power iteration, and what an element of a matrix protects

Clients hold rows of a matrix A (in ratings, a row is a user) and want its leading
singular vectors.  Each multiplies a public Z by its M = A^T A / s and adds Gaussian
noise; a server averages and orthonormalises.  The setting here: rank 10, MovieLens-100k
over 100 nodes of 9 rows, noise such that the paper says epsilon 1 at delta 1e-5 for a
round.

What holds
  - As arithmetic, Theorems 1 and 2 are true and loose: if one element of M changes, a
    round costs 0.7510.  Over 92 rounds the paper adds up to 92, at delta 9.2e-4, where
    the exact curve gives 7.532; at delta 1e-5 in all it gives 9.873.
  - Algorithm 3, with noise shared out among the clients and one step a round, has that
    same number against the server, 7.532.

Where it breaks
  - No data changes one element.  M is symmetric, so its mirror image moves too (1.099),
    and a single rating moves a whole row and column: at least 3.586, at most 6.285, where
    1 was said.
  - A user is a row.  Removing one costs 182.5 in a round, replacing one 327.4, and 92
    rounds without one 11,299, where 92 was said.  A whole node costs 10,133.
  - Algorithm 2 subtracts all noises but one, so that less remains.  With probability 1/n
    it is your own noise that remains, and you see the exact sum: delta is at least
    0.00999 in one round among 100 clients, and 0.6033 in 92, whatever the noise.
  - Algorithm 3 with four steps a round adds a tenth of the noise to the steps between
    sums.  What can be proven is 200.1 at most; no attack is known that gets there.  So 92
    is unproven.

What to do instead
  Say which change of the data is hidden, and clip rows to a public norm: removing a row
  then moves the product by that norm squared over s.  Take one step a round (p = 1), keep
  all noise in the sum, and account for all rounds together.  For few rounds, or strict
  targets, a single noisy covariance matrix is better than many noisy products.

Source: Liu, Pejo and Tang 2023, Applied Sciences.
All numbers: privplan claims fedpower.
"""

_DELM: Final = """\
DELM: a functional mechanism, a private PCA and a shuffler, said to give epsilon 1

Clients of 600 records reduce dimensions by a private PCA (epsilon 0.6), train on
objectives with noisy coefficients (1.2 in each of 250 rounds), choose what to send by a
private selection (3), and send it layer by layer through a shuffler, which is said to
divide epsilon by the number of layers, 3: max(0.6 + 1.2/3, 3/3) = 1.

Where it breaks
  - The PCA adds a Wishart matrix.  Its proof compares densities and forgets supports: if
    a record cannot be subtracted from what was released, the record is absent.  The exact
    delta is 0.4512, at every epsilon.  So the PCA is no guarantee, and neither is the
    whole.
  - Shuffling layers does not divide epsilon.  The formula is that of a sample of which
    one part is seen; a shuffler shows all parts.  Counterexample: randomized response,
    with all other users equal.  The event that all messages agree keeps the whole 1.2,
    where 0.4 was said.  At delta 1e-5 and 100 clients, a message of epsilon 1.2 has
    between 0.529 and 0.575, not 0.4, and one of epsilon 3 has 2.999, not 1; and that
    only if a client's whole report is private, not a record in it.
  - Nothing is composed.  That each of 250 rounds is 1.2-private proves 224.6.

What holds
  - The selection is free if it looks at gradients that are private already.  On raw
    gradients, 17.09 would be proven.
  - For a linear logistic model the training does meet epsilon 1, by another argument: the
    noise is made for the L1 norm of all coefficients and one record moves little of it in
    L2.  With every feature at most 1 in size, 0.1714 is proven; with norms at most 1,
    0.0009969.  So the training's number is unproven by its argument, and not false.
  - With a sound PCA, and noise that is drawn once and reused, 1.8 follows for one record;
    for all 600 records of a client, 1,080.

What to do instead
  Replace the Wishart matrix by symmetric Gaussian noise on the covariance; draw the noise
  of the objective once; account for records and clients separately; claim no
  amplification from layers.

Source: Cao et al. 2023, Chinese Journal of Computers.
All numbers: privplan claims delm.
"""

SYSTEM_PAGES: Final[Mapping[str, tuple[str, str]]] = {
    "uldp-fl": ("Uldp-FL: privacy for users across silos", _ULDP),
    "flame": ("FLAME: shuffled and sampled coordinates", _FLAME),
    "disco": ("DISCO: local privacy with a radius from the data", _DISCO),
    "fedpower": ("FedPower: private power iteration", _FEDPOWER),
    "delm": ("DELM: noisy objectives, PCA and a shuffler", _DELM),
}
"""Name -> what it is about in a few words, and the page."""
