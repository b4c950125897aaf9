"""Who sees what of a round: names, what reaches whom, and the words for both.

- `names`, `words`: observers by name, and in sentences.
- `reaches`, `stated_reaches`: what of a round reaches whom, and whether what is stated can be so.
- `assumptions`, `stated_assumptions`: what a number rests on.
"""
