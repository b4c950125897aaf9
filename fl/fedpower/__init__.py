"""FedPower: power iterations over nodes that keep their data."""
