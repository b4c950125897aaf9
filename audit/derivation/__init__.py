"""From the facts of one round to the event that they prove before one observer.

- `round_facts`, `run_setting`: what the records of a round and of the whole run state: rates,
  batches, units, relation.
- `supported_event`: the event that facts support for each observer; begin here.
- `sums`, `matrix_views`, `messages`, `noise`: sums with shared noise, matrices of rows, messages
  with noise of their own.
- `sampling`, `shuffled_messages`: against whom a sample hides a unit; messages without senders.
- `believed_reach`, `counted_reaches`, `protocol_consistency`: what reaches whom, and how far that
  is believed.
- `correlated_rounds`, `event_order`: rounds that share noise; which of two events protects less.
"""
