"""Runs over a real network: each silo's guard decides, a server sums, and others only carry.

- `plan`, `planned_run`, `supported`: the plan that all sign, the run it describes, and which runs
  can go.
- `guard`, `silo_run`, `silo_seat`, `silo_status`, `journal`, `guard_log`: a silo's process.
- `hub`, `server_seat`, `conversation`, `wire`: the server, and what travels.
- `courier`, `pending_task`: whom the server asks again and how long it waits; what a guard keeps of
  a task.
- `flower`, `flower_app`: Flower as the carrier.
- `demo`, `demo_hospitals`: a network on one machine.
"""
