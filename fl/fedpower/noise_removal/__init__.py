"""Taking the noise of all nodes but a hidden one off a sum, under Paillier encryption.

- `driver`, `server`, `node`: a session in one process, and its parties.
- `terms`, `messages`, `introductions`: what is agreed, said, and exchanged at the start.
"""
