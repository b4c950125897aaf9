"""The budget ledger: a service that many spend from, and that nobody overspends.

A *data set* has a cap (epsilon at delta), a currency that is fixed before its first claim, and
blocks: each unit lies in one block, by a public assignment.  A *claim* asks for the price of an
event in some blocks.  The service prices it, charges every block and the project in one
transaction, and writes an entry into the hash chain of the data set; what was begun is spent.

The ledger counts what it is told.  A release that nobody claimed is not in it.

The other ledger of this floor, `audit.ledger`, is what a run's log says of its phases.

- `serving`, `app`, `service`: the process, the addresses it answers, and the service behind them.
- `addresses`, `claim_addresses`, `data_set_addresses`, `description`, `problems`: each address: who
  may ask, what it does, what OpenAPI says of it; refusals as problem details.
- `claiming`, `claims`, `books`, `writer`: a claim from request to release: decided, charged under a
  lock, written in groups.
- `pricer`, `pricing_process`, `stating`: prices of strangers' events, in processes that can be
  ended; events for another unit.
- `owners`, `limits`, `daily_limits`, `tokens`, `names`, `terms`: data sets, caps, freezing, shares,
  what a holder may claim in a day, tokens, and what is promised of whom.
- `balances`, `database`, `database_file`, `tables`, `versions/`: balances in whole units, and how
  they are stored.
- `signer`, `witness`, `rotation`, `audited`, `audit_limits`, `replayed`, `replayed_fields`: heads
  and receipts, who keeps them, key changes, and audits of an exported history.
- `restoring`, `restored_gap`, `startup_check`, `startup_rows`: a database restored from a backup,
  and checks before anything is served.
- `slow_senders`, `large_bodies`: connections whose requests do not come, and bodies that take long
  to be read.
"""
