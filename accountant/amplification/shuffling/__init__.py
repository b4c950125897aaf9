"""What a shuffler adds to local randomizers: upper bounds, and attained pairs from below.

- `rounds`: one shuffled round, whatever its randomizer: bound, pair and tests; begin here.
- `blanket`, `randomizers`: the privacy blanket bound, and the blanket that each local randomizer
  leaves.
- `clones`, `closed_forms`: bounds for messages of which only epsilon0 is known; formulas that can
  be written down.
- `binary_counts`, `attained`: exact laws and tests on concrete data, for lower bounds.
- `counting`: the same where each user sends some coordinates: counts over all of them.
- `double`, `overlap`: some coordinates of each user, each shuffled with its own kind; chosen at
  random, or by the data.
- `mixer`: who mixes the messages, and knows senders and dummies.
- `profile`: a certified hockey stick as a pair of distributions.
- `binomials`, `lattice`: probabilities of binomial numbers and of sums of small integers, between
  bounds.
"""
