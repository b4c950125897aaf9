"""How canaries enter Uldp-FL's systems, and what an observer sees of them."""
