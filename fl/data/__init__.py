"""Who holds which records: federations, their allocation, moments and scales.

- `federation`, `groups`, `row_contents`: who holds which records, by user and silo.
- `allocation`, `rating_federation`: records dealt at random; ratings by whole rows.
- `normalise`, `moments`: features scaled by public constants or noised moments.
- `held_out`, `bad_labels`: users held out of the training; labels drawn at random for studies.
"""
