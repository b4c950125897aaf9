"""The referee: answers of the whole product, kept, and compared by value with those of today.

It is kept outside the default tests.  `python -m tests.referee compare` asks again what is kept in
`golden/`, and `write` keeps the answers of today, with a reason.
"""
