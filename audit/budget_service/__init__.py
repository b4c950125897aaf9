"""The budget ledger: a service that many spend from, and that nobody overspends.

A *data set* has a cap (epsilon at delta), a currency that is fixed before its first claim, and
blocks: each unit lies in one block, by a public assignment.  A *claim* asks for the price of an
event in some blocks.  The service prices it, charges every block and the project in one
transaction, and writes an entry into the hash chain of the data set; what was begun is spent.

The ledger counts what it is told.  A release that nobody claimed is not in it.

The other ledger of this floor, `audit.ledger`, is what a run's log says of its phases.
"""
