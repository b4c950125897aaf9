"""Taking the noise of all nodes but a hidden one off a sum, under Paillier encryption."""
