"""The runs that a description allows: what it mentions and leaves open, pinned in every way.

- `subjects`, `completion`, `facts`: what may be left open, and one run in which it is pinned.
- `sampling`, `clients`, `passes`, `schedule`: rates, who is drawn, steps and epochs.
- `designs`, `pricing`: who is drawn, who is clipped, what a batch counts; and what each loses.
"""
